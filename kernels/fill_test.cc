#include <cmath>
#include <cstdint>
#include <limits>

#include "gtest/gtest.h"
#include "kernels/kernel_tester.h"

namespace pto::kernels {
namespace {

TEST(FillTest, SetsEveryElementAndNoOther) {
  ForAllCases([](uint32_t dtype, const Shape& shape, Layout layout, uint32_t blocks) {
    TestTensor out(dtype, shape, layout);
    EXPECT_EQ(RunKernel(Builtin("fill"), {&out}, {FloatScalar(-3.3)}, blocks).code, 0);
    for (int64_t i = 0; i < out.size(); ++i) {
      if (IsFloat(dtype)) {
        ASSERT_EQ(out.Float(i), RoundTo(dtype, -3.3)) << i;
      } else {
        ASSERT_EQ(out.Int(i), -3) << i;
      }
    }
    EXPECT_TRUE(out.GapsUntouched());
  });
}

TEST(FillTest, UnusualValues) {
  const auto filled = [](uint32_t dtype, double value) {
    TestTensor out(dtype, {2});
    EXPECT_EQ(RunKernel(Builtin("fill"), {&out}, {FloatScalar(value)}).code, 0);
    return IsFloat(dtype) ? out.Float(1) : static_cast<double>(out.Int(1));
  };
  EXPECT_EQ(filled(PTO_F32, 1e300), INFINITY);
  EXPECT_EQ(filled(PTO_F16, 65519), 65504);
  EXPECT_EQ(filled(PTO_F16, 65520), INFINITY);
  EXPECT_EQ(filled(PTO_BF16, -INFINITY), -INFINITY);
  EXPECT_TRUE(std::isnan(filled(PTO_F16, NAN)));
  EXPECT_EQ(filled(PTO_I32, 1e10), std::numeric_limits<int32_t>::max());
  EXPECT_EQ(filled(PTO_I32, -INFINITY), std::numeric_limits<int32_t>::min());
  EXPECT_EQ(filled(PTO_I64, -1e30), -0x1p63);
  EXPECT_EQ(filled(PTO_I64, NAN), 0);
}

TEST(FillTest, StopsWhenCancelled) {
  TestTensor out(PTO_F32, {100});
  EXPECT_EQ(RunKernel(Builtin("fill"), {&out}, {FloatScalar(1)}, 1, [] { return true; }).code, 0);
  EXPECT_NE(out.Float(0), 1);
}

TEST(IotaTest, CountsInRowMajorOrder) {
  ForAllCases([](uint32_t dtype, const Shape& shape, Layout layout, uint32_t blocks) {
    TestTensor out(dtype, shape, layout);
    EXPECT_EQ(
        RunKernel(Builtin("iota"), {&out}, {FloatScalar(10.5), FloatScalar(-1.25)}, blocks).code,
        0);
    for (int64_t i = 0; i < out.size(); ++i) {
      if (IsFloat(dtype)) {
        ASSERT_EQ(out.Float(i), RoundTo(dtype, 10.5 - 1.25 * static_cast<double>(i))) << i;
      } else {
        ASSERT_EQ(out.Int(i), 10 - i) << i;
      }
    }
    EXPECT_TRUE(out.GapsUntouched());
  });
}

TEST(IotaTest, IntegersWrap) {
  TestTensor narrow(PTO_I32, {3});
  ASSERT_EQ(RunKernel(Builtin("iota"), {&narrow}, {FloatScalar(2147483646), FloatScalar(1)}).code,
            0);
  EXPECT_EQ(narrow.Int(1), 2147483647);
  EXPECT_EQ(narrow.Int(2), -2147483648);
  TestTensor wide(PTO_I64, {3});
  ASSERT_EQ(RunKernel(Builtin("iota"), {&wide}, {FloatScalar(1e30), FloatScalar(1)}).code, 0);
  EXPECT_EQ(wide.Int(0), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(wide.Int(1), std::numeric_limits<int64_t>::min());
}

TEST(FillTest, OtherTypesFail) {
  TestTensor out(PTO_U8, {4});
  const RunResult result = RunKernel(Builtin("fill"), {&out}, {FloatScalar(1)});
  EXPECT_NE(result.code, 0);
  EXPECT_EQ(result.error, "elements of type U8 (9) are not supported");
}

}  // namespace
}  // namespace pto::kernels
