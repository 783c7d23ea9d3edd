// Disks that fail, processes that are killed and machines that lose their power, at any step: no
// run that was acknowledged and synced is unknown afterwards, and none is executed twice.

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "daemon/journal/journal.h"
#include "daemon/journal/run_ids.h"
#include "daemon/journal/testing/memory_storage.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/error.h"
#include "runtime/base/status_matchers.h"
#include "runtime/engine/run/run.h"

namespace pto::daemon {
namespace {

using journal::v1::RunRecord;
using ::pto::testing::HasReason;
using ::pto::testing::IsOk;
using testing::MemoryStorage;
using ::testing::SizeIs;

// What clients know of one run.
struct Told {
  bool accepted = false;  // acknowledged
  bool ended = false;     // its end was told
  bool accepted_synced = false;
  bool ended_synced = false;
  int executions = 0;
};

// A daemon, as far as the journal is concerned: it executes a run when its id is new.
class SmallDaemon {
 public:
  explicit SmallDaemon(std::shared_ptr<MemoryStorage> storage, JournalRetention retention,
                       std::map<std::string, Told>* told)
      : storage_(std::move(storage)), told_(*told) {
    Journal::Options options;
    options.directory = "memory";
    options.storage = storage_;
    options.boot_id = absl::StrCat("boot-", ++boots);
    options.retention = retention;
    options.clock = &clock_;
    // Only when the test says so.
    options.sync_interval = absl::Hours(1);
    options.retry_interval = absl::Hours(1);
    absl::StatusOr<std::unique_ptr<Journal>> journal = Journal::Open(options);
    // A process that ends while it starts.
    if (!journal.ok()) return;
    journal_ = *std::move(journal);
    history_ = journal_->TakeHistory();
    for (const RunRecord& run : history_.runs) known_[run.id()] = run;
    for (const UsedRunIds& ids : history_.used_ids) {
      used_.insert(ids.hashes.begin(), ids.hashes.end());
    }
  }

  bool started() const { return journal_ != nullptr; }
  Journal& journal() { return *journal_; }
  const JournalHistory& history() const { return history_; }
  bool Knows(const std::string& id) const {
    return known_.contains(id) || used_.contains(HashOfRunId("s", id));
  }
  const RunRecord* Find(const std::string& id) const {
    const auto it = known_.find(id);
    return it == known_.end() ? nullptr : &it->second;
  }

  // A client submits a run, or repeats the request.
  void Submit(const std::string& id) {
    Told& told = told_[id];
    if (Knows(id) || accepted_.contains(id)) return;
    RunRecord run;
    run.set_session("s");
    run.set_id(id);
    run.set_create_ns(absl::ToUnixNanos(clock_.WallTime()));
    const absl::StatusOr<uint64_t> number = journal_->AddRun(run);
    if (!number.ok()) return;
    // The process ends before it can tell.
    if (storage_->stopped()) return;
    told.accepted = true;
    ++told.executions;
    accepted_[id] = {*number, run};
  }
  void End(const std::string& id) {
    const auto it = accepted_.find(id);
    if (it == accepted_.end() || it->second.second.state() != 0) return;
    it->second.second.set_state(static_cast<uint32_t>(engine::RunState::kSucceeded));
    journal_->EndRun(it->second.first, it->second.second);
    // While it cannot be written nobody is told before it is in memory only.
    if (!storage_->stopped() && journal_->writable()) told_[id].ended = true;
  }
  bool Sync() {
    const bool synced = journal_->Sync().ok();
    if (!synced) return false;
    for (const auto& [id, run] : accepted_) {
      told_[id].accepted_synced = true;
      told_[id].ended_synced = told_[id].ended_synced || run.second.state() != 0;
    }
    return true;
  }

  static int boots;

 private:
  const std::shared_ptr<MemoryStorage> storage_;
  std::map<std::string, Told>& told_;
  ManualClock clock_;
  std::unique_ptr<Journal> journal_;
  JournalHistory history_;
  std::map<std::string, RunRecord> known_;
  std::set<uint64_t> used_;
  std::map<std::string, std::pair<uint64_t, RunRecord>> accepted_;
};

int SmallDaemon::boots = 0;

class PowerCutTest : public ::testing::Test {
 protected:
  std::string AnyId() { return absl::StrCat("r", random_() % ids_); }

  void Work(SmallDaemon& daemon, int steps, bool failing) {
    for (int i = 0; i < steps; ++i) {
      switch (random_() % 8) {
        case 0:
          if (failing) storage_->FailSyncs(random_() % 2 == 0 ? 50 : 0);
          daemon.Sync();
          break;
        case 1:
        case 2:
        case 3:
          daemon.End(AnyId());
          break;
        default:
          ids_ += 1;
          daemon.Submit(absl::StrCat("r", ids_ - 1));
          // A client that repeats an old request.
          daemon.Submit(AnyId());
      }
    }
  }

  // `kill`: only the process has ended, so all that was told counts.
  void Check(const SmallDaemon& daemon, bool kill) {
    for (const auto& [id, told] : told_) {
      if (kill ? told.accepted : told.accepted_synced) {
        ASSERT_TRUE(daemon.Knows(id)) << id;
      }
      if (kill ? told.ended : told.ended_synced) {
        if (const RunRecord* const run = daemon.Find(id); run != nullptr) {
          ASSERT_EQ(run->state(), static_cast<uint32_t>(engine::RunState::kSucceeded)) << id;
        }
      }
    }
  }
  // None was executed twice that could be known.
  void CheckExecutions() {
    for (const auto& [id, told] : told_) {
      if (told.executions > 1) {
        ASSERT_TRUE(lost_.contains(id)) << id;
      }
    }
  }
  // What a power cut may make the journal lose: what was told and not synced.
  void Lose() {
    for (auto& [id, told] : told_) {
      if (told.accepted && !told.accepted_synced) lost_.insert(id);
      told.ended = told.ended_synced;
      told.accepted = told.accepted_synced;
    }
  }

  std::mt19937 random_{42};
  JournalRetention retention_;
  uint32_t ids_ = 1;
  std::shared_ptr<MemoryStorage> storage_ = std::make_shared<MemoryStorage>();
  std::map<std::string, Told> told_;
  std::set<std::string> lost_;
};

TEST_F(PowerCutTest, FiftyCutsLoseNothingThatWasSynced) {
  retention_.max_bytes = 512 << 10;
  retention_.max_runs = 300;  // files come and go
  for (int cut = 0; cut < 50; ++cut) {
    {
      SmallDaemon daemon(storage_, retention_, &told_);
      ASSERT_TRUE(daemon.started());
      Check(daemon, false);
      if (HasFatalFailure()) return;
      Work(daemon, 150, /*failing=*/cut % 2 == 0);
      storage_->FailSyncs(0);
      const std::shared_ptr<MemoryStorage> after = storage_->AfterPowerCut(random_());
      // What the daemon still does does not count any more.
      storage_->StopAfter(0);
      storage_ = after;
    }
    Lose();
  }
  CheckExecutions();
  EXPECT_GT(told_.size(), 2000u);
  EXPECT_FALSE(lost_.empty());
}

TEST_F(PowerCutTest, TwoHundredKillsLoseNothing) {
  retention_.max_bytes = 512 << 10;
  retention_.max_runs = 100;
  for (int kill = 0; kill < 200; ++kill) {
    SmallDaemon daemon(storage_, retention_, &told_);
    ASSERT_TRUE(daemon.started());
    Check(daemon, true);
    if (HasFatalFailure()) return;
    storage_->StopAfter(static_cast<int64_t>(random_() % 250));
    Work(daemon, 25, /*failing=*/false);
    storage_->StopAfter(0);
    storage_ = storage_->AfterKill();
  }
  CheckExecutions();
}

// The finding: after errors the journal said that it could be written, without one sync.
TEST_F(PowerCutTest, WhileNothingIsSyncedNothingIsAccepted) {
  SmallDaemon daemon(storage_, retention_, &told_);
  for (int i = 0; i < 70; ++i) daemon.Submit(absl::StrCat("r", i));
  storage_->FailSyncs(100);
  for (int i = 0; i < 15; ++i) {
    EXPECT_FALSE(daemon.Sync());
    EXPECT_FALSE(daemon.journal().writable());
    RunRecord run;
    run.set_id("refused");
    EXPECT_THAT(daemon.journal().AddRun(run), HasReason(reason::kJournalUnwritable));
  }
  // It leaves no files behind.
  EXPECT_LE(storage_->List().value().size(), 2u);
  storage_->FailSyncs(0);
  ASSERT_TRUE(daemon.Sync());
  EXPECT_TRUE(daemon.journal().writable());
  EXPECT_EQ(daemon.journal().counts().failures, 1u);
  for (uint32_t seed = 0; seed < 20; ++seed) {
    const std::shared_ptr<MemoryStorage> after = storage_->AfterPowerCut(seed);
    SmallDaemon next(after, retention_, &told_);
    Check(next, false);
    EXPECT_THAT(next.history().runs, SizeIs(70));
    // What the failed sync has lost is not damage: it was written once more.
    EXPECT_EQ(next.journal().counts().damage.files, 0u);
  }
}

// Records that were synced before the failure and share a block with those that were not.
TEST_F(PowerCutTest, AFailureDoesNotHarmWhatWasSyncedBefore) {
  SmallDaemon daemon(storage_, retention_, &told_);
  daemon.Submit("before");
  ASSERT_TRUE(daemon.Sync());
  daemon.Submit("after");
  daemon.End("before");
  storage_->FailSyncs(100);
  EXPECT_FALSE(daemon.Sync());
  storage_->FailSyncs(0);
  daemon.End("after");  // waits
  ASSERT_TRUE(daemon.Sync());
  SmallDaemon next(storage_->AfterPowerCut(1), retention_, &told_);
  Check(next, false);
  ASSERT_THAT(next.history().runs, SizeIs(2));
  EXPECT_EQ(next.history().restarted, 0u);
}

TEST_F(PowerCutTest, AFullDiskIsOverOnlyAfterASync) {
  SmallDaemon daemon(storage_, retention_, &told_);
  daemon.Submit("before");
  storage_->SetRoom(0);
  daemon.Submit("refused");
  EXPECT_FALSE(daemon.journal().writable());
  storage_->FailSyncs(100);
  storage_->SetRoom(1 << 20);
  EXPECT_FALSE(daemon.Sync());
  EXPECT_FALSE(daemon.journal().writable());
  storage_->FailSyncs(0);
  EXPECT_TRUE(daemon.Sync());
  daemon.Submit("refused");
  ASSERT_TRUE(daemon.Sync());
  SmallDaemon next(storage_->AfterPowerCut(1), retention_, &told_);
  EXPECT_THAT(next.history().runs, SizeIs(2));
}

// What a start, a file that is full, and a recovery do, interrupted between any two steps: as by
// kill -9, and as by a power cut.
TEST_F(PowerCutTest, AStopBetweenAnyTwoStepsLosesNothing) {
  retention_.max_bytes = 512 << 10;
  retention_.max_runs = 10;
  // Something to start with: more runs than are kept.
  {
    SmallDaemon daemon(storage_, retention_, &told_);
    for (int i = 0; i < 40; ++i) {
      daemon.Submit(absl::StrCat("old-", i));
      if (i % 10 != 0) daemon.End(absl::StrCat("old-", i));
    }
    ASSERT_TRUE(daemon.Sync());
  }
  const std::shared_ptr<MemoryStorage> begin = storage_->AfterKill();
  const std::map<std::string, Told> told_at_begin = told_;
  const auto scenario = [&](SmallDaemon& daemon) {
    daemon.Submit("active");
    const std::string text(6000, 'x');
    for (int i = 0; i < 30; ++i) {
      daemon.Submit(absl::StrCat("new-", text, i));
      if (i % 3 != 0) daemon.End(absl::StrCat("new-", text, i));
      if (i % 10 == 0) daemon.Sync();
      if (i == 15) {
        storage_->FailSyncs(100);
        daemon.Sync();
        storage_->FailSyncs(0);
      }
    }
    daemon.Sync();
  };
  int64_t steps = 0;
  bool stopped = true;
  for (int64_t stop = 0; stopped; ++stop) {
    told_ = told_at_begin;
    storage_ = begin->AfterKill();
    storage_->StopAfter(stop);
    {
      SmallDaemon daemon(storage_, retention_, &told_);
      if (daemon.started()) scenario(daemon);
      stopped = storage_->stopped();
    }
    steps = stop;
    {
      std::map<std::string, Told> told = told_;
      SmallDaemon next(storage_->AfterKill(), retention_, &told);
      ASSERT_TRUE(next.started());
      Check(next, true);
      EXPECT_EQ(next.journal().counts().damage.files, 0u) << stop;
    }
    Lose();
    {
      std::map<std::string, Told> told = told_;
      SmallDaemon next(storage_->AfterPowerCut(static_cast<uint32_t>(stop)), retention_, &told);
      ASSERT_TRUE(next.started());
      Check(next, false);
    }
    if (HasFatalFailure()) {
      ADD_FAILURE() << "stopped after " << stop << " steps";
      return;
    }
  }
  EXPECT_GT(steps, 60);
}

}  // namespace
}  // namespace pto::daemon
