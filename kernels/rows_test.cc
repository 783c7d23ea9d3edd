#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/dtype.h"
#include "kernels/kernel_tester.h"

namespace pto::kernels {
namespace {

constexpr int64_t kWidth = 300;

TestTensor Indices(const Shape& shape, const std::vector<int64_t>& values) {
  TestTensor index(PTO_I32, shape);
  for (size_t i = 0; i < values.size(); ++i) index.SetInt(static_cast<int64_t>(i), values[i]);
  return index;
}

TEST(TakeRowsTest, PicksRowsOfEveryType) {
  for (uint32_t dtype = PTO_F32; dtype <= PTO_BOOL; ++dtype) {
    TestTensor in(dtype, {5, kWidth}, Layout::kPadded);
    for (int64_t i = 0; i < in.size(); ++i) in.SetBits(i, static_cast<uint64_t>(i) * 77);
    TestTensor index = Indices({4}, {4, 0, 0, 2});
    TestTensor out(dtype, {4, kWidth}, Layout::kOffset);
    EXPECT_EQ(RunKernel(Builtin("take_rows"), {&in, &index, &out}, {}, 3).code, 0);
    for (int64_t i = 0; i < 4; ++i) {
      for (int64_t j = 0; j < kWidth; ++j) {
        ASSERT_EQ(out.Bits(i * kWidth + j), in.Bits(index.Int(i) * kWidth + j));
      }
    }
    EXPECT_TRUE(out.GapsUntouched());
  }
}

TEST(TakeRowsTest, AWrongIndexFails) {
  for (const int64_t wrong : {-1, 5}) {
    TestTensor in(PTO_F32, {5, 2});
    TestTensor index = Indices({1}, {wrong});
    TestTensor out(PTO_F32, {1, 2});
    const RunResult result = RunKernel(Builtin("take_rows"), {&in, &index, &out}, {});
    EXPECT_NE(result.code, 0);
    EXPECT_NE(result.error.find("is not one of the 5 rows"), std::string::npos) << result.error;
  }
}

TEST(ScaleRowsTest, MultipliesEachRowByItsWeight) {
  for (const uint32_t dtype : {PTO_F32, PTO_F16, PTO_BF16}) {
    TestTensor in(dtype, {3, kWidth});
    in.Randomise(1);
    TestTensor weight(PTO_F32, {3});
    for (int64_t i = 0; i < 3; ++i) weight.SetFloat(i, 0.25 * static_cast<double>(i + 1));
    TestTensor out(dtype, {3, kWidth}, Layout::kPadded);
    EXPECT_EQ(RunKernel(Builtin("scale_rows"), {&in, &weight, &out}, {}, 2).code, 0);
    for (int64_t i = 0; i < out.size(); ++i) {
      ASSERT_EQ(out.Float(i), RoundTo(dtype, in.Float(i) * weight.Float(i / kWidth)));
    }
  }
}

TEST(SumRowsTest, AddsUpRowsInFloat) {
  for (const uint32_t dtype : {PTO_F32, PTO_F16, PTO_BF16}) {
    TestTensor in(dtype, {6, kWidth});
    in.Randomise(2);
    TestTensor index = Indices({2, 3}, {0, 5, 1, 2, 2, 2});
    TestTensor out(dtype, {2, kWidth});
    EXPECT_EQ(RunKernel(Builtin("sum_rows"), {&in, &index, &out}, {}, 2).code, 0);
    for (int64_t i = 0; i < 2; ++i) {
      for (int64_t j = 0; j < kWidth; ++j) {
        float sum = 0;
        for (int64_t k = 0; k < 3; ++k) {
          sum += static_cast<float>(in.Float(index.Int(i * 3 + k) * kWidth + j));
        }
        ASSERT_EQ(out.Float(i * kWidth + j), RoundTo(dtype, sum));
      }
    }
  }
}

}  // namespace
}  // namespace pto::kernels
