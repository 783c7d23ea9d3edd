#include "daemon/node/accepted_runs.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace pto::daemon {
namespace {

using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

const absl::Time kStart = absl::FromUnixSeconds(1'790'000'000);

void AddRun(const std::string& owner, const std::string& boot_id, absl::Time time,
            JournalHistory* history) {
  journal::v1::RunRecord& run = history->runs.emplace_back();
  run.set_owner(owner);
  run.set_boot_id(boot_id);
  run.set_create_ns(absl::ToUnixNanos(time));
}

TEST(AcceptedRunsTest, WhatCountsIsTheBootAndNotTheClock) {
  JournalHistory history;
  AddRun("a", "before", kStart + absl::Hours(1), &history);
  AddRun("a", "last", kStart + absl::Hours(1), &history);
  AddRun("b", "last", kStart - absl::Hours(1), &history);
  AddRun("", "last", kStart, &history);
  for (const bool doubtful : {false, true}) {
    history.clock_doubtful = doubtful;
    EXPECT_THAT(CountAcceptedRuns(history, {.start = kStart, .id = "last"}),
                UnorderedElementsAre(Pair("a", 1), Pair("b", 1)));
  }
}

TEST(AcceptedRunsTest, RunsOfEarlierReleasesCountByTheirTime) {
  JournalHistory history;
  AddRun("a", "", kStart - absl::Seconds(1), &history);
  AddRun("a", "", kStart + absl::Seconds(1), &history);
  EXPECT_THAT(CountAcceptedRuns(history, {.start = kStart}), UnorderedElementsAre(Pair("a", 1)));
  EXPECT_THAT(CountAcceptedRuns(history, {.start = kStart, .id = "last"}), IsEmpty());
  history.clock_doubtful = true;
  EXPECT_THAT(CountAcceptedRuns(history, {.start = kStart}), IsEmpty());
}

}  // namespace
}  // namespace pto::daemon
