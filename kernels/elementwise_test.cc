#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>

#include "gtest/gtest.h"
#include "kernels/kernel_tester.h"

namespace pto::kernels {
namespace {

struct BinaryCase {
  const char* name;
  double (*of_doubles)(double, double);
  // Modulo 2^64, computed in a type that does not overflow.
  __int128 (*of_integers)(__int128, __int128);
};

const BinaryCase kBinaryCases[] = {
    {"add", [](double a, double b) { return a + b; }, [](__int128 a, __int128 b) { return a + b; }},
    {"sub", [](double a, double b) { return a - b; }, [](__int128 a, __int128 b) { return a - b; }},
    {"mul", [](double a, double b) { return a * b; }, [](__int128 a, __int128 b) { return a * b; }},
};

// The result wrapped to the type.
int64_t Wrapped(uint32_t dtype, __int128 value) {
  if (dtype == PTO_I32) return static_cast<int32_t>(static_cast<uint32_t>(value));
  return static_cast<int64_t>(static_cast<uint64_t>(value));
}

class BinaryTest : public ::testing::TestWithParam<BinaryCase> {};

TEST_P(BinaryTest, AgreesWithReference) {
  ForAllCases([](uint32_t dtype, const Shape& shape, Layout layout, uint32_t blocks) {
    TestTensor a(dtype, shape, layout);
    TestTensor b(dtype, shape, Other(layout));
    TestTensor out(dtype, shape, Other(Other(layout)));
    a.Randomise(1);
    b.Randomise(2);
    EXPECT_EQ(RunKernel(Builtin(GetParam().name), {&a, &b, &out}, {}, blocks).code, 0);
    for (int64_t i = 0; i < out.size(); ++i) {
      if (IsFloat(dtype)) {
        // Exact in double, so that this is the only rounding.
        ASSERT_EQ(out.Float(i), RoundTo(dtype, GetParam().of_doubles(a.Float(i), b.Float(i))));
      } else {
        ASSERT_EQ(out.Int(i), Wrapped(dtype, GetParam().of_integers(a.Int(i), b.Int(i))));
      }
    }
    EXPECT_TRUE(out.GapsUntouched());
  });
}

TEST_P(BinaryTest, OutMayBeAnInput) {
  for (uint32_t dtype : kArithmeticDtypes) {
    TestTensor a(dtype, {1031});
    TestTensor b(dtype, {1031});
    TestTensor out(dtype, {1031});
    a.Randomise(1);
    b.Randomise(2);
    const pto_kernel_info& info = Builtin(GetParam().name);
    ASSERT_EQ(RunKernel(info, {&a, &b, &out}).code, 0);
    ASSERT_EQ(RunKernel(info, {&a, &b, &a}).code, 0);
    for (int64_t i = 0; i < out.size(); ++i) ASSERT_EQ(a.Bits(i), out.Bits(i)) << i;
  }
}

TEST_P(BinaryTest, RefusesWhatDiffers) {
  const std::string name = GetParam().name;
  TestTensor a(PTO_F32, {2, 3});
  TestTensor wider(PTO_F32, {2, 4});
  TestTensor longer(PTO_F32, {2, 3, 1});
  TestTensor integers(PTO_I32, {2, 3});
  TestTensor one(PTO_F32, {});
  const pto_kernel_info& info = Builtin(GetParam().name);
  EXPECT_EQ(CheckKernel(info, {&a, &a, &a}), "");
  EXPECT_EQ(CheckKernel(info, {&one, &one, &one}), "");
  EXPECT_EQ(CheckKernel(info, {&a, &wider, &a}), name + ": shapes differ: a is [2,3], b is [2,4]");
  EXPECT_EQ(CheckKernel(info, {&a, &a, &longer}),
            name + ": shapes differ: a is [2,3], out is [2,3,1]");
  EXPECT_EQ(CheckKernel(info, {&one, &a, &a}), name + ": shapes differ: a is [], b is [2,3]");
  EXPECT_EQ(CheckKernel(info, {&a, &a, &integers}),
            name + ": element types differ: a is F32, out is I32");
  EXPECT_EQ(CheckKernel(info, {&a, &a}), name + ": takes 3 tensors, got 2");
}

INSTANTIATE_TEST_SUITE_P(All, BinaryTest, ::testing::ValuesIn(kBinaryCases),
                         [](const auto& test) { return test.param.name; });

TEST(AddTest, AllExponentsOfHalves) {
  TestTensor a(PTO_F16, {0x10000});
  TestTensor b(PTO_F16, {0x10000});
  TestTensor out(PTO_F16, {0x10000});
  for (int64_t i = 0; i < 0x10000; ++i) {
    a.SetBits(i, i);
    b.SetBits(i, (i * 40503 + 77) & 0xffff);
  }
  ASSERT_EQ(RunKernel(Builtin("add"), {&a, &b, &out}).code, 0);
  for (int64_t i = 0; i < 0x10000; ++i) {
    const double expected = RoundTo(PTO_F16, a.Float(i) + b.Float(i));
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(out.Float(i))) << i;
    } else {
      ASSERT_EQ(out.Float(i), expected) << i;
    }
  }
}

TEST(ScaleTest, AgreesWithReference) {
  ForAllCases([](uint32_t dtype, const Shape& shape, Layout layout, uint32_t blocks) {
    TestTensor in(dtype, shape, layout);
    TestTensor out(dtype, shape, Other(layout));
    in.Randomise(1);
    EXPECT_EQ(RunKernel(Builtin("scale"), {&in, &out}, {FloatScalar(-2.75)}, blocks).code, 0);
    for (int64_t i = 0; i < out.size(); ++i) {
      if (IsFloat(dtype)) {
        ASSERT_EQ(out.Float(i), RoundTo(dtype, in.Float(i) * -2.75)) << i;
      } else {
        ASSERT_EQ(out.Int(i), Wrapped(dtype, static_cast<__int128>(in.Int(i)) * -2)) << i;
      }
    }
    EXPECT_TRUE(out.GapsUntouched());
  });
}

TEST(ScaleTest, FactorOfIntegersSaturates) {
  TestTensor tensor(PTO_I32, {3});
  for (int64_t i = 0; i < 3; ++i) tensor.SetInt(i, i);
  ASSERT_EQ(RunKernel(Builtin("scale"), {&tensor, &tensor}, {FloatScalar(1e30)}).code, 0);
  EXPECT_EQ(tensor.Int(0), 0);
  EXPECT_EQ(tensor.Int(1), std::numeric_limits<int32_t>::max());
  EXPECT_EQ(tensor.Int(2), -2);
}

TEST(ScaleTest, RefusesWhatDiffers) {
  TestTensor in(PTO_F32, {4});
  TestTensor out(PTO_F32, {5});
  EXPECT_EQ(CheckKernel(Builtin("scale"), {&in, &in}), "");
  EXPECT_EQ(CheckKernel(Builtin("scale"), {&in, &out}),
            "scale: shapes differ: in is [4], out is [5]");
}

TEST(AxpyTest, AgreesWithReference) {
  ForAllCases([](uint32_t dtype, const Shape& shape, Layout layout, uint32_t blocks) {
    TestTensor x(dtype, shape, layout);
    TestTensor y(dtype, shape, Other(layout));
    x.Randomise(1);
    y.Randomise(2);
    const TestTensor before = y;
    EXPECT_EQ(RunKernel(Builtin("axpy"), {&x, &y}, {FloatScalar(3.1)}, blocks).code, 0);
    for (int64_t i = 0; i < y.size(); ++i) {
      if (IsFloat(dtype)) {
        const double product = 3.1 * x.Float(i);
        ASSERT_NEAR(y.Float(i), before.Float(i) + product,
                    Epsilon(dtype) * (std::fabs(before.Float(i)) + std::fabs(product)))
            << i;
      } else {
        ASSERT_EQ(y.Int(i), Wrapped(dtype, before.Int(i) + static_cast<__int128>(x.Int(i)) * 3));
      }
    }
    EXPECT_TRUE(y.GapsUntouched());
  });
}

TEST(AxpyTest, RefusesWhatDiffers) {
  TestTensor x(PTO_BF16, {4});
  TestTensor y(PTO_F16, {4});
  TestTensor longer(PTO_BF16, {4, 4});
  EXPECT_EQ(CheckKernel(Builtin("axpy"), {&x, &x}), "");
  EXPECT_EQ(CheckKernel(Builtin("axpy"), {&x, &y}),
            "axpy: element types differ: x is BF16, y is F16");
  EXPECT_EQ(CheckKernel(Builtin("axpy"), {&x, &longer}),
            "axpy: shapes differ: x is [4], y is [4,4]");
}

}  // namespace
}  // namespace pto::kernels
