// Kernels that store long outputs past the caches (kernels/stream.h), with such outputs.
#include <cstdint>

#include "gtest/gtest.h"
#include "kernels/dtype.h"
#include "kernels/kernel_tester.h"
#include "runtime/base/long_copy.h"

namespace pto::kernels {
namespace {

constexpr uint32_t kBlocks = 3;

// Shares start off cache line boundaries, and end in the middle of a tile.
Shape LongShape(uint32_t dtype) {
  return {static_cast<int64_t>(kStreamBytes / DtypeSize(dtype)) + 1237};
}

class LongOutputTest : public ::testing::TestWithParam<uint32_t> {};

TEST_P(LongOutputTest, Scale) {
  TestTensor in(GetParam(), LongShape(GetParam()));
  TestTensor out(GetParam(), LongShape(GetParam()), Layout::kOffset);
  in.Randomise(1);
  ASSERT_EQ(RunKernel(Builtin("scale"), {&in, &out}, {FloatScalar(2)}, kBlocks).code, 0);
  for (int64_t i = 0; i < in.size(); ++i) {
    if (IsFloat(GetParam())) {
      ASSERT_EQ(out.Float(i), 2 * in.Float(i)) << i;
    } else {
      ASSERT_EQ(out.Bits(i), static_cast<uint32_t>(2 * in.Bits(i))) << i;
    }
  }
  EXPECT_TRUE(out.GapsUntouched());
}

TEST_P(LongOutputTest, SubFromAnyLayout) {
  TestTensor a(GetParam(), LongShape(GetParam()), Layout::kStrided);
  TestTensor b(GetParam(), LongShape(GetParam()));
  TestTensor out(GetParam(), LongShape(GetParam()), Layout::kOffset);
  a.Randomise(1);
  b.Randomise(2);
  ASSERT_EQ(RunKernel(Builtin("sub"), {&a, &b, &out}, {}, kBlocks).code, 0);
  for (int64_t i = 0; i < a.size(); ++i) {
    if (IsFloat(GetParam())) {
      ASSERT_EQ(out.Float(i), RoundTo(GetParam(), a.Float(i) - b.Float(i))) << i;
    } else {
      ASSERT_EQ(out.Bits(i), static_cast<uint32_t>(a.Bits(i) - b.Bits(i))) << i;
    }
  }
  EXPECT_TRUE(out.GapsUntouched());
}

TEST_P(LongOutputTest, Copy) {
  TestTensor in(GetParam(), LongShape(GetParam()), Layout::kOffset);
  TestTensor out(GetParam(), LongShape(GetParam()));
  in.Randomise(1);
  ASSERT_EQ(RunKernel(Builtin("copy"), {&in, &out}, {}, kBlocks).code, 0);
  for (int64_t i = 0; i < in.size(); ++i) ASSERT_EQ(out.Bits(i), in.Bits(i)) << i;
}

TEST_P(LongOutputTest, FillAndIota) {
  TestTensor out(GetParam(), LongShape(GetParam()), Layout::kOffset);
  ASSERT_EQ(RunKernel(Builtin("fill"), {&out}, {FloatScalar(3)}, kBlocks).code, 0);
  for (int64_t i = 0; i < out.size(); ++i) {
    ASSERT_EQ(IsFloat(GetParam()) ? out.Float(i) : out.Int(i), 3) << i;
  }
  const double step = IsFloat(GetParam()) ? 0.5 : 3;
  ASSERT_EQ(RunKernel(Builtin("iota"), {&out}, {FloatScalar(-5), FloatScalar(step)}, kBlocks).code,
            0);
  for (int64_t i = 0; i < out.size(); ++i) {
    const double exact = -5 + step * static_cast<double>(i);
    if (IsFloat(GetParam())) {
      ASSERT_EQ(out.Float(i), RoundTo(GetParam(), exact)) << i;
    } else {
      ASSERT_EQ(out.Int(i), static_cast<int64_t>(exact)) << i;
    }
  }
  EXPECT_TRUE(out.GapsUntouched());
}

TEST_P(LongOutputTest, InPlace) {
  TestTensor tensor(GetParam(), LongShape(GetParam()));
  TestTensor before(GetParam(), LongShape(GetParam()));
  tensor.Randomise(1);
  before.Randomise(1);
  ASSERT_EQ(RunKernel(Builtin("add"), {&tensor, &tensor, &tensor}, {}, kBlocks).code, 0);
  for (int64_t i = 0; i < tensor.size(); ++i) {
    if (IsFloat(GetParam())) {
      ASSERT_EQ(tensor.Float(i), 2 * before.Float(i)) << i;
    } else {
      ASSERT_EQ(tensor.Bits(i), static_cast<uint32_t>(2 * before.Bits(i))) << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, LongOutputTest, ::testing::Values(PTO_F32, PTO_BF16, PTO_I32),
                         [](const auto& type) { return DtypeName(type.param); });

}  // namespace
}  // namespace pto::kernels
