#include "daemon/turn/run_turn.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/base/mutex.h"
#include "runtime/engine/run/completions.h"
#include "runtime/engine/testing/small_stack.h"

namespace pto::daemon {
namespace {

using ::pto::engine::testing::OnSmallStack;

class TestTurn final : public RunTurn {
 public:
  explicit TestTurn(Mutex& mutex, const void* group = nullptr) : RunTurn(group), mutex_(mutex) {}

  // As a session does when a run starts and when it ends.
  void Start() {
    if (!Arrive()) return;
    begun = true;
    engine::Completions completions;
    Begun(completions);
  }
  void EndRun(engine::Completions& completions) {
    ended = true;
    {
      MutexLock lock(mutex_);
      Leave();
    }
    End(completions);
  }
  void EndRun() {
    engine::Completions completions;
    EndRun(completions);
  }

  std::atomic<bool> begun{false};
  std::atomic<bool> ended{false};
  std::atomic<int> late{0};
  // Ends when the turn comes.
  std::shared_ptr<TestTurn> stops;

 protected:
  void OnTurn(engine::Completions& completions) override {
    begun = true;
    if (stops != nullptr) stops->EndRun(completions);
  }
  void OnPassedLate() override {
    ++late;
    MutexLock lock(mutex_);
    Leave();
  }

 private:
  Mutex& mutex_;
};

using TurnPtr = std::shared_ptr<TestTurn>;

class RunTurnTest : public ::testing::Test {
 protected:
  TurnPtr Add(RunAccesses accesses, const void* group = nullptr) {
    auto turn = std::make_shared<TestTurn>(mutex_, group);
    {
      MutexLock lock(mutex_);
      RunTurn::Enter(turn, std::make_shared<const RunAccesses>(std::move(accesses)));
      all_.push_back(turn);
    }
    turn->Start();
    return turn;
  }
  TurnPtr Read(uint64_t begin, uint64_t end) { return Add({{x_, {begin, end}, false}}); }
  TurnPtr Write(uint64_t begin, uint64_t end) { return Add({{x_, {begin, end}, true}}); }
  // As a segment of an open run that uses signals does, and writes some bytes of a buffer.
  TurnPtr Segment(const void* group) {
    return Add({{y_, {0, 10}, true}, {x_, {0, 1}, true, true}}, group);
  }

  Mutex mutex_;
  std::vector<TurnPtr> all_;  // a turn lives at least until it has passed
  const std::shared_ptr<BufferQueue> x_ = std::make_shared<BufferQueue>();
  const std::shared_ptr<BufferQueue> y_ = std::make_shared<BufferQueue>();
};

TEST_F(RunTurnTest, AReadWaitsForAWrite) {
  const TurnPtr write = Write(0, 10);
  const TurnPtr read = Read(9, 20);
  EXPECT_TRUE(write->begun);
  EXPECT_FALSE(read->begun);
  write->EndRun();
  EXPECT_TRUE(read->begun);
  EXPECT_EQ(read->late, 0);
}

TEST_F(RunTurnTest, ARunThatEndsBeforeItArrivesLeavesNothing) {
  {
    auto stopped = std::make_shared<TestTurn>(mutex_);
    {
      MutexLock lock(mutex_);
      RunTurn::Enter(stopped,
                     std::make_shared<const RunAccesses>(RunAccesses{{x_, {0, 10}, true}}));
    }
    stopped->EndRun();
    stopped->Start();
    EXPECT_EQ(stopped->late, 1);
  }
  // Were the stopped one still in the buffer's list, this would look at freed memory.
  EXPECT_TRUE(Read(0, 10)->begun);
}

TEST_F(RunTurnTest, ARunThatLeavesBeforeAndEndsAfterItsTurnCameLeavesNothing) {
  const TurnPtr before = Write(0, 10);
  {
    auto stopped = std::make_shared<TestTurn>(mutex_);
    {
      MutexLock lock(mutex_);
      RunTurn::Enter(stopped,
                     std::make_shared<const RunAccesses>(RunAccesses{{x_, {5, 15}, true}}));
    }
    stopped->Start();
    {
      MutexLock lock(mutex_);
      EXPECT_FALSE(stopped->Leave());
    }
    before->EndRun();
    engine::Completions completions;
    stopped->End(completions);
    EXPECT_EQ(stopped->late, 1);
  }
  EXPECT_TRUE(Read(0, 20)->begun);
}

TEST_F(RunTurnTest, AWriteWaitsForReadsAndWrites) {
  const TurnPtr one = Read(0, 10), two = Read(5, 15);
  EXPECT_TRUE(one->begun);
  EXPECT_TRUE(two->begun);
  const TurnPtr write = Write(0, 20), again = Write(0, 20);
  one->EndRun();
  EXPECT_FALSE(write->begun);
  two->EndRun();
  EXPECT_TRUE(write->begun);
  EXPECT_FALSE(again->begun);
  write->EndRun();
  EXPECT_TRUE(again->begun);
}

TEST_F(RunTurnTest, OtherBytesAndOtherBuffersAreNoReasonToWait) {
  const TurnPtr write = Write(10, 20);
  EXPECT_TRUE(Write(0, 10)->begun);
  EXPECT_TRUE(Read(20, 30)->begun);
  EXPECT_TRUE(Add({{y_, {10, 20}, true}})->begun);
  EXPECT_TRUE(Add({})->begun);
  EXPECT_FALSE(Read(19, 30)->begun);
}

TEST_F(RunTurnTest, ARunDoesNotWaitForItself) {
  const TurnPtr both = Add({{x_, {0, 10}, true}, {x_, {5, 15}, false}, {x_, {0, 20}, true}});
  EXPECT_TRUE(both->begun);
  const TurnPtr next = Read(0, 1);
  EXPECT_FALSE(next->begun);
  both->EndRun();
  EXPECT_TRUE(next->begun);
}

TEST_F(RunTurnTest, OneThatHasEndedIsNotWaitedFor) {
  const TurnPtr write = Write(0, 10);
  write->EndRun();
  EXPECT_TRUE(Write(0, 10)->begun);
}

TEST_F(RunTurnTest, OneThatIsStoppedKeepsOthersBehindThoseBeforeIt) {
  const TurnPtr first = Write(0, 10);
  const TurnPtr stopped = Write(0, 10);  // takes over from the first
  const TurnPtr last = Write(0, 10);
  stopped->EndRun();
  EXPECT_FALSE(last->begun);
  const TurnPtr newer = Read(0, 10);
  EXPECT_FALSE(newer->begun);
  first->EndRun();
  EXPECT_EQ(stopped->late, 1);
  EXPECT_TRUE(last->begun);
  EXPECT_FALSE(newer->begun);
  last->EndRun();
  EXPECT_TRUE(newer->begun);
}

TEST_F(RunTurnTest, AWriteTakesOverOnlyWhatItCovers) {
  const TurnPtr all = Write(0, 10);
  const TurnPtr half = Write(0, 5);
  const TurnPtr rest = Read(5, 10);
  half->EndRun();
  EXPECT_FALSE(rest->begun);
  all->EndRun();
  EXPECT_TRUE(rest->begun);
}

TEST_F(RunTurnTest, ManyThatWereStoppedPassWithoutDeepCalls) {
  const TurnPtr first = Write(0, 10);
  std::vector<TurnPtr> chain;
  for (int i = 0; i < 200'000; ++i) chain.push_back(Write(0, 10));
  for (const TurnPtr& turn : chain) turn->EndRun();
  const TurnPtr last = Write(0, 10);
  EXPECT_FALSE(last->begun);
  OnSmallStack([&] { first->EndRun(); });
  EXPECT_TRUE(last->begun);
}

TEST_F(RunTurnTest, ManyThatEndEachOtherWhenTheirTurnComesPassWithoutDeepCalls) {
  std::shared_ptr<BufferQueue> queue = x_;
  const TurnPtr first = Write(0, 1);
  std::vector<TurnPtr> chain;
  for (int i = 0; i < 200'000; ++i) {
    chain.push_back(Add({{queue, {0, 1}, true}}));
    ASSERT_FALSE(chain.back()->begun);
    // The next one waits for this, which ends with the turn of the one that waits.
    queue = std::make_shared<BufferQueue>();
    chain.back()->stops = Add({{queue, {0, 1}, true}});
  }
  OnSmallStack([&] { first->EndRun(); });
  for (const TurnPtr& turn : chain) ASSERT_TRUE(turn->begun);
}

TEST_F(RunTurnTest, TurnsOfOneGroupWaitForEachOtherOnlyForExclusiveAccesses) {
  const int one = 0, other = 0;
  const TurnPtr first = Segment(&one), second = Segment(&one);
  EXPECT_TRUE(first->begun);
  EXPECT_FALSE(second->begun);
  EXPECT_TRUE(Add({{y_, {0, 10}, true}}, &one)->begun);
  EXPECT_FALSE(Add({{y_, {0, 10}, true}}, &other)->begun);
  first->EndRun();
  EXPECT_TRUE(second->begun);
}

TEST_F(RunTurnTest, OneOfAGroupThatIsStoppedKeepsTheNextBehindTheFirst) {
  const int group = 0;
  const TurnPtr first = Segment(&group), stopped = Segment(&group), last = Segment(&group);
  stopped->EndRun();
  EXPECT_FALSE(last->begun);
  EXPECT_EQ(stopped->late, 0);
  first->EndRun();
  EXPECT_EQ(stopped->late, 1);
  EXPECT_TRUE(last->begun);
  EXPECT_FALSE(Segment(&group)->begun);
  last->EndRun();
  EXPECT_TRUE(all_.back()->begun);
  // A run does not tell that it waits for itself.
  EXPECT_EQ(last->shown_before(0), 0u);
}

bool Conflict(const RunAccesses& a, const RunAccesses& b) {
  for (const BufferAccess& one : a) {
    for (const BufferAccess& other : b) {
      if (one.queue == other.queue && (one.writes || other.writes) &&
          one.bytes.Overlaps(other.bytes)) {
        return true;
      }
    }
  }
  return false;
}

// Whoever has conflicting ones before it that have not passed waits, and nobody else.
TEST_F(RunTurnTest, RandomRunsBeginWhenTheyMayAndNotBefore) {
  for (uint32_t seed = 0; seed < 2000; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    std::vector<TurnPtr> turns;
    std::vector<RunAccesses> accesses;
    std::vector<bool> passed;
    for (int step = 0; step < 40; ++step) {
      if (random() % 3 != 0 || turns.empty()) {
        RunAccesses own;
        for (uint32_t count = random() % 3; count > 0; --count) {
          const uint64_t begin = random() % 12;
          own.push_back(
              {random() % 4 == 0 ? y_ : x_, {begin, begin + 1 + random() % 6}, random() % 2 == 0});
        }
        accesses.push_back(own);
        turns.push_back(Add(own));
        passed.push_back(false);
      } else {
        TestTurn& turn = *turns[random() % turns.size()];
        if (!turn.ended && (turn.begun || random() % 4 == 0)) turn.EndRun();
      }
      for (size_t i = 0; i < turns.size(); ++i) {
        bool may = true;
        for (size_t before = 0; before < i; ++before) {
          may = may && (passed[before] || !Conflict(accesses[before], accesses[i]));
        }
        // One that was stopped before its turn may or may not be told that it has come.
        ASSERT_TRUE(turns[i]->ended || turns[i]->begun == may) << i;
        passed[i] = may && turns[i]->ended;
      }
    }
    for (const TurnPtr& turn : turns) {
      if (!turn->ended) turn->EndRun();
    }
    const TurnPtr last = Add({{x_, {0, 100}, true}, {y_, {0, 100}, true}});
    ASSERT_TRUE(last->begun);
    last->EndRun();
  }
}

// Threads that add and end runs at the same time, some of them while they wait.
TEST_F(RunTurnTest, FromManyThreads) {
  constexpr int kThreads = 4, kTurns = 3000;
  std::atomic<bool> go{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      std::mt19937 random(static_cast<uint32_t>(i));
      while (!go) std::this_thread::yield();
      std::vector<TurnPtr> open;
      for (int turn = 0; turn < kTurns; ++turn) {
        const uint64_t begin = random() % 4;
        open.push_back(random() % 2 == 0 ? Write(begin, begin + 2) : Read(begin, begin + 2));
        if (open.size() > 8) {
          const size_t at = random() % open.size();
          open[at]->EndRun();
          open.erase(open.begin() + static_cast<ptrdiff_t>(at));
        }
      }
      for (const TurnPtr& turn : open) turn->EndRun();
    });
  }
  go = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(Write(0, 100)->begun);
}

}  // namespace
}  // namespace pto::daemon
