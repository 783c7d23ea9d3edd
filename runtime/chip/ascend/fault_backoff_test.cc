#include "runtime/chip/ascend/fault_backoff.h"

#include <gtest/gtest.h>

namespace pto::ascend {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

TEST(FaultBackoffTest, PausesDoubleUpToTheLongest) {
  FaultBackoff backoff(absl::Milliseconds(100), absl::Milliseconds(350));
  EXPECT_EQ(backoff.Note(kSecond), absl::Milliseconds(100));
  EXPECT_EQ(backoff.Note(2 * kSecond), absl::Milliseconds(200));
  EXPECT_EQ(backoff.Note(3 * kSecond), absl::Milliseconds(350));
  EXPECT_EQ(backoff.Note(4 * kSecond), absl::Milliseconds(350));
}

TEST(FaultBackoffTest, AQuietMinuteIsForgiven) {
  FaultBackoff backoff(absl::Milliseconds(100), absl::Seconds(60));
  (void)backoff.Note(kSecond);
  (void)backoff.Note(2 * kSecond);
  EXPECT_EQ(backoff.Note(61 * kSecond), absl::Milliseconds(400));
  EXPECT_EQ(backoff.Note(122 * kSecond), absl::Milliseconds(100));
}

}  // namespace
}  // namespace pto::ascend
