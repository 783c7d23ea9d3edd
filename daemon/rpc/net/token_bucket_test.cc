#include "daemon/rpc/net/token_bucket.h"

#include "gtest/gtest.h"

namespace pto::daemon::rpc {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

int TakeAll(TokenBucket& bucket, int64_t now_ns) {
  int taken = 0;
  while (bucket.Take([now_ns] { return now_ns; })) ++taken;
  return taken;
}

TEST(TokenBucketTest, LetsABurstPassAndThenTheRate) {
  TokenBucket bucket(100, 10, kSecond);
  EXPECT_EQ(TakeAll(bucket, kSecond), 100);
  EXPECT_EQ(TakeAll(bucket, kSecond), 0);
  EXPECT_EQ(TakeAll(bucket, 3 * kSecond), 20);
  EXPECT_EQ(TakeAll(bucket, 1000 * kSecond), 100);
}

TEST(TokenBucketTest, DoesNotAskForTheTimeDuringABurst) {
  TokenBucket bucket(100, 10, kSecond);
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(bucket.Take([]() -> int64_t {
      ADD_FAILURE();
      return 0;
    }));
  }
}

TEST(TokenBucketTest, NeitherAClockThatGoesBackNorALongTimeHarms) {
  TokenBucket bucket(100'000, 50'000, 5 * kSecond);
  EXPECT_EQ(TakeAll(bucket, kSecond), 100'000);
  EXPECT_EQ(TakeAll(bucket, kSecond), 0);
  EXPECT_EQ(TakeAll(bucket, int64_t{1} << 62), 100'000);
}

}  // namespace
}  // namespace pto::daemon::rpc
