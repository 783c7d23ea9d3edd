#include "runtime/base/failpoint.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"

namespace pto {
namespace {

class FailpointTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!kHasFailpoints) GTEST_SKIP() << "this build has no failpoints";
  }
  void TearDown() override { EXPECT_TRUE(failpoint::Set("").ok()); }

  static int Drops(int times) {
    int drops = 0;
    for (int i = 0; i < times; ++i) drops += PTO_FAILPOINT("a") == FailAction::kDrop ? 1 : 0;
    return drops;
  }
};

TEST_F(FailpointTest, DoesNothingUnlessItIsSet) {
  EXPECT_EQ(PTO_FAILPOINT("a"), FailAction::kNone);
  ASSERT_TRUE(failpoint::Set("b=drop").ok());
  EXPECT_EQ(PTO_FAILPOINT("a"), FailAction::kNone);
  EXPECT_EQ(PTO_FAILPOINT("b"), FailAction::kDrop);
  ASSERT_TRUE(failpoint::Set("a=error").ok());
  EXPECT_EQ(PTO_FAILPOINT("a"), FailAction::kError);
  EXPECT_EQ(PTO_FAILPOINT("b"), FailAction::kNone);
}

TEST_F(FailpointTest, CountsAndChance) {
  ASSERT_TRUE(failpoint::Set("a=drop*2").ok());
  EXPECT_EQ(Drops(10), 2);
  EXPECT_EQ(failpoint::Hits("a"), 2);
  ASSERT_TRUE(failpoint::Set("a=drop@3*1").ok());
  EXPECT_EQ(Drops(3), 0);
  EXPECT_EQ(Drops(1), 1);
  EXPECT_EQ(Drops(10), 0);
  ASSERT_TRUE(failpoint::Set("a=drop%50").ok());
  const int half = Drops(1000);
  EXPECT_GT(half, 300);
  EXPECT_LT(half, 700);
}

TEST_F(FailpointTest, DelaysAndHolds) {
  ASSERT_TRUE(failpoint::Set("a=delay:20ms*1").ok());
  const auto before = std::chrono::steady_clock::now();
  EXPECT_EQ(PTO_FAILPOINT("a"), FailAction::kNone);
  EXPECT_GE(std::chrono::steady_clock::now() - before, std::chrono::milliseconds(20));

  const std::string path = absl::StrCat(::testing::TempDir(), "/release");
  std::remove(path.c_str());
  ASSERT_TRUE(failpoint::Set(absl::StrCat("a=hold:", path)).ok());
  std::atomic<bool> through{false};
  std::thread held([&] {
    EXPECT_EQ(PTO_FAILPOINT("a"), FailAction::kNone);
    through.store(true);
  });
  while (failpoint::Hits("a") == 0) std::this_thread::yield();
  EXPECT_FALSE(through.load());
  std::ofstream(path) << "go";
  held.join();
  EXPECT_TRUE(through.load());
  std::remove(path.c_str());
}

TEST_F(FailpointTest, CrashEndsTheProcess) {
  ASSERT_TRUE(failpoint::Set("a=crash").ok());
  EXPECT_EXIT(PTO_FAILPOINT("a"), ::testing::KilledBySignal(SIGKILL), "");
}

TEST_F(FailpointTest, NonsenseIsRefusedAndChangesNothing) {
  ASSERT_TRUE(failpoint::Set("a=drop").ok());
  for (const char* text : {"a", "=drop", "a=", "a=explode", "a=drop*x", "a=drop@-1", "a=delay",
                           "a=delay:soon", "b=error,a"}) {
    EXPECT_EQ(failpoint::Set(text).code(), absl::StatusCode::kInvalidArgument) << text;
  }
  EXPECT_EQ(PTO_FAILPOINT("a"), FailAction::kDrop);
  EXPECT_EQ(PTO_FAILPOINT("b"), FailAction::kNone);
}

}  // namespace
}  // namespace pto
