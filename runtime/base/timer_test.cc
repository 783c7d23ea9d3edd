#include "runtime/base/timer.h"

#include <atomic>
#include <functional>
#include <future>
#include <limits>
#include <memory>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace pto {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class TimerQueueTest : public ::testing::Test {
 protected:
  // Records `what` when the timer is called, `ms` after the start.
  TimerQueue::Id At(int ms, int what) {
    return queue_.Schedule(Ms(ms), [this, what] { called_.push_back(what); });
  }
  int64_t Ms(int ms) const { return start_ + ms * int64_t{1'000'000}; }

  ManualClock clock_;
  const int64_t start_ = clock_.NowNanos();
  TimerQueue queue_{clock_};
  std::vector<int> called_;
};

TEST_F(TimerQueueTest, CallsInOrderOfTimeThenOfScheduling) {
  At(20, 3);
  At(10, 1);
  At(10, 2);
  At(30, 4);
  EXPECT_EQ(queue_.RunDue(), Ms(10));
  EXPECT_THAT(called_, IsEmpty());
  clock_.Advance(absl::Milliseconds(20));
  EXPECT_EQ(queue_.RunDue(), Ms(30));
  EXPECT_THAT(called_, ElementsAre(1, 2, 3));
  clock_.Advance(absl::Seconds(1));
  EXPECT_EQ(queue_.RunDue(), -1);
  EXPECT_THAT(called_, ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(queue_.RunDue(), -1);
  EXPECT_THAT(called_, ElementsAre(1, 2, 3, 4));
}

TEST_F(TimerQueueTest, CallsAtItsTimeAndNotOneNanosecondBefore) {
  At(1, 1);
  clock_.Advance(absl::Nanoseconds(999'999));
  EXPECT_EQ(queue_.RunDue(), Ms(1));
  EXPECT_THAT(called_, IsEmpty());
  clock_.Advance(absl::Nanoseconds(1));
  queue_.RunDue();
  EXPECT_THAT(called_, ElementsAre(1));
}

TEST_F(TimerQueueTest, CallsWhatIsAlreadyPast) {
  queue_.Schedule(std::numeric_limits<int64_t>::min(), [this] { called_.push_back(1); });
  EXPECT_EQ(queue_.RunDue(), -1);
  EXPECT_THAT(called_, ElementsAre(1));
}

// Work that is split into steps lets timers run in between, although they became due later.
TEST_F(TimerQueueTest, WhatIsPastGoesBehindWhatIsDue) {
  int bits = 0;
  const std::function<void()> work = [&] {
    called_.push_back(0);
    if (++bits < 3) queue_.Schedule(Ms(1), work);
  };
  queue_.Schedule(Ms(1), work);
  At(2, 1);
  At(3, 2);
  At(5, 3);
  clock_.Advance(absl::Milliseconds(4));
  EXPECT_EQ(queue_.RunDue(), Ms(5));
  EXPECT_THAT(called_, ElementsAre(0, 1, 2, 0, 0));
}

// A group with many timers does not delay others, although it became due first.
TEST_F(TimerQueueTest, GroupsTakeTurns) {
  const int groups[3] = {};
  const auto at = [&](int ms, int what, const int* group) {
    return queue_.Schedule(Ms(ms), [this, what] { called_.push_back(what); }, group);
  };
  for (int i = 0; i < 200; ++i) at(1, 100 + i, &groups[0]);
  at(2, 1, &groups[1]);
  at(3, 2, &groups[1]);
  const TimerQueue::Id cancelled = at(2, 99, &groups[2]);
  at(3, 3, &groups[2]);
  At(3, 4);
  queue_.Schedule(Ms(0), [&] { EXPECT_TRUE(queue_.Cancel(cancelled)); }, &groups[1]);
  clock_.Advance(absl::Milliseconds(3));
  queue_.RunDue();
  ASSERT_EQ(called_.size(), 204u);
  called_.resize(8);
  EXPECT_THAT(called_, ElementsAre(100, 4, 1, 101, 3, 2, 102, 103));
}

TEST_F(TimerQueueTest, ManyOfOneGroupAreFewForAnother) {
  constexpr int kMany = 100'000;
  const int groups[2] = {};
  int before = 0, called = 0;
  for (int i = 0; i < kMany; ++i) queue_.Schedule(Ms(1), [&] { ++called; }, &groups[0]);
  queue_.Schedule(Ms(2), [&] { before = called; }, &groups[1]);
  clock_.Advance(absl::Milliseconds(3));
  EXPECT_EQ(queue_.RunDue(), -1);
  EXPECT_EQ(called, kMany);
  EXPECT_LE(before, kMany / 100);
}

TEST_F(TimerQueueTest, WhatIsDueCanBeCancelledAndDropped) {
  const auto held = std::make_shared<int>(0);
  TimerQueue::Id second = 0;
  queue_.Schedule(Ms(1), [&] {
    EXPECT_EQ(held.use_count(), 3);
    EXPECT_TRUE(queue_.Cancel(second));
    EXPECT_FALSE(queue_.Cancel(second));
    EXPECT_EQ(held.use_count(), 2);
    queue_.Clear();
    EXPECT_EQ(held.use_count(), 1);
  });
  second = queue_.Schedule(Ms(1), [held] {});
  queue_.Schedule(Ms(1), [held] {});
  clock_.Advance(absl::Milliseconds(1));
  EXPECT_EQ(queue_.RunDue(), -1);
}

TEST_F(TimerQueueTest, CancelledIsNeverCalled) {
  const TimerQueue::Id first = At(1, 1);
  const TimerQueue::Id second = At(1, 2);
  EXPECT_NE(first, 0);
  EXPECT_NE(first, second);
  EXPECT_TRUE(queue_.Cancel(first));
  EXPECT_FALSE(queue_.Cancel(first));
  EXPECT_FALSE(queue_.Cancel(0));
  clock_.Advance(absl::Milliseconds(1));
  queue_.RunDue();
  EXPECT_THAT(called_, ElementsAre(2));
  EXPECT_FALSE(queue_.Cancel(second));
}

TEST_F(TimerQueueTest, FunctionMayScheduleAndCancel) {
  TimerQueue::Id victim = 0;
  TimerQueue::Id self = 0;
  bool self_cancelled = true;
  self = queue_.Schedule(Ms(1), [&] {
    called_.push_back(1);
    self_cancelled = queue_.Cancel(self);
    EXPECT_TRUE(queue_.Cancel(victim));
    At(1, 2);  // due already
    At(5, 3);
  });
  victim = At(1, 99);
  clock_.Advance(absl::Milliseconds(1));
  EXPECT_EQ(queue_.RunDue(), Ms(5));
  EXPECT_THAT(called_, ElementsAre(1, 2));
  EXPECT_FALSE(self_cancelled);
}

TEST_F(TimerQueueTest, FunctionMayRunTheQueue) {
  queue_.Schedule(Ms(0), [this] {
    called_.push_back(1);
    queue_.RunDue();
    called_.push_back(3);
  });
  At(0, 2);
  queue_.RunDue();
  EXPECT_THAT(called_, ElementsAre(1, 2, 3));
}

TEST_F(TimerQueueTest, ClearDropsWithoutCalling) {
  const auto held = std::make_shared<int>(0);
  queue_.Schedule(Ms(1), [held] {});
  const TimerQueue::Id id = At(1, 1);
  EXPECT_EQ(held.use_count(), 2);
  queue_.Clear();
  EXPECT_EQ(held.use_count(), 1);
  EXPECT_FALSE(queue_.Cancel(id));
  clock_.Advance(absl::Milliseconds(1));
  EXPECT_EQ(queue_.RunDue(), -1);
  EXPECT_THAT(called_, IsEmpty());
}

// Objects that a function owns may use the queue in their destructors.
TEST_F(TimerQueueTest, FunctionsAreDestroyedWithoutTheLock) {
  struct UsesQueue {
    explicit UsesQueue(TimerQueue& q) : queue(q) {}
    ~UsesQueue() { queue.Cancel(0); }
    TimerQueue& queue;
  };
  const auto hold = [this](int ms) {
    return queue_.Schedule(Ms(ms), [held = std::make_shared<UsesQueue>(queue_)] {});
  };
  EXPECT_TRUE(queue_.Cancel(hold(1)));
  hold(0);
  queue_.RunDue();
  hold(1);
  queue_.Clear();
}

TEST_F(TimerQueueTest, EachTimerIsCalledOnceByManyThreads) {
  constexpr int kTimers = 1000;
  std::vector<std::atomic<int>> calls(kTimers);
  std::vector<TimerQueue::Id> ids;
  for (int i = 0; i < kTimers; ++i) {
    ids.push_back(queue_.Schedule(Ms(0), [&calls, i] { ++calls[i]; }));
  }
  std::atomic<int> cancelled{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) threads.emplace_back([this] { queue_.RunDue(); });
  threads.emplace_back([&] {
    for (auto id = ids.rbegin(); id != ids.rend(); ++id) cancelled += queue_.Cancel(*id) ? 1 : 0;
  });
  for (std::thread& thread : threads) thread.join();
  int called = 0;
  for (const std::atomic<int>& count : calls) {
    EXPECT_LE(count, 1);
    called += count;
  }
  EXPECT_EQ(called + cancelled, kTimers);
}

int64_t In(absl::Duration time) {
  return Clock::Real().NowNanos() + absl::ToInt64Nanoseconds(time);
}

TEST(TimerThreadTest, CallsOnItsOwnThread) {
  TimerQueue queue(Clock::Real());
  TimerThread thread(queue);
  std::promise<std::thread::id> called;
  queue.Schedule(In(absl::Milliseconds(1)), [&] { called.set_value(std::this_thread::get_id()); });
  EXPECT_NE(called.get_future().get(), std::this_thread::get_id());
}

TEST(TimerThreadTest, AnEarlierTimerIsNotHeldUpByALaterOne) {
  TimerQueue queue(Clock::Real());
  TimerThread thread(queue);
  bool late = false;
  queue.Schedule(In(absl::Hours(1)), [&] { late = true; });
  // A timer at the end of time must not overflow into the past.
  queue.Schedule(std::numeric_limits<int64_t>::max(), [&] { late = true; });
  std::promise<int64_t> called;
  const int64_t at = In(absl::Milliseconds(2));
  queue.Schedule(at, [&] { called.set_value(Clock::Real().NowNanos()); });
  EXPECT_GE(called.get_future().get(), at);
  EXPECT_FALSE(late);
}

TEST(TimerThreadTest, ATimerMayScheduleTheNext) {
  TimerQueue queue(Clock::Real());
  std::promise<void> done;
  int left = 10;
  std::function<void()> tick = [&] {
    if (--left == 0) {
      done.set_value();
    } else {
      queue.Schedule(In(absl::Microseconds(100)), tick);
    }
  };
  TimerThread thread(queue);
  queue.Schedule(In(absl::ZeroDuration()), tick);
  done.get_future().get();
}

TEST(TimerThreadTest, StopsWithTimersLeftAndAnotherCanGoOn) {
  TimerQueue queue(Clock::Real());
  bool called = false;
  {
    TimerThread idle(queue);
  }
  const TimerQueue::Id left = queue.Schedule(In(absl::Hours(1)), [&] { called = true; });
  {
    TimerThread waiting(queue);
  }
  EXPECT_TRUE(queue.Cancel(left));
  TimerThread again(queue);
  std::promise<void> done;
  queue.Schedule(In(absl::ZeroDuration()), [&] { done.set_value(); });
  done.get_future().get();
  EXPECT_FALSE(called);
}

TEST(TimerThreadTest, WhatDoesNotReturnHoldsUpNoOther) {
  constexpr int kThreads = 3;
  TimerQueue queue(Clock::Real());
  TimerThread threads(queue, kThreads);
  // Twice: after the functions have returned, all threads are available again.
  for (int round = 0; round < 2; ++round) {
    std::promise<void> release;
    std::shared_future<void> released = release.get_future().share();
    std::promise<void> all_stuck;
    std::atomic<int> stuck{0};
    for (int i = 0; i < kThreads - 1; ++i) {
      queue.Schedule(In(absl::ZeroDuration()), [&, released] {
        if (++stuck == kThreads - 1) all_stuck.set_value();
        released.wait();
      });
    }
    all_stuck.get_future().get();
    std::promise<void> done;
    queue.Schedule(In(absl::ZeroDuration()), [&] { done.set_value(); });
    done.get_future().get();
    release.set_value();
  }
  std::promise<void> last;
  std::atomic<int> called{0};
  for (int i = 0; i < 100; ++i) {
    queue.Schedule(In(absl::Microseconds(10 * i)), [&] {
      if (++called == 100) last.set_value();
    });
  }
  last.get_future().get();
}

}  // namespace
}  // namespace pto
