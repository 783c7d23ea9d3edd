#include "runtime/graph/layout.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/error.h"
#include "runtime/base/status_matchers.h"

namespace pto::engine {
namespace {

using ::pto::testing::HasReason;
using ::pto::testing::IsOk;
using ::testing::ElementsAre;

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
constexpr int64_t kMin = std::numeric_limits<int64_t>::min();

TEST(LayoutTest, ContiguousHasTheLastDimensionInnermost) {
  const Layout layout = MakeLayout(PTO_F32, {2, 3, 4, 5, 6}, {}).value();
  EXPECT_EQ(layout.ndim, 5u);
  EXPECT_THAT(layout.strides, ElementsAre(360, 120, 30, 6, 1));
  EXPECT_EQ(layout.extent, 720);
  EXPECT_EQ(BytesNeeded(layout, 10).value(), 730u * 4);
  EXPECT_EQ(ShapeText(layout), "[2,3,4,5,6]");
}

TEST(LayoutTest, NoDimensionIsOneElement) {
  const Layout layout = MakeLayout(PTO_F64, {}, {}).value();
  EXPECT_EQ(layout.ndim, 0u);
  EXPECT_EQ(layout.extent, 1);
  EXPECT_EQ(BytesNeeded(layout, 3).value(), 32u);
  EXPECT_EQ(ShapeText(layout), "[]");
}

TEST(LayoutTest, StridesReachToTheLastElement) {
  const Layout layout = MakeLayout(PTO_I8, {3, 4}, {100, 2}).value();
  EXPECT_EQ(layout.extent, 2 * 100 + 3 * 2 + 1);
  // The inner stride may be larger than the outer one.
  EXPECT_EQ(MakeLayout(PTO_I8, {3, 4}, {1, 10})->extent, 2 + 30 + 1);
}

TEST(LayoutTest, AnEmptyTensorNeedsNoBytes) {
  for (const std::vector<int64_t>& shape :
       std::vector<std::vector<int64_t>>{{0}, {3, 0}, {0, 3}, {2, 0, 4, 0, 5}}) {
    const absl::StatusOr<Layout> layout = MakeLayout(PTO_F32, shape, {});
    ASSERT_THAT(layout, IsOk());
    EXPECT_EQ(layout->extent, 0);
    EXPECT_EQ(BytesNeeded(*layout, 1'000'000).value(), 0u);
  }
  EXPECT_EQ(MakeLayout(PTO_F32, {0, 3}, {1000, 7})->extent, 0);
}

struct Bad {
  std::string what;
  uint32_t dtype;
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;
  std::string field;
};

TEST(LayoutTest, RefusesWhatCannotBe) {
  const int64_t big = int64_t{1} << 56;
  const std::vector<Bad> table = {
      {"no type", 0, {1}, {}, "dtype"},
      {"unknown type", 14, {1}, {}, "dtype"},
      {"six dimensions", PTO_F32, {1, 1, 1, 1, 1, 1}, {}, "shape"},
      {"negative size", PTO_F32, {2, -1}, {}, "shape[1]"},
      {"smallest size", PTO_F32, {kMin}, {}, "shape[0]"},
      {"largest size", PTO_F32, {kMax}, {}, "shape[0]"},
      {"one more than addressable", PTO_I8, {big + 1}, {}, "shape[0]"},
      {"product too large", PTO_I8, {big, 2}, {}, "shape"},
      {"product overflows", PTO_I8, {big, big}, {}, "shape"},
      {"product of five overflows", PTO_I8, {65536, 65536, 65536, 65536, 65536}, {}, "shape"},
      {"product overflows beside a zero", PTO_I8, {0, big, big}, {}, "shape"},
      {"too few strides", PTO_F32, {2, 2}, {1}, "strides"},
      {"too many strides", PTO_F32, {2}, {1, 1}, "strides"},
      {"strides of a single element", PTO_F32, {}, {1}, "strides"},
      {"stride 0", PTO_F32, {2, 2}, {0, 1}, "strides[0]"},
      {"negative stride", PTO_F32, {2, 2}, {2, -1}, "strides[1]"},
      {"stride 0 of an empty tensor", PTO_F32, {0}, {0}, "strides[0]"},
      {"largest stride", PTO_F32, {2}, {kMax}, "strides[0]"},
      {"span too long", PTO_I8, {3}, {big}, "strides"},
      {"span overflows", PTO_I8, {big, 1}, {big, 1}, "strides"},
      {"spans too long together", PTO_I8, {2, 2}, {big, 1}, "strides"},
  };
  for (const Bad& bad : table) {
    const absl::StatusOr<Layout> layout = MakeLayout(bad.dtype, bad.shape, bad.strides);
    ASSERT_THAT(layout, HasReason(reason::kTensorInvalid)) << bad.what;
    EXPECT_EQ(GetErrorDetail(layout.status())->field, bad.field) << bad.what;
  }
}

TEST(LayoutTest, TheLargestFitsInto64Bits) {
  const int64_t big = int64_t{1} << 56;
  const Layout layout = MakeLayout(PTO_F64, {big}, {}).value();
  EXPECT_EQ(layout.extent, big);
  EXPECT_EQ(BytesNeeded(layout, big).value(), uint64_t{1} << 60);
  for (const int64_t offset : {int64_t{-1}, kMin, kMax, big + 1}) {
    const absl::StatusOr<uint64_t> bytes = BytesNeeded(layout, offset);
    ASSERT_THAT(bytes, HasReason(reason::kTensorInvalid)) << offset;
    EXPECT_EQ(GetErrorDetail(bytes.status())->field, "offset");
  }
  // The offset is checked even if nothing is addressed.
  EXPECT_THAT(BytesNeeded(MakeLayout(PTO_F64, {0}, {}).value(), -1),
              HasReason(reason::kTensorInvalid));
}

// Compared with 128-bit arithmetic.
TEST(LayoutTest, AgreesWithWideArithmetic) {
  std::mt19937_64 random(1);
  const auto number = [&] { return static_cast<int64_t>(random() >> (random() % 60 + 4)); };
  int good = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::vector<int64_t> shape(random() % 6), strides(random() % 2 == 0 ? 0 : shape.size());
    for (int64_t& size : shape) size = random() % 2 == 0 ? number() % 100 : number();
    for (int64_t& stride : strides) stride = number() + 1;
    const __int128 limit = __int128{1} << 56;
    __int128 elements = 1, last = 0;
    const bool empty = std::count(shape.begin(), shape.end(), 0) > 0;
    bool fits = true;
    for (size_t i = shape.size(); i-- > 0 && fits;) {
      const __int128 stride = strides.empty() ? elements : __int128{strides[i]};
      fits = shape[i] <= limit && stride <= limit;
      if (shape[i] > 0) {
        elements *= shape[i];
        last += (shape[i] - 1) * stride;
      }
      fits = fits && elements <= limit && (empty || last <= limit);
    }
    const absl::StatusOr<Layout> layout = MakeLayout(PTO_F32, shape, strides);
    ASSERT_EQ(layout.ok(), fits) << layout.status();
    if (!fits) continue;
    ++good;
    ASSERT_EQ(layout->extent, empty ? 0 : static_cast<int64_t>(last) + 1);
  }
  EXPECT_GT(good, 1000);
}

}  // namespace
}  // namespace pto::engine
