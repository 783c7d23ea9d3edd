#include "daemon/usage/usage_meter.h"

#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/error.h"
#include "runtime/base/mutex.h"
#include "runtime/base/status_matchers.h"
#include "runtime/base/ticks.h"
#include "tests/harness/directory.h"

namespace pto::daemon {
namespace {

using ::pto::testing::HasReason;
using ::pto::testing::IsOk;
using ::testing::ElementsAre;
using ::testing::SizeIs;

class UsageMeterTest : public ::testing::Test {
 protected:
  std::unique_ptr<UsageMeter> Start(absl::Duration interval = absl::Hours(1)) {
    UsageMeter::Options options;
    options.path = path_;
    options.interval = interval;
    options.clock = &clock_;
    options.settle = [this] {
      MutexLock lock(mutex_);
      if (settle_ != nullptr) settle_();
    };
    options.boot_id = boot_id_;
    options.accepted_by = [this](const UsageStore::Boot& boot) {
      asked_since_ = boot.start;
      asked_id_ = boot.id;
      return accepted_;
    };
    return std::make_unique<UsageMeter>(std::move(options));
  }
  // What the meter's thread does before it counts.
  void SetSettle(std::function<void()> settle) {
    MutexLock lock(mutex_);
    settle_ = std::move(settle);
  }
  static absl::StatusOr<std::vector<PrincipalUsage>> Ask(UsageMeter& meter) {
    std::promise<absl::StatusOr<std::vector<PrincipalUsage>>> answer;
    meter.Find({.limit = 100}, [&](auto found) { answer.set_value(std::move(found)); });
    return answer.get_future().get();
  }
  static std::vector<std::string> RunsOf(UsageMeter& meter) {
    std::vector<std::string> found;
    const std::vector<PrincipalUsage> rows = Ask(meter).value();
    for (const PrincipalUsage& usage : rows) {
      found.push_back(absl::StrCat(usage.principal, " ", usage.runs));
    }
    return found;
  }

  const testing::Directory directory_;
  std::string path_ = directory_.path() + "/usage.db";
  ManualClock clock_;
  Mutex mutex_;
  std::function<void()> settle_ ABSL_GUARDED_BY(mutex_);
  UsageMeter::RunCounts accepted_;
  absl::Time asked_since_ = absl::InfinitePast();
  std::string boot_id_ = "first";
  std::string asked_id_;
};

TEST_F(UsageMeterTest, WhatWasCountedSurvivesTheMeter) {
  {
    const auto meter = Start();
    meter->Of("a")->CountRun();
    const std::shared_ptr<UsageCounter> b = meter->Of("b");
    EXPECT_EQ(meter->Of("b"), b);
    b->CountRun();
    b->CountRun();
  }
  const auto meter = Start();
  EXPECT_THAT(RunsOf(*meter), ElementsAre("a 1", "b 2"));
}

TEST_F(UsageMeterTest, AnAnswerHasWhatIsBeingUsed) {
  const auto meter = Start();
  const std::shared_ptr<UsageCounter> counter = meter->Of("a");
  SetSettle([&] { counter->core_time().Add(1'000'000'000); });
  counter->Hold(100);
  clock_.Advance(absl::Seconds(5));
  const std::vector<PrincipalUsage> usage = Ask(*meter).value();
  ASSERT_THAT(usage, SizeIs(1));
  EXPECT_EQ(usage[0].memory_byte_seconds, 500);
  EXPECT_GT(usage[0].core_seconds, 0);
  SetSettle(nullptr);
}

TEST_F(UsageMeterTest, TicksBecomeSeconds) {
  const auto meter = Start();
  const uint64_t begin = Ticks();
  const int64_t begin_ns = Clock::Real().NowNanos();
  while (Clock::Real().NowNanos() - begin_ns < 200'000'000) {
  }
  const std::shared_ptr<UsageCounter> counter = meter->Of("a");
  counter->core_time().Add(Ticks() - begin);
  const double seconds = static_cast<double>(Clock::Real().NowNanos() - begin_ns) / 1e9;
  const std::vector<PrincipalUsage> usage = Ask(*meter).value();
  ASSERT_THAT(usage, SizeIs(1));
  EXPECT_NEAR(usage[0].core_seconds, seconds, seconds / 200);
}

TEST_F(UsageMeterTest, IsWrittenEveryInterval) {
  const auto meter = Start(absl::Milliseconds(10));
  meter->Of("a")->CountRun();
  std::promise<void> settled;
  int calls = 0;
  // The third time, what was counted before the first is in the store.
  SetSettle([&] {
    if (++calls == 3) settled.set_value();
  });
  const std::shared_ptr<UsageCounter> busy = meter->Of("b");
  busy->Hold(1);
  settled.get_future().wait();
  SetSettle(nullptr);
  // The files as a kill would leave them.
  const std::string copy = directory_.path() + "/copy.db";
  std::filesystem::copy_file(path_, copy);
  std::filesystem::copy_file(path_ + "-wal", copy + "-wal");
  path_ = copy;
  EXPECT_THAT(RunsOf(*Start()), ElementsAre("a 1"));
}

TEST_F(UsageMeterTest, RunsThatOnlyTheJournalKnowsAreAdded) {
  {
    const auto meter = Start();
    EXPECT_EQ(asked_since_, absl::InfinitePast());  // there was no boot
    meter->Of("a")->CountRun();
  }
  const absl::Time first = clock_.WallTime();
  clock_.Advance(absl::Minutes(5));
  boot_id_ = "second";
  accepted_ = {{"a", 4}, {"b", 2}};
  {
    const auto meter = Start();
    EXPECT_EQ(asked_since_, first);
    EXPECT_EQ(asked_id_, "first");
    EXPECT_THAT(RunsOf(*meter), ElementsAre("a 4", "b 2"));
  }
  // Not again: they are older than this boot's beginning. A journal that has forgotten some takes
  // nothing away.
  accepted_ = {};
  EXPECT_THAT(RunsOf(*Start()), ElementsAre("a 4", "b 2"));
  EXPECT_EQ(asked_id_, "second");
}

TEST_F(UsageMeterTest, WhatCannotBeRecordedIsInTheAnswersAndToldOf) {
  {
    const auto before = Start();
    before->Of("b")->CountRun();
  }
  const auto meter = Start();
  EXPECT_FALSE(meter->failing());
  // No write of a file succeeds beyond this size. The signal is ignored by the daemon, too.
  signal(SIGXFSZ, SIG_IGN);
  rlimit limit = {};
  getrlimit(RLIMIT_FSIZE, &limit);
  const rlimit none = {1, limit.rlim_max};
  setrlimit(RLIMIT_FSIZE, &none);
  for (const char* principal : {"a", "b", "c"}) meter->Of(principal)->CountRun();
  const std::vector<std::string> runs = RunsOf(*meter);
  const bool failing = meter->failing();
  setrlimit(RLIMIT_FSIZE, &limit);
  EXPECT_THAT(runs, ElementsAre("a 1", "b 2", "c 1"));
  EXPECT_TRUE(failing);
  EXPECT_THAT(RunsOf(*meter), ElementsAre("a 1", "b 2", "c 1"));
  EXPECT_FALSE(meter->failing());
}

TEST_F(UsageMeterTest, WithoutAFileItCountsInMemory) {
  path_ = directory_.path() + "/none/usage.db";
  const auto meter = Start();
  EXPECT_TRUE(meter->failing()) << "it is lost at the end";
  meter->Of("a")->CountRun();
  EXPECT_THAT(RunsOf(*meter), SizeIs(1));
}

TEST_F(UsageMeterTest, AfterTheStopNobodyIsAnswered) {
  const auto meter = Start();
  meter->Stop();
  EXPECT_THAT(Ask(*meter), HasReason(reason::kNodeDraining));
  EXPECT_THAT(meter->Of("a"), ::testing::NotNull());
}

}  // namespace
}  // namespace pto::daemon
