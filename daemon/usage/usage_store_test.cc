#include "daemon/usage/usage_store.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/error.h"
#include "runtime/base/status_matchers.h"
#include "tests/harness/directory.h"

namespace pto::daemon {
namespace {

using ::pto::testing::HasReason;
using ::pto::testing::IsOk;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

const absl::Time kStart = absl::FromUnixSeconds(1'790'000'000);

class UsageStoreTest : public ::testing::Test {
 protected:
  std::string path() const { return directory_.path() + "/usage.db"; }
  std::unique_ptr<UsageStore> Open(uint64_t max_rows = 1000) const {
    absl::StatusOr<std::unique_ptr<UsageStore>> store = UsageStore::Open(path(), max_rows);
    EXPECT_THAT(store, IsOk());
    return store.ok() ? *std::move(store) : nullptr;
  }
  static absl::Status Add(UsageStore& store, const std::string& principal,
                          const UsageAmount& amount, absl::Time time = kStart) {
    return store.Add({{{UsageStore::HourOf(time), principal}, amount}});
  }
  // `principal core-seconds byte-seconds runs`
  static std::vector<std::string> Find(UsageStore& store, UsageStore::Query query = {}) {
    query.limit = 100;
    std::vector<std::string> found;
    const std::vector<PrincipalUsage> rows = store.Find(query).value();
    for (const PrincipalUsage& usage : rows) {
      found.push_back(absl::StrCat(usage.principal, " ", usage.core_seconds, " ",
                                   usage.memory_byte_seconds, " ", usage.runs));
    }
    return found;
  }

  const testing::Directory directory_;
};

TEST_F(UsageStoreTest, AddsUpByPrincipal) {
  const auto store = Open();
  ASSERT_THAT(Add(*store, "uid-2", {1'500'000'000, 10, 1}), IsOk());
  ASSERT_THAT(Add(*store, "uid-1", {250'000'000, 0, 7}), IsOk());
  ASSERT_THAT(Add(*store, "uid-2", {500'000'000, 5, 2}), IsOk());
  ASSERT_THAT(Add(*store, "uid-2", {1'000'000'000, 0, 0}, kStart + absl::Hours(30)), IsOk());
  EXPECT_THAT(Find(*store), ElementsAre("uid-1 0.25 0 7", "uid-2 3 15 3"));
  EXPECT_THAT(Find(*store, {.principal = "uid-2"}), ElementsAre("uid-2 3 15 3"));
  EXPECT_THAT(Find(*store, {.principal = "uid"}), IsEmpty());
}

TEST_F(UsageStoreTest, APeriodHasWholeHours) {
  const auto store = Open();
  const absl::Time hour = absl::FromUnixSeconds(UsageStore::HourOf(kStart) * 3600);
  for (int i = 0; i < 5; ++i) {
    ASSERT_THAT(Add(*store, "a", {0, 0, uint64_t{1} << i}, hour + absl::Hours(i)), IsOk());
  }
  EXPECT_THAT(Find(*store, {.begin = hour + absl::Hours(3)}), ElementsAre("a 0 0 24"));
  EXPECT_THAT(Find(*store, {.begin = hour + absl::Minutes(239)}), ElementsAre("a 0 0 24"));
  EXPECT_THAT(Find(*store, {.end = hour + absl::Minutes(119)}), ElementsAre("a 0 0 3"));
  EXPECT_THAT(Find(*store, {.begin = hour + absl::Hours(1), .end = hour + absl::Hours(2)}),
              ElementsAre("a 0 0 6"));
  EXPECT_THAT(Find(*store, {.begin = hour + absl::Hours(9)}), IsEmpty());
  EXPECT_EQ(UsageStore::HourOf(absl::UnixEpoch() - absl::Seconds(1)), -1);
}

TEST_F(UsageStoreTest, PagesFollowOneAnother) {
  const auto store = Open();
  for (const char* name : {"d", "a", "c", "b"}) ASSERT_THAT(Add(*store, name, {0, 0, 1}), IsOk());
  std::vector<PrincipalUsage> page = store->Find({.limit = 3}).value();
  ASSERT_THAT(page, SizeIs(3));
  EXPECT_EQ(page[2].principal, "c");
  page = store->Find({.after = "c", .limit = 3}).value();
  ASSERT_THAT(page, SizeIs(1));
  EXPECT_EQ(page[0].principal, "d");
}

TEST_F(UsageStoreTest, SumsThatAreLargerThanAnInteger) {
  const auto store = Open();
  for (int i = 0; i < 3; ++i) {
    ASSERT_THAT(Add(*store, "a", {uint64_t{9} << 60, 0, 0}, kStart + absl::Hours(i)), IsOk());
  }
  const std::vector<PrincipalUsage> found = store->Find({.limit = 1}).value();
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_NEAR(found[0].core_seconds, 3 * 9.223e9, 1e8);
}

TEST_F(UsageStoreTest, WhatWasAddedSurvivesAKill) {
  const pid_t child = fork();
  if (child == 0) {
    const auto store = Open();
    for (int i = 0; i < 10; ++i) {
      if (!Add(*store, "a", {1'000'000'000, 0, 1}).ok()) _exit(1);
    }
    kill(getpid(), SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_THAT(Find(*Open()), ElementsAre("a 10 0 10"));
}

TEST_F(UsageStoreTest, TheOldestHoursGo) {
  const auto store = Open(/*max_rows=*/10);
  for (int i = 0; i < 40; ++i) {
    for (const char* name : {"a", "b"}) {
      ASSERT_THAT(Add(*store, name, {0, 0, 1}, kStart + absl::Hours(i)), IsOk());
    }
  }
  // Of the newest hour not both were there when it was looked at.
  EXPECT_THAT(Find(*store), ElementsAre("a 0 0 5", "b 0 0 5"));
  EXPECT_THAT(Find(*store, {.end = kStart + absl::Hours(34)}), IsEmpty());
}

TEST_F(UsageStoreTest, RunsThatABootHasLostAreAddedOnce) {
  {
    const auto store = Open();
    EXPECT_EQ(store->LastBoot().value().start, absl::InfiniteFuture());
    ASSERT_THAT(store->BeginBoot(kStart, "one", {}), IsOk());
    ASSERT_THAT(Add(*store, "a", {0, 0, 3}), IsOk());
    ASSERT_THAT(Add(*store, "b", {5, 0, 0}), IsOk());
  }
  const auto store = Open();
  UsageStore::Boot last = store->LastBoot().value();
  EXPECT_EQ(last.start, kStart);
  EXPECT_THAT(last.runs, ElementsAre(std::make_pair("a", 3u)));
  ASSERT_THAT(store->BeginBoot(kStart + absl::Seconds(9), "two", {{"a", 2}, {"c", 1}}), IsOk());
  last = store->LastBoot().value();
  EXPECT_EQ(last.start, kStart + absl::Seconds(9));
  // Those are not of this boot.
  EXPECT_THAT(last.runs, IsEmpty());
  EXPECT_THAT(Find(*store), ElementsAre("a 0 0 5", "b 5e-09 0 0", "c 0 0 1"));
}

TEST_F(UsageStoreTest, ADamagedFileIsKeptAsideAndANewOneBegun) {
  for (int i = 0; i < 6; ++i) {
    testing::WriteFile(path(), absl::StrCat("this is no database ", i, std::string(5000, 'x')));
    const auto store = Open();
    ASSERT_NE(store, nullptr);
    EXPECT_THAT(Find(*store), IsEmpty());
    ASSERT_THAT(Add(*store, "a", {0, 0, 1}), IsOk());
  }
  EXPECT_THAT(testing::ReadFile(path() + ".corrupt"),
              ::testing::StartsWith("this is no database 0"));
  EXPECT_TRUE(std::filesystem::exists(path() + ".corrupt.4"));
  EXPECT_FALSE(std::filesystem::exists(path() + ".corrupt.5"));
}

TEST_F(UsageStoreTest, APageThatIsDamagedIsFound) {
  {
    const auto store = Open(100'000);
    UsageStore::Amounts amounts;
    for (int i = 0; i < 2000; ++i) amounts[{i, "a"}] = {1, 1, 1};
    ASSERT_THAT(store->Add(amounts), IsOk());
  }
  std::string bytes = testing::ReadFile(path());
  ASSERT_GT(bytes.size(), 20'000u);
  for (size_t i = 8192; i < 8192 + 300; ++i) bytes[i] = static_cast<char>(~bytes[i]);
  testing::WriteFile(path(), bytes);
  EXPECT_THAT(Find(*Open()), IsEmpty());
  EXPECT_EQ(testing::ReadFile(path() + ".corrupt").size(), bytes.size());
}

TEST_F(UsageStoreTest, AFullDiskAddsNothingAndIsOverWhenThereIsRoom) {
  const auto store = Open();
  ASSERT_THAT(Add(*store, "a", {0, 0, 1}), IsOk());
  UsageStore::Amounts amounts;
  for (int i = 0; i < 5000; ++i) amounts[{i, "much"}] = {1, 1, 1};
  // A signal would end the process instead of the write.
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before = {};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit full = {64 << 10, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &full), 0);
  const absl::Status refused = store->Add(amounts);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_THAT(refused, HasReason(reason::kPathUnusable));
  EXPECT_THAT(Find(*store), ElementsAre("a 0 0 1"));
  ASSERT_THAT(store->Add(amounts), IsOk());
  EXPECT_THAT(Find(*store, {.principal = "much"}), SizeIs(1));
}

TEST_F(UsageStoreTest, ADirectoryThatIsNotThereIsNamed) {
  const auto store = UsageStore::Open(directory_.path() + "/none/usage.db");
  EXPECT_THAT(store, HasReason(reason::kPathUnusable));
  EXPECT_THAT(std::string(store.status().message()), ::testing::HasSubstr("/none/usage.db"));
}

TEST_F(UsageStoreTest, WithoutAPathItIsInMemory) {
  const auto store = UsageStore::Open("").value();
  ASSERT_THAT(Add(*store, "a", {0, 0, 1}), IsOk());
  EXPECT_THAT(Find(*store), ElementsAre("a 0 0 1"));
}

}  // namespace
}  // namespace pto::daemon
