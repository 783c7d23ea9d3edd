#include "kernels/tile.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace pto::kernels {
namespace {

constexpr int64_t kSteps[] = {1, 2, 5};

// Loading all 65,536 values must equal converting them one by one, with and without the processor's
// conversion instructions.
template <typename T>
void LoadsAsOneByOne() {
  for (int64_t step : kSteps) {
    std::vector<T> from(0x10000 * step);
    for (uint32_t i = 0; i < 0x10000; ++i) from[i * step].bits = static_cast<uint16_t>(i);
    std::vector<float> to(0x10000 + 1, 7.0f);
    LoadTile(from.data(), step, 0x10000, to.data());
    for (uint32_t i = 0; i < 0x10000; ++i) {
      ASSERT_EQ(std::bit_cast<uint32_t>(to[i]), std::bit_cast<uint32_t>(ToFloat(from[i * step])))
          << i;
    }
    EXPECT_EQ(to.back(), 7.0f);
  }
}

template <typename T>
void StoresAsOneByOne() {
  std::mt19937 random(3);
  std::vector<float> from;
  for (uint32_t i = 0; i < 0x10000; ++i) {
    from.push_back(std::bit_cast<float>(static_cast<uint32_t>(random())));
    // Closer to the range of binary16, and ties.
    from.push_back(ToFloat(F16{static_cast<uint16_t>(i)}) * (1 + 0x1p-11f));
    from.push_back(std::bit_cast<float>((i << 16) | 0x8000));
  }
  const int64_t count = static_cast<int64_t>(from.size());
  for (int64_t step : kSteps) {
    std::vector<T> to(count * step + 1, T{0xa5a5});
    StoreTile(from.data(), count, to.data(), step);
    for (int64_t i = 0; i < count; ++i) {
      ASSERT_EQ(to[i * step].bits, Element<T>::Store(from[i]).bits)
          << std::bit_cast<uint32_t>(from[i]);
      for (int64_t gap = 1; gap < step; ++gap) ASSERT_EQ(to[i * step + gap].bits, 0xa5a5);
    }
    EXPECT_EQ(to.back().bits, 0xa5a5);
  }
}

TEST(TileTest, LoadsHalves) { LoadsAsOneByOne<F16>(); }
TEST(TileTest, LoadsBfloats) { LoadsAsOneByOne<BF16>(); }
TEST(TileTest, StoresHalves) { StoresAsOneByOne<F16>(); }
TEST(TileTest, StoresBfloats) { StoresAsOneByOne<BF16>(); }

TEST(TileTest, ShortRunsStayInBounds) {
  for (int64_t count = 0; count < 20; ++count) {
    std::vector<F16> halves(count + 1, F16{0x3c00});
    std::vector<float> floats(count + 1, 7.0f);
    LoadTile(halves.data(), 1, count, floats.data());
    for (int64_t i = 0; i < count; ++i) EXPECT_EQ(floats[i], 1.0f);
    EXPECT_EQ(floats[count], 7.0f);
    for (int64_t i = 0; i < count; ++i) floats[i] = 2.0f;
    StoreTile(floats.data(), count, halves.data(), 1);
    for (int64_t i = 0; i < count; ++i) EXPECT_EQ(halves[i].bits, 0x4000);
    EXPECT_EQ(halves[count].bits, 0x3c00);
  }
}

TEST(TileTest, FloatsAreMoved) {
  const std::vector<float> from = {1, 2, 3, 4, 5, 6, 7};
  std::vector<float> tile(4);
  LoadTile(from.data(), 2, 4, tile.data());
  EXPECT_EQ(tile, (std::vector<float>{1, 3, 5, 7}));
  LoadTile(from.data(), 1, 4, tile.data());
  EXPECT_EQ(tile, (std::vector<float>{1, 2, 3, 4}));
}

}  // namespace
}  // namespace pto::kernels
