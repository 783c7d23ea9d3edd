#include "comm/bell.h"

#include <atomic>
#include <thread>

#include "comm/waiting.h"
#include "gtest/gtest.h"

namespace pto::comm {
namespace {

constexpr int64_t kLong = 60'000'000'000;

TEST(BellTest, ARingSinceListeningEndsTheSleep) {
  Bell bell{};
  BellSleeper sleeper(bell);
  sleeper.Listen();
  sleeper.Sleep(1);  // the first one is short anyway
  const int64_t start = NowNanos();
  sleeper.Listen();
  bell.Ring();
  sleeper.Sleep(kLong);
  EXPECT_LT(NowNanos() - start, kLong / 2);
}

TEST(BellTest, WhoeverSleepsIsWoken) {
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

// Nobody rings for the change that came before the sleeper was seen.
TEST(BellTest, TheFirstSleepIsShort) {
  Bell bell{};
  BellSleeper sleeper(bell);
  sleeper.Listen();
  const int64_t start = NowNanos();
  sleeper.Sleep(kLong);
  EXPECT_LT(NowNanos() - start, kLong / 2);
}

TEST(BellTest, WithoutSleepersARingIsNothing) {
  Bell bell{};
  bell.Ring();
  EXPECT_EQ(bell.rings.load(), 0u);
}

}  // namespace
}  // namespace pto::comm
