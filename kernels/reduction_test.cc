#include "kernels/reduction.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "kernels/dtype.h"

namespace pto::kernels {
namespace {

template <typename T>
struct Traits;
#define PTO_TRAITS(type, dtype)                              \
  template <>                                                \
  struct Traits<type> {                                      \
    static constexpr uint32_t kDtype = dtype;                \
    static double Load(type value) { return double(value); } \
    static type Store(double value) { return type(value); }  \
  }
PTO_TRAITS(float, PTO_F32);
PTO_TRAITS(double, PTO_F64);
PTO_TRAITS(int8_t, PTO_I8);
PTO_TRAITS(int16_t, PTO_I16);
PTO_TRAITS(int32_t, PTO_I32);
PTO_TRAITS(int64_t, PTO_I64);
PTO_TRAITS(uint8_t, PTO_U8);
PTO_TRAITS(uint16_t, PTO_U16);
PTO_TRAITS(uint32_t, PTO_U32);
PTO_TRAITS(uint64_t, PTO_U64);
template <>
struct Traits<F16> {
  static constexpr uint32_t kDtype = PTO_F16;
  static double Load(F16 value) { return kernels::ToFloat(value); }
  static F16 Store(double value) { return kernels::ToF16(static_cast<float>(value)); }
};
template <>
struct Traits<BF16> {
  static constexpr uint32_t kDtype = PTO_BF16;
  static double Load(BF16 value) { return kernels::ToFloat(value); }
  static BF16 Store(double value) { return kernels::ToBF16(static_cast<float>(value)); }
};

template <typename T>
class ReduceTest : public testing::Test {};
using Types = testing::Types<float, double, F16, BF16, int8_t, int16_t, int32_t, int64_t, uint8_t,
                             uint16_t, uint32_t, uint64_t>;
TYPED_TEST_SUITE(ReduceTest, Types);

double Plain(ReduceOp op, double a, double b) {
  switch (op) {
    case ReduceOp::kSum:
      return a + b;
    case ReduceOp::kProd:
      return a * b;
    case ReduceOp::kMax:
      return a < b ? b : a;
    case ReduceOp::kMin:
      return b < a ? b : a;
  }
  return 0;
}

// Small numbers, so that all types represent them, their sums and their products exactly.
double Value(size_t input, size_t i) { return static_cast<double>((i * 7 + input * 3) % 5 % 3); }

TYPED_TEST(ReduceTest, AgreesWithAPlainLoop) {
  using T = TypeParam;
  for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kProd, ReduceOp::kMax, ReduceOp::kMin}) {
    for (const size_t n : {1, 2, 3, 4, 5, 7, 8, 12}) {
      for (const size_t count : {0, 1, 3, 31, 64, 1000, 1024, 1025, 3001}) {
        // The output is a separate array, or one of the inputs.
        for (size_t place = 0; place <= n; ++place) {
          std::vector<std::vector<T>> inputs(n, std::vector<T>(count + 1));
          std::vector<const void*> pointers;
          for (size_t k = 0; k < n; ++k) {
            for (size_t i = 0; i < count; ++i) inputs[k][i] = Traits<T>::Store(Value(k, i));
            // Aligned to an element only.
            if (count > 0) std::memmove(&inputs[k][1], &inputs[k][0], count * sizeof(T));
            pointers.push_back(inputs[k].data() + 1);
          }
          std::vector<T> own(count + 1);
          T* out = place < n ? inputs[place].data() + 1 : own.data() + 1;
          Reduce(out, pointers, count, Traits<T>::kDtype, op);
          for (size_t i = 0; i < count; ++i) {
            double expected = Value(0, i);
            for (size_t k = 1; k < n; ++k) expected = Plain(op, expected, Value(k, i));
            ASSERT_EQ(Traits<T>::Load(out[i]), expected)
                << "op " << static_cast<uint32_t>(op) << " n " << n << " at " << i;
          }
        }
      }
    }
  }
}

TEST(Reduce, HalvesAreRoundedOnce) {
  // 2048 + 1 is a tie that rounds back to 2048; 2048 + 1 + 1 is exact.
  const F16 big = kernels::ToF16(2048);
  const F16 one = kernels::ToF16(1);
  const void* const inputs[] = {&big, &one, &one};
  F16 out;
  Reduce(&out, inputs, 1, PTO_F16, ReduceOp::kSum);
  EXPECT_EQ(kernels::ToFloat(out), 2050);
  const BF16 wide = kernels::ToBF16(256);
  const BF16 small = kernels::ToBF16(1);
  const void* const more[] = {&wide, &small, &small};
  BF16 sum;
  Reduce(&sum, more, 1, PTO_BF16, ReduceOp::kSum);
  EXPECT_EQ(kernels::ToFloat(sum), 258);
}

TEST(Reduce, IntegersWrapAround) {
  int8_t small = 127;
  const int8_t one = 1;
  ReduceInto(&small, &one, 1, PTO_I8, ReduceOp::kSum);
  EXPECT_EQ(small, -128);
  int16_t product = 300;
  const int16_t factor = 300;
  ReduceInto(&product, &factor, 1, PTO_I16, ReduceOp::kProd);
  EXPECT_EQ(product, static_cast<int16_t>(90000));
  int64_t large = std::numeric_limits<int64_t>::max();
  const int64_t two = 2;
  ReduceInto(&large, &two, 1, PTO_I64, ReduceOp::kSum);
  EXPECT_EQ(large, std::numeric_limits<int64_t>::min() + 1);
}

TEST(Reduce, NanWins) {
  for (const ReduceOp op : {ReduceOp::kMax, ReduceOp::kMin}) {
    // Enough elements for every path through the loop.
    std::vector<float> a(37, 1.0f), b(37, 2.0f);
    a[3] = NAN;
    b[20] = NAN;
    ReduceInto(a.data(), b.data(), a.size(), PTO_F32, op);
    EXPECT_TRUE(std::isnan(a[3]) && std::isnan(a[20]));
    EXPECT_EQ(a[36], op == ReduceOp::kMax ? 2.0f : 1.0f);
  }
}

TEST(Reduce, KnowsWhatItTakes) {
  EXPECT_TRUE(IsReducible(PTO_BF16) && IsReducible(PTO_U64));
  EXPECT_FALSE(IsReducible(PTO_BOOL) || IsReducible(0) || IsReducible(99));
  EXPECT_TRUE(IsReduceOp(1) && IsReduceOp(4));
  EXPECT_FALSE(IsReduceOp(0) || IsReduceOp(5));
}

}  // namespace
}  // namespace pto::kernels
