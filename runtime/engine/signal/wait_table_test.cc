#include "runtime/engine/signal/wait_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <iterator>
#include <limits>
#include <memory>
#include <random>
#include <thread>
#include <utility>
#include <vector>

namespace pto::engine {
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
    return table_.Add(waiter, [] {});
  }

  WaitTable table_;
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

TEST_F(WaitTableTest, ForeignWordsEndWaitsWhenSomebodyLooks) {
  int wakes = 0;
  table_.OnForeign([&] { ++wakes; });
  uint64_t wide = 0;
  alignas(8) uint32_t narrow[2] = {};
  TestWaiter one({&wide, PTO_U64}, PTO_GE, 1);
  // More than an int64_t, and more than an int32_t.
  TestWaiter most({&wide, PTO_U64}, PTO_GE, -1);
  TestWaiter half({&narrow[1], PTO_U32}, PTO_GE, 0x80000000);
  TestWaiter own(signal_, PTO_GE, 1);
  EXPECT_TRUE(Add(own));
  EXPECT_EQ(table_.foreign(), 0u);
  for (TestWaiter* const waiter : {&one, &most, &half}) EXPECT_TRUE(Add(*waiter));
  EXPECT_EQ(wakes, 1);
  EXPECT_EQ(table_.LookAtForeign(), 3u);
  word_ = 1;
  wide = uint64_t{1} << 63;
  EXPECT_EQ(table_.LookAtForeign(), 2u);
  EXPECT_EQ(one.ends, std::vector<WaitEnd>{WaitEnd::kHolds});
  EXPECT_TRUE(most.ends.empty());
  narrow[1] = 0x80000001;
  EXPECT_EQ(table_.LookAtForeign(), 1u);
  EXPECT_EQ(half.ends, std::vector<WaitEnd>{WaitEnd::kHolds});
  wide = UINT64_MAX;
  EXPECT_EQ(table_.LookAtForeign(), 0u);
  EXPECT_EQ(most.ends, std::vector<WaitEnd>{WaitEnd::kHolds});
  EXPECT_TRUE(own.ends.empty()) << "a signal is not polled";
  table_.Notify(signal_, PTO_SET, 1);
  EXPECT_EQ(own.ends.size(), 1u);
  EXPECT_EQ(table_.size(), 0u);
}

TEST_F(WaitTableTest, AForeignWaitThatEndsOtherwiseIsPolledNoMore) {
  int wakes = 0;
  table_.OnForeign([&] { ++wakes; });
  uint64_t word = 0;
  for (int round = 1; round <= 2; ++round) {
    TestWaiter first({&word, PTO_U64}, PTO_GE, 5);
    TestWaiter second({&word, PTO_U64}, PTO_GE, 5);
    EXPECT_TRUE(Add(first));
    EXPECT_TRUE(Add(second));
    EXPECT_EQ(wakes, round);
    ASSERT_TRUE(first.Claim());
    table_.End(first, WaitEnd::kTimedOut);
    EXPECT_EQ(table_.LookAtForeign(), 1u);
    ASSERT_TRUE(second.Claim());
    table_.End(second, WaitEnd::kCancelled);
    EXPECT_EQ(table_.LookAtForeign(), 0u);
    EXPECT_EQ(first.ends, std::vector<WaitEnd>{WaitEnd::kTimedOut});
    EXPECT_EQ(second.ends, std::vector<WaitEnd>{WaitEnd::kCancelled});
  }
  // What holds already is no wait.
  word = 5;
  TestWaiter waiter({&word, PTO_U64}, PTO_GE, 5);
  EXPECT_FALSE(Add(waiter));
  EXPECT_EQ(table_.foreign(), 0u);
}

TEST_F(WaitTableTest, ForeignWordsOfEachOwnerTakeTurns) {
  constexpr size_t kMany = 10 * ForeignWords::kShare;
  std::vector<uint64_t> words(kMany + 1, 0);
  std::deque<TestWaiter> waiters;
  for (uint64_t& word : words) {
    TestWaiter& waiter = waiters.emplace_back(SignalWord{&word, PTO_U64}, PTO_EQ, 1);
    waiter.set_foreign(&word == &words[kMany] ? &words : nullptr);
    EXPECT_TRUE(Add(waiter));
  }
  std::fill(words.begin(), words.end(), 1);
  // The only word of its owner does not wait for the many of the other.
  EXPECT_EQ(table_.LookAtForeign(), kMany - ForeignWords::kShare);
  EXPECT_EQ(waiters.back().ends.size(), 1u);
  for (size_t looks = 1; looks < 10; ++looks) {
    EXPECT_EQ(table_.LookAtForeign(), kMany - (looks + 1) * ForeignWords::kShare);
  }
  EXPECT_EQ(table_.size(), 0u);
}

TEST_F(WaitTableTest, OneWordMayBeASignalAndForeign) {
  TestWaiter as_signal(signal_, PTO_LT, 0);
  TestWaiter as_foreign({&word_, PTO_U64}, PTO_GT, INT64_MAX);
  EXPECT_TRUE(Add(as_signal));
  EXPECT_TRUE(Add(as_foreign));
  table_.Notify(signal_, PTO_SET, -1);
  EXPECT_EQ(as_signal.ends.size(), 1u);
  EXPECT_EQ(as_foreign.ends.size(), 1u);
  EXPECT_EQ(table_.foreign(), 0u);
}

TEST_F(WaitTableTest, AllComparisons) {
  // For each comparison: a value for which it does not hold while the word is 5, and a value of the
  // word for which it does.
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
  EXPECT_TRUE(waiter.Claim());
  EXPECT_FALSE(waiter.Claim());
  // From now on only End ends it.
  table_.Notify(signal_, PTO_SET, 1);
  EXPECT_TRUE(waiter.ends.empty());
  table_.End(waiter, WaitEnd::kTimedOut);
  EXPECT_EQ(waiter.ends, std::vector<WaitEnd>{WaitEnd::kTimedOut});
}

TEST_F(WaitTableTest, OfThoseThatWaitForTheSameTheFirstGoesOnFirst) {
  class Numbered final : public Waiter {
   public:
    Numbered(const SignalWord& signal, int number, std::vector<int>* order)
        : Waiter(signal, PTO_GE, 1), number_(number), order_(order) {}

   private:
    void OnEnd(WaitEnd) override { order_->push_back(number_); }
    const int number_;
    std::vector<int>* const order_;
  };
  std::vector<int> order, expected;
  std::vector<std::unique_ptr<Numbered>> waiters;
  for (int i = 0; i < 100; ++i) {
    waiters.push_back(std::make_unique<Numbered>(signal_, i, &order));
    EXPECT_TRUE(Add(*waiters.back()));
    expected.push_back(i);
  }
  table_.Notify(signal_, PTO_SET, 1);
  EXPECT_EQ(order, expected);
}

// Compares with a list of all waiters, each of which is checked.
TEST_F(WaitTableTest, EveryChangeReleasesThoseThatHoldAndNoOthers) {
  constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  std::mt19937_64 random(1);
  alignas(8) int32_t words[4] = {};
  // Two small words, and a wide one that shares its address with the first.
  const SignalWord signals[] = {{&words[0], PTO_I32}, {&words[1], PTO_I32}, {&words[0], PTO_I64}};
  const int64_t extremes[] = {kLeast, kLeast + 1, -1, 0, 1, kMost - 1, kMost, INT32_MIN, INT32_MAX};
  const auto any_value = [&] {
    return random() % 8 == 0 ? extremes[random() % std::size(extremes)]
                             : static_cast<int64_t>(random() % 20) - 10;
  };
  std::vector<std::unique_ptr<TestWaiter>> waiting;
  for (int round = 0; round < 20'000; ++round) {
    const SignalWord& signal = signals[random() % 3];
    if (random() % 4 != 0) {
      const auto compare = static_cast<pto_compare>(PTO_EQ + random() % 6);
      auto waiter = std::make_unique<TestWaiter>(signal, compare, any_value());
      const bool holds = waiter->Holds(signal.Load());
      ASSERT_EQ(Add(*waiter), !holds);
      if (!holds) waiting.push_back(std::move(waiter));
    } else if (random() % 8 == 0 && !waiting.empty()) {
      std::swap(waiting[random() % waiting.size()], waiting.back());
      ASSERT_TRUE(waiting.back()->Claim());
      table_.End(*waiting.back(), WaitEnd::kCancelled);
      ASSERT_EQ(waiting.back()->ends, std::vector<WaitEnd>{WaitEnd::kCancelled});
      waiting.pop_back();
    } else {
      table_.Notify(signal, random() % 2 == 0 ? PTO_SET : PTO_ADD, any_value());
      std::vector<std::unique_ptr<TestWaiter>> left;
      for (auto& waiter : waiting) {
        // Others at the same address are told, those at another one are not.
        const bool told = waiter->signal().address == signal.address;
        const bool ends = told && waiter->Holds(waiter->signal().Load());
        ASSERT_EQ(waiter->ends.size(), ends ? 1u : 0u)
            << CompareText(waiter->compare()) << " " << waiter->value();
        if (!ends) left.push_back(std::move(waiter));
      }
      waiting = std::move(left);
    }
    ASSERT_EQ(table_.size(), waiting.size());
  }
  EXPECT_GT(waiting.size(), 10u);
  for (const auto& waiter : waiting) {
    ASSERT_TRUE(waiter->Claim());
    table_.End(*waiter, WaitEnd::kCancelled);
  }
}

// The cost of a change does not depend on how many waiters remain.
TEST_F(WaitTableTest, OnlyThoseThatGoOnAreLookedAt) {
  constexpr int64_t kWaiters = 20'000;
  // The steps of all changes of a word with this many waiters.
  const auto steps = [&](int64_t count) {
    std::vector<std::unique_ptr<TestWaiter>> waiters;
    word_ = 0;
    for (int64_t i = 1; i <= count; ++i) {
      // Each change releases one of these, and the last change the last one.
      const pto_compare compare = i % 3 == 0 ? PTO_EQ : i % 3 == 1 ? PTO_GE : PTO_GT;
      waiters.push_back(
          std::make_unique<TestWaiter>(signal_, compare, compare == PTO_GT ? i - 1 : i));
      EXPECT_TRUE(Add(*waiters.back()));
    }
    const uint64_t before = table_.steps();
    for (int64_t i = 1; i <= count; ++i) {
      table_.Notify(signal_, PTO_ADD, 1);
      EXPECT_EQ(waiters[i - 1]->ends.size(), 1u);
      EXPECT_EQ(table_.size(), static_cast<size_t>(count - i));
    }
    return table_.steps() - before;
  };
  // A tree of this many nodes has about 15 levels, and each is visited several times.
  EXPECT_LT(steps(kWaiters), kWaiters * 15 * 12);
  // A single waiter is found at once.
  EXPECT_LE(steps(1), 8u);
}

// The first thread to claim a waiter ends it, and it ends once.
TEST_F(WaitTableTest, NotifyAndOthersMayEndTheSameWait) {
  constexpr int kRounds = 500;
  constexpr int kWaiters = 16;
  for (int round = 0; round < kRounds; ++round) {
    word_ = 0;
    std::vector<std::unique_ptr<TestWaiter>> waiters;
    for (int i = 0; i < kWaiters; ++i) {
      waiters.push_back(std::make_unique<TestWaiter>(signal_, PTO_GE, 1 + i % 2));
      ASSERT_TRUE(Add(*waiters.back()));
    }
    std::thread other([&] {
      for (const auto& waiter : waiters) {
        if (waiter->Claim()) table_.End(*waiter, WaitEnd::kTimedOut);
      }
    });
    table_.Notify(signal_, PTO_ADD, 1);
    table_.Notify(signal_, PTO_ADD, 1);
    other.join();
    for (const auto& waiter : waiters) ASSERT_EQ(waiter->ends.size(), 1u);
    ASSERT_EQ(table_.size(), 0u);
  }
}

// Threads wait for each other's next number again and again. A lost wake-up would hang.
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
  // Kept to the end, because the thread that wakes a flag may still touch it.
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
        if (table_.Add(flag, [] {})) flag.Wait();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(words[0], kRounds);
  EXPECT_EQ(table_.size(), 0u);
}

}  // namespace
}  // namespace pto::engine
