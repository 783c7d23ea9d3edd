#include "runtime/engine/lane/lane_news_queue.h"

#include <gtest/gtest.h>

#include <deque>

namespace pto::engine {
namespace {

class LaneNewsQueueTest : public ::testing::Test {
 protected:
  // Adds so many news with one push. Returns how often that woke somebody.
  uint64_t Push(size_t count) {
    NewsList list;
    for (size_t i = 0; i < count; ++i) {
      list.Add(news_.emplace_back(LaneNews::Kind::kPost));
    }
    const uint64_t before = parking_.Ticket();
    queue_.Push(list);
    return parking_.Ticket() - before;
  }

  Parking parking_;
  LaneNewsQueue queue_{parking_};
  std::deque<LaneNews> news_;
};

TEST_F(LaneNewsQueueTest, OneWakeUpIsEnoughForMany) {
  EXPECT_EQ(Push(0), 0u);
  EXPECT_EQ(Push(64), 1u);
  // The worker that was woken has not come yet.
  EXPECT_EQ(Push(64), 0u);
  EXPECT_EQ(queue_.size(), 128u);
  while (queue_.Take() != nullptr) {
  }
  EXPECT_EQ(Push(1), 1u);
}

TEST_F(LaneNewsQueueTest, PassesOnOnlyToSleepers) {
  Push(2);
  const uint64_t before = parking_.Ticket();
  queue_.PassOn();
  EXPECT_EQ(parking_.Ticket(), before);
}

TEST_F(LaneNewsQueueTest, AThreadThatLeavesReachesAWorkerThatIsAboutToSleep) {
  queue_.BeginPoll();
  EXPECT_EQ(Push(2), 0u);
  queue_.EndPoll();
  // A worker has this ticket and has looked already; it counts as a sleeper only later.
  const uint64_t ticket = parking_.Ticket();
  queue_.Leave();
  EXPECT_NE(parking_.Ticket(), ticket);
  while (queue_.Take() != nullptr) {
  }
  const uint64_t nothing = parking_.Ticket();
  queue_.Leave();
  EXPECT_EQ(parking_.Ticket(), nothing);
}

TEST_F(LaneNewsQueueTest, IsInOrder) {
  Push(2);
  Push(2);
  EXPECT_EQ(queue_.Take(), &news_[0]);
  // From the middle and from the end.
  EXPECT_EQ(queue_.Take(1), &news_[2]);
  EXPECT_EQ(queue_.Take(2), nullptr);
  EXPECT_EQ(queue_.Take(1), &news_[3]);
  Push(1);
  EXPECT_EQ(queue_.Take(), &news_[1]);
  EXPECT_EQ(queue_.Take(), &news_[4]);
  EXPECT_EQ(queue_.Take(), nullptr);
  EXPECT_EQ(queue_.size(), 0u);
}

}  // namespace
}  // namespace pto::engine
