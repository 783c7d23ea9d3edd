#include "runtime/engine/lane/completion_ring.h"

#include <gtest/gtest.h>

#include <deque>

namespace pto::engine {
namespace {

class CompletionRingTest : public ::testing::Test {
 protected:
  // Adds so many news with one push. Returns how often that woke somebody.
  uint64_t Push(size_t count) {
    NewsList list;
    for (size_t i = 0; i < count; ++i) {
      list.Add(news_.emplace_back(LaneNews::Kind::kPost));
    }
    const uint64_t before = parking_.Ticket();
    ring_.Push(list);
    return parking_.Ticket() - before;
  }

  Parking parking_;
  CompletionRing ring_{parking_};
  std::deque<LaneNews> news_;
};

TEST_F(CompletionRingTest, OneWakeUpIsEnoughForMany) {
  EXPECT_EQ(Push(0), 0u);
  EXPECT_EQ(Push(64), 1u);
  // The worker that was woken has not come yet.
  EXPECT_EQ(Push(64), 0u);
  EXPECT_EQ(ring_.size(), 128u);
  while (ring_.Take() != nullptr) {
  }
  EXPECT_EQ(Push(1), 1u);
}

TEST_F(CompletionRingTest, PassesOnOnlyToSleepers) {
  Push(2);
  const uint64_t before = parking_.Ticket();
  ring_.PassOn();
  EXPECT_EQ(parking_.Ticket(), before);
}

TEST_F(CompletionRingTest, IsInOrder) {
  Push(2);
  Push(2);
  EXPECT_EQ(ring_.Take(), &news_[0]);
  // From the middle and from the end.
  EXPECT_EQ(ring_.Take(1), &news_[2]);
  EXPECT_EQ(ring_.Take(2), nullptr);
  EXPECT_EQ(ring_.Take(1), &news_[3]);
  Push(1);
  EXPECT_EQ(ring_.Take(), &news_[1]);
  EXPECT_EQ(ring_.Take(), &news_[4]);
  EXPECT_EQ(ring_.Take(), nullptr);
  EXPECT_EQ(ring_.size(), 0u);
}

}  // namespace
}  // namespace pto::engine
