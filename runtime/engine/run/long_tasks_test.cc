#include "runtime/engine/run/long_tasks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace pto::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class TestWaiter final : public Waiter, public TaskWaiterLink {
 public:
  TestWaiter(const BlockTicket& ticket, const SignalWord& signal)
      : Waiter(signal, PTO_GE, 1), TaskWaiterLink(ticket, *this) {}
  using TaskWaiterLink::ListWithCall;

 private:
  void OnEnd(WaitEnd) override {}
  std::string Describe() const override { return "waited"; }
};

class LongTasksTest : public ::testing::Test {
 protected:
  LongTask& Begin(uint32_t task, int64_t at_ns) {
    return tasks_.Begin(
        task, [&](LongTask&) { return at_ns; },
        [&](TimerQueue::Id id, int64_t at) { return SetTimer(id, at); });
  }
  TestWaiter& Wait(uint32_t task, LongTask* long_task, int64_t at_ns, uint32_t block = 0,
                   bool with_call = false) {
    BlockTicket ticket;
    ticket.task = task;
    ticket.block = block;
    waiters_.push_back(std::make_unique<TestWaiter>(ticket, SignalWord{&word_, PTO_I64}));
    if (with_call) waiters_.back()->ListWithCall();
    tasks_.Add(*waiters_.back(), long_task, at_ns,
               [&](TimerQueue::Id id, int64_t at) { return SetTimer(id, at); });
    return *waiters_.back();
  }
  // The waits that the timer claims at that time.
  std::vector<Waiter*> Expire(int64_t now_ns, size_t most = 100) {
    std::vector<Waiter*> claimed = tasks_.Expire(now_ns, most);
    tasks_.EndExpiry([&](TimerQueue::Id id, int64_t at) { return SetTimer(id, at); });
    return claimed;
  }
  TimerQueue::Id SetTimer(TimerQueue::Id id, int64_t at_ns) {
    set_.emplace_back(id, at_ns);
    return set_.size();
  }

  int64_t word_ = 0;
  std::vector<std::unique_ptr<TestWaiter>> waiters_;
  // The timers that were moved, and to when.
  std::vector<std::pair<TimerQueue::Id, int64_t>> set_;
  LongTasks tasks_;
};

TEST_F(LongTasksTest, TheTimerIsSetForTheEarliest) {
  Begin(0, 50);
  Begin(1, 60);
  Begin(2, 40);
  Wait(3, nullptr, 45);
  Wait(4, nullptr, 30);
  EXPECT_THAT(set_, ElementsAre(std::pair(0, 50), std::pair(1, 40), std::pair(2, 30)));
  EXPECT_EQ(tasks_.Clear(), 3u);
}

TEST_F(LongTasksTest, TheWaitsOfOneCallAreClaimed) {
  LongTask& task = Begin(0, 0);
  TestWaiter& first = Wait(0, &task, 0, 1, true);
  TestWaiter& other = Wait(0, &task, 0, 2, true);
  TestWaiter& unlisted = Wait(0, &task, 0, 1);
  TestWaiter& gone = Wait(0, &task, 0, 1, true);
  TestWaiter& second = Wait(0, &task, 0, 1, true);
  EXPECT_EQ(tasks_.WaitsOfCalls(task), 4u);
  tasks_.Remove(gone);
  BlockTicket call;
  call.block = 1;
  EXPECT_THAT(tasks_.ClaimOf(task, call), ElementsAre(&first, &second));
  EXPECT_THAT(tasks_.ClaimOf(task, call), IsEmpty());
  EXPECT_EQ(tasks_.WaitsOfCalls(task), 1u);
  EXPECT_THAT(tasks_.ClaimAll(), ElementsAre(&other, &unlisted));
}

TEST_F(LongTasksTest, TasksThatEndInTimeDoNotMoveTheTimer) {
  for (uint32_t task = 0; task < 100; ++task) {
    Begin(task, 1000 + task);
    EXPECT_NE(tasks_.End(task), nullptr);
  }
  EXPECT_EQ(set_.size(), 1u);
  // The timer has nothing to do and is not set again.
  EXPECT_THAT(Expire(1000), IsEmpty());
  EXPECT_EQ(set_.size(), 1u);
  EXPECT_EQ(tasks_.Clear(), 0u);
}

TEST_F(LongTasksTest, WaitsAndTasksExpireInOrder) {
  LongTask& first = Begin(0, 20);
  LongTask& second = Begin(1, 30);
  TestWaiter& of_first = Wait(0, &first, 0, 7);
  TestWaiter& of_second = Wait(1, &second, 0);
  TestWaiter& own = Wait(1, &second, 25);
  EXPECT_THAT(Expire(19), IsEmpty());
  EXPECT_THAT(Expire(25), ElementsAre(&of_first, &own));
  EXPECT_TRUE(first.late);
  EXPECT_EQ(first.late_for, "waited");
  EXPECT_FALSE(second.late);
  EXPECT_THAT(Expire(30), ElementsAre(&of_second));
  EXPECT_TRUE(second.late);
  // A call that did not wait is at fault.
  BlockTicket ticket;
  ticket.block = 7;
  tasks_.NoteLate(first, ticket, 1, "it waited");
  EXPECT_TRUE(first.late_call->waited);
  ticket.block = 8;
  tasks_.NoteLate(first, ticket, 2, "it did not");
  EXPECT_FALSE(first.late_call->waited);
  EXPECT_EQ(first.late_call->said, "it did not");
}

TEST_F(LongTasksTest, ExpiresSoManyAtATime) {
  LongTask& task = Begin(0, 10);
  std::vector<Waiter*> expected;
  for (uint32_t i = 0; i < 25; ++i) expected.push_back(&Wait(0, &task, 0, i));
  LongTask& other = Begin(1, 10);
  expected.push_back(&Wait(1, &other, 0));
  std::vector<Waiter*> claimed;
  // Each task counts as one.
  for (const size_t count : {9, 10, 7}) {
    set_.clear();
    const std::vector<Waiter*> some = Expire(10, 10);
    EXPECT_EQ(some.size(), count);
    claimed.insert(claimed.end(), some.begin(), some.end());
    // If more remain, the timer is set again at once, so that other timers get their turn.
    EXPECT_EQ(set_.size(), claimed.size() < expected.size() ? 1u : 0u);
  }
  EXPECT_EQ(claimed, expected);
}

TEST_F(LongTasksTest, WaitsThatEndOtherwiseAreNotClaimed) {
  LongTask& task = Begin(0, 10);
  TestWaiter& ended = Wait(0, &task, 5);
  TestWaiter& ending = Wait(0, &task, 5);
  TestWaiter& waits = Wait(0, &task, 0);
  tasks_.Remove(ended);
  EXPECT_TRUE(ending.Claim());
  EXPECT_THAT(Expire(10), ElementsAre(&waits));
  for (TestWaiter* const waiter : {&ending, &waits}) tasks_.Remove(*waiter);
  EXPECT_NE(tasks_.End(0), nullptr);
  EXPECT_THAT(tasks_.ClaimAll(), IsEmpty());
}

TEST_F(LongTasksTest, ATaskMayEndBeforeAllItsWaitsAreClaimed) {
  LongTask& task = Begin(0, 10);
  TestWaiter& first = Wait(0, &task, 0);
  TestWaiter& second = Wait(0, &task, 0);
  EXPECT_THAT(Expire(10, 2), ElementsAre(&first));
  // Notified.
  EXPECT_TRUE(second.Claim());
  tasks_.Remove(second);
  EXPECT_NE(tasks_.End(0), nullptr);
  EXPECT_THAT(Expire(10, 2), IsEmpty());
}

TEST_F(LongTasksTest, AllCanBeClaimed) {
  LongTask& task = Begin(0, 10);
  TestWaiter& a = Wait(0, &task, 5);
  TestWaiter& b = Wait(1, nullptr, 5);
  TestWaiter& c = Wait(2, nullptr, 0);
  EXPECT_TRUE(b.Claim());
  EXPECT_THAT(tasks_.ClaimAll(), ElementsAre(&a, &c));
  EXPECT_THAT(tasks_.ClaimAll(), IsEmpty());
  EXPECT_THAT(Expire(100), IsEmpty());
}

}  // namespace
}  // namespace pto::engine
