#include "kernels/strided.h"

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace pto::kernels {
namespace {

using ::testing::ElementsAre;

pto_tensor View(std::initializer_list<int64_t> shape, std::initializer_list<int64_t> strides) {
  pto_tensor view{};
  view.dtype = PTO_F32;
  view.ndim = static_cast<uint32_t>(shape.size());
  std::copy(shape.begin(), shape.end(), view.shape);
  std::copy(strides.begin(), strides.end(), view.strides);
  return view;
}

// The offsets of elements `begin` to `end` of the view; also checks that runs are consecutive.
std::vector<int64_t> Walk(const StridedRange<1>& range, int64_t begin, int64_t end) {
  std::vector<int64_t> offsets;
  range.ForEach(begin, end, [&](const auto& offset, const auto& stride, int64_t n, int64_t first) {
    EXPECT_EQ(first, begin + static_cast<int64_t>(offsets.size()));
    EXPECT_GT(n, 0);
    for (int64_t i = 0; i < n; ++i) offsets.push_back(offset[0] + i * stride[0]);
  });
  return offsets;
}

TEST(ElementCountTest, CountsElements) {
  EXPECT_EQ(ElementCount(View({}, {})), 1);
  EXPECT_EQ(ElementCount(View({3, 5}, {5, 1})), 15);
  EXPECT_EQ(ElementCount(View({3, 0, 5}, {5, 5, 1})), 0);
  const int64_t huge = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(ElementCount(View({huge, huge, 0}, {1, 1, 1})), 0);
}

TEST(StridedRangeTest, JoinsWhatLiesBehindEachOther) {
  const pto_tensor dense = View({2, 3, 4}, {12, 4, 1});
  EXPECT_EQ(StridedRange<1>({&dense}).ndim(), 1u);
  const pto_tensor rows_apart = View({2, 3, 4}, {15, 5, 1});
  EXPECT_EQ(StridedRange<1>({&rows_apart}).ndim(), 2u);
  EXPECT_EQ(StridedRange<2>({&dense, &rows_apart}).ndim(), 2u);
  const pto_tensor transposed = View({2, 3, 4}, {1, 2, 6});
  EXPECT_EQ(StridedRange<1>({&transposed}).ndim(), 3u);
  const pto_tensor every_third = View({2, 3, 4}, {36, 12, 3});
  EXPECT_EQ(StridedRange<1>({&every_third}).ndim(), 1u);
  // A dimension of size 1 may have any stride.
  const pto_tensor ones = View({2, 1, 3, 1}, {3, 77, 1, 99});
  EXPECT_EQ(StridedRange<1>({&ones}).ndim(), 1u);
}

TEST(StridedRangeTest, WalksInRowMajorOrder) {
  const pto_tensor scalar = View({}, {});
  EXPECT_THAT(Walk(StridedRange<1>({&scalar}), 0, 1), ElementsAre(0));
  const pto_tensor transposed = View({2, 3}, {1, 2});
  const StridedRange<1> range({&transposed});
  EXPECT_EQ(range.size(), 6);
  EXPECT_THAT(Walk(range, 0, 6), ElementsAre(0, 2, 4, 1, 3, 5));
  EXPECT_THAT(Walk(range, 2, 5), ElementsAre(4, 1, 3));
  EXPECT_THAT(Walk(range, 4, 5), ElementsAre(3));
  EXPECT_THAT(Walk(range, 4, 4), ElementsAre());
  const pto_tensor empty = View({2, 0}, {1, 1});
  EXPECT_EQ(StridedRange<1>({&empty}).size(), 0);
  EXPECT_THAT(Walk(StridedRange<1>({&empty}), 0, 0), ElementsAre());
}

TEST(StridedRangeTest, EveryPartOfFiveDimensions) {
  const pto_tensor view = View({2, 3, 2, 3, 2}, {1000, 1, 300, 70, 5});
  std::vector<int64_t> all;
  for (int64_t a = 0; a < 2; ++a)
    for (int64_t b = 0; b < 3; ++b)
      for (int64_t c = 0; c < 2; ++c)
        for (int64_t d = 0; d < 3; ++d)
          for (int64_t e = 0; e < 2; ++e) all.push_back(a * 1000 + b + c * 300 + d * 70 + e * 5);
  const StridedRange<1> range({&view});
  ASSERT_EQ(range.size(), 72);
  for (int64_t begin = 0; begin <= 72; ++begin) {
    for (int64_t end = begin; end <= 72; ++end) {
      ASSERT_EQ(Walk(range, begin, end),
                std::vector<int64_t>(all.begin() + begin, all.begin() + end));
    }
  }
}

TEST(BlockShareTest, EveryElementOnce) {
  for (int64_t total : {0, 1, 2, 7, 10, 100}) {
    for (uint32_t blocks : {1u, 2u, 3u, 7u, 11u, 101u}) {
      int64_t next = 0;
      int64_t least = total;
      int64_t most = 0;
      for (uint32_t block = 0; block < blocks; ++block) {
        pto_context context{};
        context.block_index = block;
        context.block_count = blocks;
        const Share share = BlockShare(&context, total);
        EXPECT_EQ(share.begin, next);
        next = share.end;
        least = std::min(least, share.end - share.begin);
        most = std::max(most, share.end - share.begin);
      }
      EXPECT_EQ(next, total);
      EXPECT_LE(most - least, 1) << total << " in " << blocks;
    }
  }
}

TEST(BlockShareTest, LargestNumbers) {
  const int64_t total = std::numeric_limits<int64_t>::max();
  pto_context context{};
  context.block_count = std::numeric_limits<uint32_t>::max();
  context.block_index = context.block_count - 1;
  EXPECT_EQ(BlockShare(&context, total).end, total);
}

TEST(ForShareTest, StopsWhenCancelled) {
  const pto_tensor view = View({int64_t{1} << 23}, {1});
  const StridedRange<1> range({&view});
  int64_t seen = 0;
  pto_kernel_api api{};
  api.cancelled = [](const pto_context* context) {
    return *static_cast<int64_t*>(context->engine) > 0 ? 1 : 0;
  };
  pto_context context{};
  context.block_count = 1;
  context.api = &api;
  context.engine = &seen;
  EXPECT_FALSE(ForShare(&context, range, {0, range.size()},
                        [&](const auto&, const auto&, int64_t count, int64_t) { seen += count; }));
  EXPECT_GT(seen, 0);
  EXPECT_LT(seen, range.size());
}

}  // namespace
}  // namespace pto::kernels
