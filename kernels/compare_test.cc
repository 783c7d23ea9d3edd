#include <cmath>
#include <cstdint>
#include <limits>

#include "gtest/gtest.h"
#include "kernels/kernel_tester.h"

namespace pto::kernels {
namespace {

int64_t Mismatches(TestTensor& a, TestTensor& b, double tolerance, uint32_t blocks = 1) {
  TestTensor mismatches(PTO_I64, {1});
  EXPECT_EQ(
      RunKernel(Builtin("compare"), {&a, &b, &mismatches}, {FloatScalar(tolerance)}, blocks).code,
      0);
  return mismatches.Int(0);
}

int64_t FloatMismatch(uint32_t dtype, double a, double b, double tolerance) {
  TestTensor left(dtype, {});
  TestTensor right(dtype, {});
  left.SetFloat(0, a);
  right.SetFloat(0, b);
  return Mismatches(left, right, tolerance);
}

int64_t IntMismatch(uint32_t dtype, int64_t a, int64_t b, double tolerance) {
  TestTensor left(dtype, {});
  TestTensor right(dtype, {});
  left.SetInt(0, a);
  right.SetInt(0, b);
  return Mismatches(left, right, tolerance);
}

TEST(CompareTest, CountsInAllLayouts) {
  ForAllCases([](uint32_t dtype, const Shape& shape, Layout layout, uint32_t blocks) {
    TestTensor a(dtype, shape, layout);
    TestTensor b(dtype, shape, Other(layout));
    a.Randomise(1);
    int64_t changed = 0;
    for (int64_t i = 0; i < a.size(); ++i) {
      b.SetBits(i, a.Bits(i));
      if (i % 5 != 2) continue;
      // Far enough to differ in every type.
      if (IsFloat(dtype)) {
        b.SetFloat(i, a.Float(i) + 1);
      } else {
        b.SetBits(i, a.Bits(i) ^ 1);
      }
      ++changed;
    }
    EXPECT_EQ(Mismatches(a, b, 0, blocks), changed);
  });
}

TEST(CompareTest, ToleranceIsAbsoluteAndRelative) {
  for (uint32_t dtype : {PTO_F32, PTO_F16, PTO_BF16}) {
    // 0.25 + 0.25 * 4 = 1.25
    EXPECT_EQ(FloatMismatch(dtype, 5.25, 4, 0.25), 0);
    EXPECT_EQ(FloatMismatch(dtype, 5.5, 4, 0.25), 1);
    EXPECT_EQ(FloatMismatch(dtype, 2.75, 4, 0.25), 0);
    EXPECT_EQ(FloatMismatch(dtype, -5.5, -4, 0.25), 1);
    EXPECT_EQ(FloatMismatch(dtype, 0.25, 0, 0.25), 0);
    EXPECT_EQ(FloatMismatch(dtype, 0.0, -0.0, 0), 0);
  }
  for (uint32_t dtype : {PTO_I32, PTO_I64}) {
    EXPECT_EQ(IntMismatch(dtype, 105, 100, 0.05), 0);
    EXPECT_EQ(IntMismatch(dtype, 106, 100, 0.05), 1);
    EXPECT_EQ(IntMismatch(dtype, -106, -100, 0.05), 1);
  }
}

TEST(CompareTest, NanAndInfinity) {
  for (uint32_t dtype : {PTO_F32, PTO_F16, PTO_BF16}) {
    for (double tolerance : {0.0, 0.5}) {
      EXPECT_EQ(FloatMismatch(dtype, NAN, NAN, tolerance), 0);
      EXPECT_EQ(FloatMismatch(dtype, NAN, 1, tolerance), 1);
      EXPECT_EQ(FloatMismatch(dtype, 1, NAN, tolerance), 1);
      EXPECT_EQ(FloatMismatch(dtype, INFINITY, NAN, tolerance), 1);
      EXPECT_EQ(FloatMismatch(dtype, INFINITY, INFINITY, tolerance), 0);
      EXPECT_EQ(FloatMismatch(dtype, INFINITY, -INFINITY, tolerance), 1);
      EXPECT_EQ(FloatMismatch(dtype, INFINITY, 1, tolerance), 1);
      EXPECT_EQ(FloatMismatch(dtype, 1, INFINITY, tolerance), 1);
    }
  }
}

TEST(CompareTest, LargestIntegers) {
  const int64_t max = std::numeric_limits<int64_t>::max();
  const int64_t min = std::numeric_limits<int64_t>::min();
  EXPECT_EQ(IntMismatch(PTO_I64, max, min, 0), 1);
  EXPECT_EQ(IntMismatch(PTO_I64, min, max, 0.5), 1);
  EXPECT_EQ(IntMismatch(PTO_I64, min, max, 2.5), 0);
  // As doubles they would be equal.
  EXPECT_EQ(IntMismatch(PTO_I64, max, max - 1, 0), 1);
  EXPECT_EQ(IntMismatch(PTO_I32, std::numeric_limits<int32_t>::min(),
                        std::numeric_limits<int32_t>::max(), 0),
            1);
}

TEST(CompareTest, ToleranceMustBeANumberThatIsNotNegative) {
  TestTensor a(PTO_F32, {1});
  TestTensor mismatches(PTO_I64, {1});
  for (double tolerance : {-1.0, static_cast<double>(NAN)}) {
    const RunResult result =
        RunKernel(Builtin("compare"), {&a, &a, &mismatches}, {FloatScalar(tolerance)});
    EXPECT_NE(result.code, 0);
    EXPECT_NE(result.error.find("compare: tolerance is "), std::string::npos) << result.error;
  }
}

TEST(CompareTest, RefusesWhatDiffers) {
  TestTensor a(PTO_F32, {2, 3});
  TestTensor b(PTO_F32, {3, 2});
  TestTensor half(PTO_F16, {2, 3});
  TestTensor mismatches(PTO_I64, {1});
  TestTensor two(PTO_I64, {2});
  const pto_kernel_info& info = Builtin("compare");
  EXPECT_EQ(info.arguments[2].dtypes, PTO_DTYPE_BIT(PTO_I64));
  EXPECT_EQ(CheckKernel(info, {&a, &a, &mismatches}), "");
  EXPECT_EQ(CheckKernel(info, {&a, &b, &mismatches}),
            "compare: shapes differ: a is [2,3], b is [3,2]");
  EXPECT_EQ(CheckKernel(info, {&a, &half, &mismatches}),
            "compare: element types differ: a is F32, b is F16");
  EXPECT_EQ(CheckKernel(info, {&a, &a, &two}),
            "compare: mismatches is [2], expected one element, such as [1]");
  EXPECT_EQ(CheckKernel(info, {&a, &a}), "compare: takes 3 tensors, got 2");
}

}  // namespace
}  // namespace pto::kernels
