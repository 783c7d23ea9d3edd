#include "runtime/graph/big_vector.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace pto::engine {
namespace {

struct Record {
  uint32_t number = 7;
  uint32_t square = 0;
};

TEST(BigVectorTest, GrowsFromTheHeapIntoPagesOfItsOwn) {
  BigVector<uint64_t> vector;
  EXPECT_TRUE(vector.empty());
  for (uint64_t i = 0; i < 1'000'000; ++i) vector.push_back(i * i);
  ASSERT_EQ(vector.size(), 1'000'000u);
  for (uint64_t i = 0; i < 1'000'000; ++i) ASSERT_EQ(vector[i], i * i);
  // A large vector does not move.
  const uint64_t* const place = vector.data();
  for (uint64_t i = 0; i < 1'000'000; ++i) vector.push_back(i);
  EXPECT_EQ(vector.data(), place);
  EXPECT_EQ(vector.back(), 999'999u);
}

TEST(BigVectorTest, PushesAnElementOfItsOwn) {
  BigVector<uint64_t> vector;
  vector.push_back(5);
  for (int i = 0; i < 10'000; ++i) vector.push_back(vector[0]);
  for (const uint64_t value : vector) ASSERT_EQ(value, 5u);
}

TEST(BigVectorTest, ResizeMakesNewElements) {
  BigVector<Record> vector;
  vector.push_back({1, 1});
  vector.resize(3);
  EXPECT_EQ(vector[0].number, 1u);
  EXPECT_EQ(vector[2].number, 7u);
  vector[2].number = 9;
  vector.resize(1);
  vector.resize(3);
  EXPECT_EQ(vector[2].number, 7u);
  vector.clear();
  EXPECT_EQ(vector.size(), 0u);
}

TEST(BigVectorTest, Appends) {
  const std::vector<uint32_t> values = {1, 2, 3};
  BigVector<uint32_t> vector;
  for (int i = 0; i < 1000; ++i) vector.append(values);
  ASSERT_EQ(vector.size(), 3000u);
  EXPECT_EQ(vector[2999], 3u);
  EXPECT_EQ(vector.bytes(), 12'000u);
}

TEST(BigVectorTest, KeepsWhatIsFilledIn) {
  BigVector<uint32_t> vector;
  vector.push_back(1);
  uint32_t* const next = vector.next(100);
  for (uint32_t i = 0; i < 100; ++i) next[i] = i;
  EXPECT_EQ(vector.size(), 1u);
  vector.keep(3);
  ASSERT_EQ(vector.size(), 4u);
  EXPECT_EQ(vector[0], 1u);
  EXPECT_EQ(vector[3], 2u);
}

TEST(BigVectorTest, ShrinksWithWhatIsInIt) {
  // On the heap; mapped but so small that shrinking moves it back; and mapped.
  for (const uint32_t size : {0u, 1u, 1'000u, 100'000u, 1'000'000u}) {
    BigVector<uint32_t> vector;
    for (uint32_t i = 0; i < size; ++i) vector.push_back(i);
    vector.shrink_to_fit();
    ASSERT_EQ(vector.size(), size);
    for (uint32_t i = 0; i < size; ++i) ASSERT_EQ(vector[i], i);
  }
}

TEST(BigVectorTest, Moves) {
  BigVector<uint32_t> a;
  a.push_back(1);
  BigVector<uint32_t> b = std::move(a);
  EXPECT_EQ(b.size(), 1u);
  BigVector<uint32_t> c;
  c.resize_uninitialized(1 << 20);
  c[(1 << 20) - 1] = 4;
  c = std::move(b);
  ASSERT_EQ(c.size(), 1u);
  EXPECT_EQ(c[0], 1u);
}

}  // namespace
}  // namespace pto::engine
