#include <cmath>
#include <cstdint>
#include <limits>

#include "gtest/gtest.h"
#include "kernels/kernel_tester.h"

namespace pto::kernels {
namespace {

TEST(ReduceSumTest, AgreesWithReference) {
  ForAllCases([](uint32_t dtype, const Shape& shape, Layout layout, uint32_t blocks) {
    TestTensor in(dtype, shape, layout);
    TestTensor out(dtype, {1, 1}, layout);
    in.Randomise(1);
    EXPECT_EQ(RunKernel(Builtin("reduce_sum"), {&in, &out}, {}, blocks).code, 0);
    if (IsFloat(dtype)) {
      // More digits than a double, so that the order of additions does not matter.
      long double sum = 0;
      for (int64_t i = 0; i < in.size(); ++i) sum += in.Float(i);
      EXPECT_NEAR(out.Float(0), static_cast<double>(sum),
                  Epsilon(dtype) / 2 * std::fabs(static_cast<double>(sum)) + 1e-12);
    } else {
      __int128 sum = 0;
      for (int64_t i = 0; i < in.size(); ++i) sum += in.Int(i);
      EXPECT_EQ(out.Int(0), dtype == PTO_I32 ? static_cast<int32_t>(static_cast<uint32_t>(sum))
                                             : static_cast<int64_t>(static_cast<uint64_t>(sum)));
    }
    EXPECT_TRUE(out.GapsUntouched());
  });
}

TEST(ReduceSumTest, SmallAddendsAreNotLost) {
  // In F32, 2^24 + 1 is 2^24; in F16, 2048 + 1 is 2048.
  TestTensor in(PTO_F32, {100001});
  in.SetFloat(0, 0x1p24);
  for (int64_t i = 1; i < in.size(); ++i) in.SetFloat(i, 1);
  TestTensor out(PTO_F32, {});
  ASSERT_EQ(RunKernel(Builtin("reduce_sum"), {&in, &out}).code, 0);
  EXPECT_EQ(out.Float(0), 0x1p24 + 100000);

  TestTensor halves(PTO_F16, {4097});
  for (int64_t i = 0; i < halves.size(); ++i) halves.SetFloat(i, 1);
  TestTensor half(PTO_F16, {1});
  ASSERT_EQ(RunKernel(Builtin("reduce_sum"), {&halves, &half}).code, 0);
  EXPECT_EQ(half.Float(0), 4096);
}

TEST(ReduceSumTest, InfinityAndNan) {
  TestTensor in(PTO_F32, {20});
  for (int64_t i = 0; i < 20; ++i) in.SetFloat(i, 1);
  TestTensor out(PTO_F32, {1});
  in.SetFloat(3, INFINITY);
  ASSERT_EQ(RunKernel(Builtin("reduce_sum"), {&in, &out}).code, 0);
  EXPECT_EQ(out.Float(0), INFINITY);
  in.SetFloat(17, -INFINITY);
  ASSERT_EQ(RunKernel(Builtin("reduce_sum"), {&in, &out}).code, 0);
  EXPECT_TRUE(std::isnan(out.Float(0)));
}

TEST(ReduceSumTest, OnlyTheFirstBlockWrites) {
  TestTensor in(PTO_I32, {5});
  TestTensor out(PTO_I32, {1});
  in.Randomise(1);
  out.SetInt(0, 42);
  const pto_tensor views[] = {in.View(), out.View()};
  pto_context context{};
  context.block_index = 1;
  context.block_count = 2;
  context.tensor_count = 2;
  context.tensors = views;
  EXPECT_EQ(Builtin("reduce_sum").function(&context), 0);
  EXPECT_EQ(out.Int(0), 42);
}

TEST(ReduceSumTest, RefusesMoreThanOneElement) {
  TestTensor in(PTO_F32, {2, 3});
  TestTensor two(PTO_F32, {1, 2});
  TestTensor none(PTO_F32, {0});
  TestTensor other(PTO_I32, {1});
  TestTensor one(PTO_F32, {});
  const pto_kernel_info& info = Builtin("reduce_sum");
  EXPECT_EQ(CheckKernel(info, {&in, &one}), "");
  EXPECT_EQ(CheckKernel(info, {&in, &two}),
            "reduce_sum: out is [1,2], expected one element, such as [1]");
  EXPECT_EQ(CheckKernel(info, {&in, &none}),
            "reduce_sum: out is [0], expected one element, such as [1]");
  EXPECT_EQ(CheckKernel(info, {&in, &other}),
            "reduce_sum: element types differ: in is F32, out is I32");
  EXPECT_EQ(CheckKernel(info, {&in}), "reduce_sum: takes 2 tensors, got 1");
}

}  // namespace
}  // namespace pto::kernels
