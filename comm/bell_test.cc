#include "comm/bell.h"

#include <atomic>
#include <thread>

#include "absl/status/status.h"
#include "comm/waiting.h"
#include "gtest/gtest.h"

namespace pto::comm {
namespace {

constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kLong = 20 * kSecond;

// How long this takes.
template <typename Function>
int64_t NanosOf(Function function) {
  const int64_t start = NowNanos();
  function();
  return NowNanos() - start;
}

TEST(BellTest, ARingSinceListeningEndsTheSleep) {
  Bell bell{};
  BellSleeper sleeper(bell);
  sleeper.Listen();
  sleeper.Sleep(kLong);  // the first sleep is always short
  sleeper.Listen();
  bell.Ring();
  EXPECT_LT(NanosOf([&] { sleeper.Sleep(kLong); }), kLong / 2);
}

TEST(BellTest, SleepersAreWoken) {
  Bell bell{};
  std::atomic<uint32_t> word{0};
  std::thread other([&] {
    while (bell.sleepers.load() == 0) std::this_thread::yield();
    word.store(1, std::memory_order_release);
    bell.Ring();
  });
  const int64_t start = NowNanos();
  {
    BellSleeper sleeper(bell);
    for (sleeper.Listen(); word.load(std::memory_order_acquire) == 0; sleeper.Listen()) {
      sleeper.Sleep(kLong);
    }
  }
  EXPECT_LT(NowNanos() - start, kLong / 2);
  other.join();
  EXPECT_EQ(bell.sleepers.load(), 0u);
}

// A change made before the sleeper was visible causes no ring.
TEST(BellTest, TheFirstSleepIsShort) {
  Bell bell{};
  BellSleeper sleeper(bell);
  sleeper.Listen();
  EXPECT_LT(NanosOf([&] { sleeper.Sleep(kLong); }), kSecond);
}

// A sleep that ended early, or was requested to be shorter, does not prove that such a change is
// visible.
TEST(BellTest, SleepsStayShortUntilOneIsSleptThrough) {
  Bell bell{};
  BellSleeper sleeper(bell);
  sleeper.Listen();
  bell.Ring();
  sleeper.Sleep(kLong);
  sleeper.Listen();
  sleeper.Sleep(1);
  sleeper.Listen();
  EXPECT_LT(NanosOf([&] { sleeper.Sleep(kLong); }), kSecond);
  constexpr int64_t kFull = kSecond / 20;
  int64_t longest = 0;
  // A signal may interrupt one of them, but not all.
  for (int i = 0; i < 20 && longest < kFull; ++i) {
    longest = NanosOf([&] { sleeper.Sleep(kFull); });
  }
  EXPECT_GE(longest, kFull);
}

// The waiting thread has just begun to sleep, or has slept for a while.
TEST(BellTest, AMissedRingDoesNotCostTheDeadline) {
  for (const int64_t asleep : {int64_t{0}, 2 * kLookAfterNanos}) {
    Bell bell{};
    std::atomic<uint32_t> word{0};
    std::thread other([&] {
      while (bell.sleepers.load() == 0) std::this_thread::yield();
      const int64_t start = NowNanos();
      while (NowNanos() < start + asleep) std::this_thread::yield();
      word.store(1, std::memory_order_release);  // without a ring
    });
    const int64_t took = NanosOf([&] {
      EXPECT_TRUE(Await([&] { return word.load(std::memory_order_acquire) != 0; }, bell,
                        Patience{.spins = 0, .yield_nanos = 0}, NowNanos() + kLong,
                        [] { return absl::OkStatus(); })
                      .ok());
    });
    EXPECT_LT(took, kSecond);
    other.join();
  }
}

TEST(BellTest, WithoutSleepersARingIsNothing) {
  Bell bell{};
  bell.Ring();
  EXPECT_EQ(bell.rings.load(), 0u);
}

}  // namespace
}  // namespace pto::comm
