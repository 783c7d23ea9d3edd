#include "daemon/rpc/poll_team.h"

#include <atomic>
#include <deque>
#include <functional>
#include <future>
#include <latch>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "runtime/base/mutex.h"

namespace pto::rpc {
namespace {

using std::chrono::milliseconds;

// A queue of functions that also checks that no two threads wait in Next.
class FunctionQueue final : public TagSource {
 public:
  ~FunctionQueue() = default;

  void Push(std::function<void()> function) {
    MutexLock lock(mutex_);
    queue_.push_back(new FunctionTag(std::move(function)));
    changed_.NotifyAll();
  }
  void Shutdown() {
    MutexLock lock(mutex_);
    shut_down_ = true;
    changed_.NotifyAll();
  }
  bool Next(Tag** tag, bool* ok) override {
    MutexLock lock(mutex_);
    EXPECT_EQ(++waiting_, 1) << "two threads poll";
    while (queue_.empty() && !shut_down_) changed_.Wait(mutex_);
    --waiting_;
    if (queue_.empty()) return false;
    *tag = queue_.front();
    *ok = true;
    queue_.pop_front();
    return true;
  }

 private:
  class FunctionTag final : public Tag {
   public:
    explicit FunctionTag(std::function<void()> function) : function_(std::move(function)) {}
    void Proceed(bool /*ok*/) override {
      function_();
      delete this;
    }

   private:
    std::function<void()> function_;
  };

  Mutex mutex_;
  CondVar changed_;
  std::deque<Tag*> queue_;
  bool shut_down_ = false;
  int waiting_ = 0;
};

// Runs `count` quick handlers, one after the other, and waits for each.
void RunQuick(FunctionQueue& queue, int count) {
  for (int i = 0; i < count; ++i) {
    std::promise<void> ran;
    queue.Push([&ran] { ran.set_value(); });
    ran.get_future().wait();
  }
}

TEST(PollTeamTest, RunsEverythingInOrderOnOneThread) {
  FunctionQueue queue;
  std::vector<int> order;
  std::vector<std::thread::id> threads;
  {
    // A minute: a slow machine must not look like a stuck handler.
    PollTeam team(queue, {.stuck_after = std::chrono::minutes(1)});
    for (int i = 0; i < 1000; ++i) {
      queue.Push([&, i] {
        order.push_back(i);
        threads.push_back(std::this_thread::get_id());
      });
    }
    team.Start();
    queue.Shutdown();
    team.Join();
    EXPECT_EQ(team.takeovers(), 0u);
  }
  ASSERT_EQ(order.size(), 1000u);
  for (int i = 0; i < 1000; ++i) {
    EXPECT_EQ(order[i], i);
    EXPECT_EQ(threads[i], threads[0]);
  }
}

TEST(PollTeamTest, AStuckHandlerDoesNotStopTheOthers) {
  FunctionQueue queue;
  PollTeam team(queue, {});
  team.Start();
  std::latch release(1);
  std::latch entered(1);
  queue.Push([&] {
    entered.count_down();
    release.wait();
  });
  entered.wait();
  RunQuick(queue, 100);
  EXPECT_GE(team.takeovers(), 1u);
  release.count_down();
  RunQuick(queue, 100);
  queue.Shutdown();
  team.Join();
}

TEST(PollTeamTest, AsManyStuckHandlersAsUnderstudies) {
  FunctionQueue queue;
  PollTeam team(queue, {.understudies = 3});
  team.Start();
  for (int round = 0; round < 3; ++round) {
    std::latch release(1);
    std::latch entered(3);
    std::latch left(3);
    for (int i = 0; i < 3; ++i) {
      queue.Push([&] {
        entered.count_down();
        release.wait();
        left.count_down();
      });
    }
    entered.wait();
    RunQuick(queue, 10);
    release.count_down();
    left.wait();
  }
  EXPECT_GE(team.takeovers(), 9u);
  queue.Shutdown();
  team.Join();
}

// All threads are stuck; the first that returns must pick up the queue again, and the next the
// watch, although nobody was there to be told.
TEST(PollTeamTest, RecoversWhenAllWereStuck) {
  FunctionQueue queue;
  PollTeam team(queue, {.understudies = 1});
  team.Start();
  for (int round = 0; round < 10; ++round) {
    std::latch release(1);
    std::latch entered(2);
    for (int i = 0; i < 2; ++i) {
      queue.Push([&] {
        entered.count_down();
        release.wait();
      });
    }
    entered.wait();
    release.count_down();
    RunQuick(queue, 10);
    // The second round of stuck handlers finds a watch.
    std::latch again(1);
    std::latch in(1);
    queue.Push([&] {
      in.count_down();
      again.wait();
    });
    in.wait();
    RunQuick(queue, 1);
    again.count_down();
    RunQuick(queue, 1);
  }
  queue.Shutdown();
  team.Join();
}

// Goes to sleep and wakes in all possible moments.
TEST(PollTeamTest, TheWatchWakesAfterSilence) {
  FunctionQueue queue;
  PollTeam team(queue, {.understudies = 2,
                        .stuck_after = std::chrono::microseconds(200),
                        .quiet_after = std::chrono::microseconds(400)});
  team.Start();
  for (int round = 0; round < 300; ++round) {
    // Not for synchronisation: only to arrive at another moment of the watch's round each time.
    std::this_thread::sleep_for(std::chrono::microseconds(round * 7 % 900));
    std::latch release(1);
    std::latch entered(1);
    queue.Push([&] {
      entered.count_down();
      release.wait();
    });
    entered.wait();
    RunQuick(queue, 2);
    release.count_down();
    RunQuick(queue, 1);
  }
  queue.Shutdown();
  team.Join();
}

TEST(PollTeamTest, StopsWhileAnOldLeaderIsStillInItsHandler) {
  FunctionQueue queue;
  PollTeam team(queue, {});
  team.Start();
  std::latch release(1);
  std::latch entered(1);
  queue.Push([&] {
    entered.count_down();
    release.wait();
  });
  entered.wait();
  RunQuick(queue, 1);
  queue.Shutdown();
  std::thread joiner([&] { team.Join(); });
  release.count_down();
  joiner.join();
}

}  // namespace
}  // namespace pto::rpc
