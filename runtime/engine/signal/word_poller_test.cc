#include "runtime/engine/signal/word_poller.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "absl/time/time.h"
#include "runtime/base/clock.h"
#include "runtime/base/mutex.h"
#include "runtime/engine/signal/wait_table.h"

namespace pto::engine {
namespace {

class WordPollerTest : public ::testing::Test {
 protected:
  ManualClock clock_;
  absl::Duration look_takes_;
  size_t waits_ = 1;
  WordPoller poller_{[this] {
                       clock_.Advance(look_takes_);
                       return waits_;
                     },
                     clock_};
};

TEST_F(WordPollerTest, LooksMoreRarelyWhileNothingHappens) {
  int64_t last = poller_.Look();
  EXPECT_EQ(last, WordPoller::kLeastNs);
  for (int i = 0; i < 100; ++i) {
    const int64_t next = poller_.Look();
    EXPECT_GE(next, last);
    last = next;
  }
  EXPECT_EQ(last, WordPoller::kMostNs);
  waits_ = 2;
  EXPECT_EQ(poller_.Look(), WordPoller::kLeastNs);
}

TEST_F(WordPollerTest, ALookThatTakesLongIsFollowedByALongPause) {
  look_takes_ = absl::Milliseconds(1);
  EXPECT_EQ(poller_.Look(), 1'000'000 * (WordPoller::kShare - 1));
}

TEST_F(WordPollerTest, RestsWhenNobodyWaits) {
  waits_ = 0;
  EXPECT_EQ(poller_.Look(), 0);
}

// ---- with its thread

class Flag final : public Waiter {
 public:
  Flag(const SignalWord& signal, pto_compare compare, int64_t value)
      : Waiter(signal, compare, value) {
    set_foreign(nullptr);
  }
  bool Await() {
    MutexLock lock(mutex_);
    while (!ended_) changed_.Wait(mutex_);
    return holds_;
  }

 private:
  void OnEnd(WaitEnd end) override {
    MutexLock lock(mutex_);
    ended_ = true;
    holds_ = end == WaitEnd::kHolds;
    changed_.NotifyAll();
  }
  Mutex mutex_;
  CondVar changed_;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  bool holds_ ABSL_GUARDED_BY(mutex_) = false;
};

class PolledTableTest : public ::testing::Test {
 protected:
  PolledTableTest() {
    table_.OnForeign([this] { poller_.Wake(); });
  }
  ~PolledTableTest() override { poller_.Stop(); }

  WaitTable table_;
  std::atomic<uint64_t> looks_{0};
  WordPoller poller_{[this] {
    looks_.fetch_add(1);
    return table_.LookAtForeign();
  }};
};

TEST_F(PolledTableTest, AStoreThatNobodyTellsOfEndsAWait) {
  for (const uint32_t dtype : {PTO_U64, PTO_I64, PTO_U32, PTO_I32}) {
    for (int i = 0; i < 50; ++i) {
      alignas(8) uint64_t word = 0;
      Flag flag({&word, dtype}, PTO_GE, 3);
      ASSERT_TRUE(table_.Add(flag, [] {}));
      std::atomic_ref(word).store(2);
      std::atomic_ref(word).store(3);
      EXPECT_TRUE(flag.Await());
    }
  }
  EXPECT_EQ(table_.foreign(), 0u);
  EXPECT_GE(looks_.load(), 200u);
}

TEST_F(PolledTableTest, AWaitThatEndsOtherwiseIsForgotten) {
  int32_t word = 0;
  Flag flag({&word, PTO_I32}, PTO_EQ, 3);
  ASSERT_TRUE(table_.Add(flag, [] {}));
  EXPECT_EQ(table_.foreign(), 1u);
  ASSERT_TRUE(flag.Claim());
  table_.End(flag, WaitEnd::kCancelled);
  EXPECT_FALSE(flag.Await());
  EXPECT_EQ(table_.foreign(), 0u);
}

}  // namespace
}  // namespace pto::engine
