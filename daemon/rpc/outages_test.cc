#include "daemon/rpc/outages.h"

#include "gtest/gtest.h"

namespace pto::daemon::rpc {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

TEST(OutagesTest, CountsAnOutageAndTheTimeToGetThrough) {
  Outages outages;
  EXPECT_EQ(outages.Since(0, 100 * kSecond), 0);
  outages.Began(10 * kSecond);
  EXPECT_EQ(outages.Since(0, 15 * kSecond), 6 * kSecond);
  outages.Began(12 * kSecond);  // it is the same one
  outages.Ended(20 * kSecond);
  outages.Ended(30 * kSecond);
  EXPECT_EQ(outages.Since(0, 100 * kSecond), 11 * kSecond);
}

TEST(OutagesTest, CountsOnlyWhatWasSince) {
  Outages outages;
  outages.Began(10 * kSecond);
  outages.Ended(20 * kSecond);
  EXPECT_EQ(outages.Since(15 * kSecond, 100 * kSecond), 6 * kSecond);
  EXPECT_EQ(outages.Since(50 * kSecond, 100 * kSecond), 0);
}

TEST(OutagesTest, ALateTimerIsAnOutageButABusyMachineIsNot) {
  Outages outages;
  outages.NoteTimer(10 * kSecond, 10 * kSecond + kSecond / 2);
  EXPECT_EQ(outages.Since(0, 100 * kSecond), 0);
  outages.NoteTimer(10 * kSecond, 40 * kSecond);
  EXPECT_EQ(outages.Since(0, 100 * kSecond), 31 * kSecond);
}

TEST(OutagesTest, NoTimeCountsTwice) {
  Outages outages;
  for (int i = 0; i < 3; ++i) outages.NoteTimer((10 + i) * kSecond, 40 * kSecond);
  EXPECT_EQ(outages.Since(0, 100 * kSecond), 31 * kSecond);
}

TEST(OutagesTest, ForgetsTheOldest) {
  Outages outages;
  for (int64_t i = 1; i <= 1000; ++i) outages.NoteTimer(10 * i * kSecond, (10 * i + 2) * kSecond);
  EXPECT_EQ(outages.Since(0, 100'000 * kSecond), 64 * 3 * kSecond);
}

}  // namespace
}  // namespace pto::daemon::rpc
