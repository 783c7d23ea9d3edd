#include "kernels/gemm.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/work_meter.h"

namespace pto::kernels {
namespace {

// A matrix with some strides, in memory of its own.
struct Owned {
  std::vector<float> memory;
  Matrix<float> matrix;

  Matrix<const float> input() const {
    return {matrix.data, matrix.rows, matrix.columns, matrix.row_stride, matrix.column_stride};
  }
  float& at(int64_t i, int64_t j) {
    return matrix.data[i * matrix.row_stride + j * matrix.column_stride];
  }
};

Owned Make(int64_t rows, int64_t columns, uint32_t kind) {
  const int64_t gap = kind / 2 % 3;
  const int64_t step = 1 + kind / 6 % 2;
  const bool by_columns = kind % 2 == 1;
  const int64_t row_stride = by_columns ? step : step * (columns + gap);
  const int64_t column_stride = by_columns ? step * (rows + gap) : step;
  Owned owned;
  owned.memory.resize(static_cast<size_t>(2 * (rows + gap) * (columns + gap)), NAN);
  owned.matrix = {owned.memory.data(), rows, columns, row_stride, column_stride};
  return owned;
}

constexpr float kBefore = 0.25f;

// The order of summation of gemm.h, one element at a time. `before`, if not null, is the previous
// value in c.
float Reference(Owned& a, Owned& b, int64_t i, int64_t j, const float* before, bool fused) {
  float sum = before != nullptr ? *before : 0;
  for (int64_t first = 0; first < a.matrix.columns; first += kGemmStretch) {
    float stretch = 0;
    for (int64_t k = first; k < std::min(first + kGemmStretch, a.matrix.columns); ++k) {
      if (fused) {
        stretch = std::fma(a.at(i, k), b.at(k, j), stretch);
      } else {
        const volatile float product = a.at(i, k) * b.at(k, j);
        stretch += product;
      }
    }
    sum = first == 0 && before == nullptr ? stretch : sum + stretch;
  }
  return sum;
}

uint32_t Bits(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

TEST(GemmTest, AllTilesSumInTheOrderThatIsPromised) {
  WorkMeter meter(nullptr);
  std::mt19937 random(3);
  std::uniform_real_distribution<float> uniform(-1, 1);
  const auto below = [&](int64_t n) { return static_cast<int64_t>(random() % n); };
  for (int round = 0; round < 150; ++round) {
    const int64_t most = round % 10 == 0 ? 230 : 40;
    const int64_t m = 1 + below(most);
    const int64_t n = 1 + below(most);
    const int64_t k = 1 + below(round % 3 == 0 ? 600 : 40);
    Owned a = Make(m, k, random());
    Owned b = Make(k, n, random());
    for (float& value : a.memory) value = uniform(random);
    for (float& value : b.memory) value = uniform(random);
    for (const TileSet* tiles : UsableTiles()) {
      for (const bool accumulate : {false, true}) {
        Owned c = Make(m, n, random());
        for (int64_t i = 0; accumulate && i < m; ++i) {
          for (int64_t j = 0; j < n; ++j) c.at(i, j) = kBefore;
        }
        const std::vector<float> before = c.memory;
        ASSERT_TRUE(GemmF32(*tiles, a.input(), b.input(), c.matrix, accumulate, meter));
        int64_t changed = 0;
        for (int64_t i = 0; i < m; ++i) {
          for (int64_t j = 0; j < n; ++j) {
            ASSERT_EQ(Bits(c.at(i, j)),
                      Bits(Reference(a, b, i, j, accumulate ? &kBefore : nullptr, tiles->fused)))
                << tiles->lanes << " lanes, [" << m << "," << k << "] * [" << k << "," << n
                << "], element [" << i << "," << j << "]";
          }
        }
        for (size_t at = 0; at < before.size(); ++at) {
          changed += Bits(before[at]) != Bits(c.memory[at]) ? 1 : 0;
        }
        ASSERT_LE(changed, m * n) << "what lies beside c was written";
      }
    }
  }
}

// Memory beside b and c is not read: an unreadable page may follow. The sanitizers check this.
TEST(GemmTest, LooksAtNothingBesideTheMatrices) {
  WorkMeter meter(nullptr);
  for (const TileSet* tiles : UsableTiles()) {
    for (int64_t n = 1; n < 70; ++n) {
      std::vector<float> a(3 * 5, 1), b(static_cast<size_t>(5 * n), 1);
      std::vector<float> c(static_cast<size_t>(3 * n), NAN);
      ASSERT_TRUE(GemmF32(*tiles, {a.data(), 3, 5, 5, 1}, {b.data(), 5, n, n, 1},
                          {c.data(), 3, n, n, 1}, false, meter));
      EXPECT_EQ(c, std::vector<float>(static_cast<size_t>(3 * n), 5));
    }
  }
}

}  // namespace
}  // namespace pto::kernels
