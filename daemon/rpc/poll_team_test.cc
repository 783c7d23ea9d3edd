#include "daemon/rpc/poll_team.h"

#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <latch>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "runtime/base/mutex.h"

namespace pto::daemon::rpc {
namespace {

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
    // Shared: the handler may still be inside of it when we are done.
    auto ran = std::make_shared<std::latch>(1);
    queue.Push([ran] { ran->count_down(); });
    ran->wait();
  }
}

// Handlers that do not return before they are told to.
class StuckHandlers {
 public:
  StuckHandlers(FunctionQueue& queue, int count) : state_(std::make_shared<State>(count)) {
    for (int i = 0; i < count; ++i) {
      queue.Push([state = state_] {
        state->entered.count_down();
        state->released.wait();
        state->left.count_down();
      });
    }
    state_->entered.wait();
  }
  void Release() { state_->released.count_down(); }
  void WaitUntilLeft() { state_->left.wait(); }

 private:
  struct State {
    explicit State(int count) : entered(count), left(count) {}
    std::latch entered;
    std::latch released{1};
    std::latch left;
  };
  std::shared_ptr<State> state_;
};

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
  StuckHandlers stuck(queue, 1);
  RunQuick(queue, 10);
  EXPECT_GE(team.takeovers(), 1u);
  stuck.Release();
  RunQuick(queue, 10);
  queue.Shutdown();
  team.Join();
}

TEST(PollTeamTest, AsManyStuckHandlersAsUnderstudies) {
  FunctionQueue queue;
  PollTeam team(queue, {.understudies = 3});
  team.Start();
  for (int round = 0; round < 3; ++round) {
    StuckHandlers stuck(queue, 3);
    RunQuick(queue, 10);
    stuck.Release();
    stuck.WaitUntilLeft();
  }
  EXPECT_GE(team.takeovers(), 9u);
  queue.Shutdown();
  team.Join();
}

TEST(PollTeamTest, MoreStuckHandlersThanUnderstudies) {
  constexpr int kStuck = 20;
  FunctionQueue queue;
  PollTeam team(queue, {.understudies = 1});
  team.Start();
  for (int round = 0; round < 2; ++round) {
    StuckHandlers stuck(queue, kStuck);
    RunQuick(queue, 10);
    stuck.Release();
    stuck.WaitUntilLeft();
    RunQuick(queue, 10);
  }
  queue.Shutdown();
  team.Join();
}

// All threads are stuck; the first that returns must pick up the queue again, and the next the
// watch, although nobody was there to be told.
TEST(PollTeamTest, RecoversWhenAllWereStuck) {
  FunctionQueue queue;
  PollTeam team(queue, {.understudies = 1, .most_threads = 2});
  team.Start();
  for (int round = 0; round < 4; ++round) {
    StuckHandlers all(queue, 2);
    all.Release();
    RunQuick(queue, 10);
    StuckHandlers one(queue, 1);
    RunQuick(queue, 1);
    one.Release();
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
  for (int round = 0; round < 40; ++round) {
    // Not for synchronisation: only to arrive at another moment of the watch's round each time.
    std::this_thread::sleep_for(std::chrono::microseconds(round * 53 % 900));
    StuckHandlers stuck(queue, 1);
    RunQuick(queue, 2);
    stuck.Release();
    RunQuick(queue, 1);
  }
  queue.Shutdown();
  team.Join();
}

// A source whose Next computes until it is told to stop.
class BusySource final : public TagSource {
 public:
  bool Next(Tag** /*tag*/, bool* /*ok*/) override {
    while (!stop) {
    }
    return false;
  }
  std::atomic<bool> stop{false};
};

TEST(PollTeamTest, TellsThatTheLeaderDoesNotReturnFromNext) {
  BusySource source;
  std::atomic<int> stalls{0};
  PollTeam::Options options;
  options.quiet_after = std::chrono::milliseconds(10);
  options.on_stall = [&] { ++stalls; };
  PollTeam team(source, options);
  team.Start();
  // On a busy machine the leader may get so little of a CPU that the watch goes to sleep.
  while (stalls < 3) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    team.Look();
  }
  source.stop = true;
  team.Join();
}

// Nothing computes: the watch sleeps, and looks when it is told to.
TEST(PollTeamTest, SleepsWhileNothingHappensAndLooksWhenTold) {
  FunctionQueue queue;
  std::atomic<int> sleeps{0};
  std::atomic<int> stalls{0};
  PollTeam::Options options;
  options.quiet_after = std::chrono::milliseconds(10);
  options.on_stall = [&] { ++stalls; };
  options.on_sleep = [&](bool begins) { sleeps += begins ? 1 : 0; };
  PollTeam team(queue, options);
  team.Start();
  RunQuick(queue, 1);
  for (int round = 0; round < 3; ++round) {
    const int before = sleeps;
    while (sleeps == before) {
      team.Look();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  EXPECT_EQ(stalls, 0);
  queue.Shutdown();
  team.Join();
}

TEST(PollTeamTest, StopsWhileAnOldLeaderIsStillInItsHandler) {
  FunctionQueue queue;
  PollTeam team(queue, {});
  team.Start();
  StuckHandlers stuck(queue, 1);
  RunQuick(queue, 1);
  queue.Shutdown();
  std::thread joiner([&] { team.Join(); });
  stuck.Release();
  joiner.join();
}

}  // namespace
}  // namespace pto::daemon::rpc
