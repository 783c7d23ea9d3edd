#include "runtime/engine/signal/deadline_heap.h"

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <set>
#include <tuple>
#include <vector>

namespace pto::engine {
namespace {

class TestDeadline final : public Deadline {
 public:
  TestDeadline() : Deadline(Kind::kWait) {}
};

TEST(DeadlineHeapTest, FirstIsTheEarliestThenTheOldest) {
  DeadlineHeap heap;
  TestDeadline a, b, c, d;
  heap.Add(a, 20);
  heap.Add(b, 10);
  heap.Add(c, 20);
  heap.Add(d, 10);
  for (TestDeadline* const expected : {&b, &d, &a, &c}) {
    ASSERT_EQ(&heap.first(), expected);
    heap.Remove(heap.first());
  }
  EXPECT_TRUE(heap.empty());
}

TEST(DeadlineHeapTest, RemovingTwiceDoesNothing) {
  DeadlineHeap heap;
  TestDeadline a, b;
  heap.Remove(a);
  heap.Add(a, 1);
  heap.Add(b, 2);
  heap.Remove(a);
  heap.Remove(a);
  EXPECT_EQ(heap.size(), 1u);
  EXPECT_EQ(heap.first_ns(), 2);
  heap.Clear();
  heap.Remove(b);
  EXPECT_TRUE(heap.empty());
  heap.Add(b, 3);
  EXPECT_EQ(heap.first_ns(), 3);
}

TEST(DeadlineHeapTest, DoesWhatASetDoes) {
  std::mt19937_64 random(1);
  DeadlineHeap heap;
  std::vector<std::unique_ptr<TestDeadline>> all;
  std::vector<std::tuple<int64_t, uint64_t, TestDeadline*>> present;
  std::set<std::tuple<int64_t, uint64_t, TestDeadline*>> model;
  for (uint64_t i = 0; i < 20'000; ++i) {
    if (random() % 5 < 2 && !present.empty()) {
      std::swap(present[random() % present.size()], present.back());
      heap.Remove(*std::get<2>(present.back()));
      model.erase(present.back());
      present.pop_back();
    } else {
      all.push_back(std::make_unique<TestDeadline>());
      present.emplace_back(static_cast<int64_t>(random() % 1000), i, all.back().get());
      model.insert(present.back());
      heap.Add(*all.back(), std::get<0>(present.back()));
    }
    ASSERT_EQ(heap.size(), model.size());
    if (!model.empty()) {
      ASSERT_EQ(&heap.first(), std::get<2>(*model.begin()));
    }
  }
}

}  // namespace
}  // namespace pto::engine
