#include "runtime/engine/wait_table.h"

#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <thread>
#include <vector>

namespace pto {
namespace {

class TestWaiter final : public Waiter {
 public:
  using Waiter::Waiter;
  std::vector<WaitEnd> ends;

 private:
  void OnEnd(WaitEnd end) override { ends.push_back(end); }
};

class WaitTableTest : public ::testing::Test {
 protected:
  bool Add(Waiter& waiter) {
    key_ = table_.NewKey(waiter);
    return table_.Add(waiter, key_, [] {});
  }

  WaitTable table_;
  WaitTable::Key key_;
  int64_t word_ = 0;
  const SignalWord signal_{&word_, PTO_I64};
};

TEST_F(WaitTableTest, WhatHoldsAlreadyDoesNotWait) {
  word_ = 3;
  TestWaiter waiter(signal_, PTO_GE, 3);
  EXPECT_FALSE(Add(waiter));
  EXPECT_EQ(table_.size(), 0u);
  EXPECT_TRUE(waiter.ends.empty());
}

TEST_F(WaitTableTest, NotifyWakesThoseForWhomItHolds) {
  TestWaiter one(signal_, PTO_GE, 1);
  TestWaiter two(signal_, PTO_GE, 2);
  EXPECT_TRUE(Add(one));
  EXPECT_TRUE(Add(two));
  table_.Notify(signal_, PTO_ADD, 1);
  EXPECT_EQ(one.ends, std::vector<WaitEnd>{WaitEnd::kHolds});
  EXPECT_TRUE(two.ends.empty());
  table_.Notify(signal_, PTO_SET, 7);
  EXPECT_EQ(two.ends, std::vector<WaitEnd>{WaitEnd::kHolds});
  EXPECT_EQ(word_, 7);
  EXPECT_EQ(table_.size(), 0u);
}

TEST_F(WaitTableTest, AllComparisons) {
  // For each: what does not hold for 5, and a value of the word for which it does.
  struct Case {
    pto_compare compare;
    int64_t want;
    int64_t then;
  };
  for (const Case& c : {Case{PTO_EQ, 6, 6},
                        {PTO_NE, 5, 4},
                        {PTO_GT, 5, 6},
                        {PTO_GE, 6, 6},
                        {PTO_LT, 5, 4},
                        {PTO_LE, 4, 4}}) {
    word_ = 5;
    TestWaiter waiter(signal_, c.compare, c.want);
    EXPECT_TRUE(Add(waiter)) << CompareText(c.compare);
    table_.Notify(signal_, PTO_SET, 5);
    EXPECT_TRUE(waiter.ends.empty()) << CompareText(c.compare);
    table_.Notify(signal_, PTO_SET, c.then);
    EXPECT_EQ(waiter.ends.size(), 1u) << CompareText(c.compare);
  }
}

TEST_F(WaitTableTest, SmallWordsLeaveTheirNeighboursAlone) {
  int32_t words[2] = {0, 0};
  const SignalWord first{&words[0], PTO_I32};
  TestWaiter waiter(first, PTO_EQ, -2);
  EXPECT_TRUE(Add(waiter));
  table_.Notify(first, PTO_ADD, -2);
  EXPECT_EQ(waiter.ends.size(), 1u);
  EXPECT_EQ(words[0], -2);
  EXPECT_EQ(words[1], 0);
  table_.Notify(first, PTO_ADD, std::numeric_limits<int64_t>::max());
  EXPECT_EQ(words[1], 0);
}

TEST_F(WaitTableTest, WordsMustBeWholeAndInPlace) {
  EXPECT_TRUE((SignalWord{&word_, PTO_I64}.valid()));
  EXPECT_FALSE((SignalWord{nullptr, PTO_I64}.valid()));
  EXPECT_FALSE((SignalWord{&word_, PTO_F32}.valid()));
  EXPECT_FALSE((SignalWord{reinterpret_cast<char*>(&word_) + 2, PTO_I32}.valid()));
  EXPECT_TRUE((SignalWord{reinterpret_cast<char*>(&word_) + 4, PTO_I32}.valid()));
}

TEST_F(WaitTableTest, AWaitIsEndedOnce) {
  TestWaiter waiter(signal_, PTO_GE, 1);
  EXPECT_TRUE(Add(waiter));
  EXPECT_TRUE(table_.End(key_, WaitEnd::kTimedOut));
  EXPECT_FALSE(table_.End(key_, WaitEnd::kCancelled));
  table_.Notify(signal_, PTO_SET, 1);
  EXPECT_EQ(waiter.ends, std::vector<WaitEnd>{WaitEnd::kTimedOut});
}

// Threads that wait for each other's next number, over and over: a lost wake-up would hang.
TEST_F(WaitTableTest, NoWakeUpIsLost) {
  class Flag final : public Waiter {
   public:
    using Waiter::Waiter;
    void Wait() { ended_.wait(false); }

   private:
    void OnEnd(WaitEnd) override {
      ended_.store(true);
      ended_.notify_one();
    }
    std::atomic<bool> ended_{false};
  };
  constexpr int kRounds = 2000;
  int64_t words[2] = {0, 0};
  // Kept to the end: the one that wakes it may still touch it.
  std::vector<std::unique_ptr<Flag>> flags[2];
  std::vector<std::thread> threads;
  for (int self = 0; self < 2; ++self) {
    threads.emplace_back([&, self] {
      const SignalWord own{&words[self], PTO_I64};
      const SignalWord other{&words[1 - self], PTO_I64};
      for (int round = 1; round <= kRounds; ++round) {
        table_.Notify(own, PTO_ADD, 1);
        flags[self].push_back(std::make_unique<Flag>(other, PTO_GE, round));
        Flag& flag = *flags[self].back();
        if (table_.Add(flag, table_.NewKey(flag), [] {})) flag.Wait();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(words[0], kRounds);
  EXPECT_EQ(table_.size(), 0u);
}

}  // namespace
}  // namespace pto
