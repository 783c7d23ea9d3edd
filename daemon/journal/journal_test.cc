#include "daemon/journal/journal.h"

#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/journal/crc32c.h"
#include "daemon/journal/run_codec.h"
#include "daemon/journal/run_ids.h"
#include "daemon/journal/testing/wrong_clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/status/status_proto.h"
#include "runtime/base/error.h"
#include "runtime/base/status_matchers.h"
#include "runtime/engine/run/run.h"

namespace pto::daemon {
namespace {

using journal::v1::RunRecord;
using ::pto::testing::HasReason;
using ::pto::testing::IsOk;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class JournalTest : public ::testing::Test {
 protected:
  JournalTest() : directory_(absl::StrCat(::testing::TempDir(), "/journal-", getpid())) {
    std::filesystem::remove_all(directory_);
    std::filesystem::create_directories(directory_);
  }
  ~JournalTest() override { std::filesystem::remove_all(directory_); }

  std::unique_ptr<Journal> Open(const std::string& boot_id) {
    Journal::Options options;
    options.directory = directory_;
    options.boot_id = boot_id;
    options.retention = retention_;
    options.sync_interval = absl::Milliseconds(1);
    options.retry_interval = absl::Milliseconds(1);
    options.clock = &clock_;
    absl::StatusOr<std::unique_ptr<Journal>> journal = Journal::Open(options);
    EXPECT_THAT(journal, IsOk());
    return journal.ok() ? *std::move(journal) : nullptr;
  }

  RunRecord Run(const std::string& id, engine::RunState state = engine::RunState::kQueued) const {
    RunRecord run;
    run.set_session("s");
    run.set_id(id);
    run.set_create_ns(absl::ToUnixNanos(clock_.WallTime()));
    if (state != engine::RunState::kQueued) run.set_state(static_cast<uint32_t>(state));
    return run;
  }

  void AddEnded(Journal& journal, const std::string& id) {
    const absl::StatusOr<uint64_t> number = journal.AddRun(Run(id));
    ASSERT_THAT(number, IsOk());
    journal.EndRun(*number, Run(id, engine::RunState::kSucceeded));
  }

  // What the next start finds.
  JournalHistory Restart(const std::string& boot_id = "next") {
    return Open(boot_id)->TakeHistory();
  }

  uint64_t BytesOnDisk() const {
    uint64_t bytes = 0;
    for (const auto& entry : std::filesystem::directory_iterator(directory_)) {
      bytes += entry.file_size();
    }
    return bytes;
  }

  std::vector<std::string> Files() const {
    std::vector<std::string> files;
    for (const auto& entry : std::filesystem::directory_iterator(directory_)) {
      files.push_back(entry.path());
    }
    return files;
  }

  const std::string directory_;
  ManualClock clock_;
  JournalRetention retention_;
};

TEST_F(JournalTest, ARunThatEndedIsAsItEnded) {
  {
    const auto journal = Open("one");
    ASSERT_THAT(journal->AddSession("s", "uid-7"), IsOk());
    AddEnded(*journal, "r");
  }
  const JournalHistory history = Restart();
  ASSERT_THAT(history.runs, SizeIs(1));
  EXPECT_EQ(history.runs[0].id(), "r");
  EXPECT_EQ(history.runs[0].state(), static_cast<uint32_t>(engine::RunState::kSucceeded));
  EXPECT_EQ(history.runs[0].boot_id(), "one");
  EXPECT_THAT(history.runs[0].errors(), IsEmpty());
  ASSERT_THAT(history.sessions, SizeIs(1));
  EXPECT_EQ(history.sessions[0].boot_id(), "one");
  EXPECT_EQ(history.sessions[0].owner(), "uid-7");
}

TEST_F(JournalTest, ARunKnowsTheOwnerOfASessionWhoseRecordIsGone) {
  {
    const auto journal = Open("one");
    RunRecord run = Run("r");
    run.set_owner("uid-7");
    ASSERT_THAT(journal->AddRun(run), IsOk());
  }
  const JournalHistory history = Restart();
  ASSERT_THAT(history.sessions, SizeIs(1));
  EXPECT_EQ(history.sessions[0].owner(), "uid-7");
}

TEST_F(JournalTest, ARunThatDidNotEndFailedByTheRestartAndStaysSo) {
  {
    const auto journal = Open("one");
    ASSERT_THAT(journal->AddRun(Run("r")), IsOk());
  }
  clock_.Advance(absl::Seconds(5));
  const JournalHistory first = Restart("two");
  clock_.Advance(absl::Seconds(5));
  const JournalHistory second = Restart("three");
  ASSERT_THAT(first.runs, SizeIs(1));
  const RunRecord& run = first.runs[0];
  EXPECT_EQ(run.state(), static_cast<uint32_t>(engine::RunState::kFailed));
  EXPECT_EQ(run.total_ns(), 5'000'000'000);
  EXPECT_EQ(run.boot_id(), "one");
  ASSERT_THAT(run.errors(), SizeIs(1));
  const absl::Status error = StatusFromProto(run.errors(0));
  EXPECT_THAT(error, HasReason(reason::kDaemonRestarted));
  EXPECT_THAT(GetErrorDetail(error)->metadata,
              ::testing::Contains(std::pair<std::string, std::string>("boot_id", "one")));
  ASSERT_THAT(second.runs, SizeIs(1));
  EXPECT_EQ(second.runs[0].SerializeAsString(), run.SerializeAsString());
}

// Releases that made digests of the first version did not say so.
TEST_F(JournalTest, ADigestWithoutAVersionIsOfTheFirstAndStaysSo) {
  {
    const auto journal = Open("one");
    RunRecord ended = Run("ended", engine::RunState::kSucceeded);
    ended.set_digest_high(1);
    ended.set_digest_low(2);
    const absl::StatusOr<uint64_t> number = journal->AddRun(ended);
    ASSERT_THAT(number, IsOk());
    journal->EndRun(*number, ended);
    RunRecord active = Run("active");
    active.set_digest_high(3);
    ASSERT_THAT(journal->AddRun(active), IsOk());
  }
  for (const char* boot_id : {"two", "three"}) {
    const JournalHistory history = Restart(boot_id);
    ASSERT_THAT(history.runs, SizeIs(2));
    EXPECT_EQ(DigestOfJournal(history.runs[0]), (Digest{1, 2, Digest::kFirstVersion}));
    EXPECT_EQ(DigestOfJournal(history.runs[1]), (Digest{3, 0, Digest::kFirstVersion}));
  }
}

TEST_F(JournalTest, ADigestKeepsItsVersion) {
  {
    const auto journal = Open("one");
    pto::daemon::RunRecord run;
    run.session = std::make_shared<const std::string>("sessions/s");
    run.id = "ended";
    run.create_time = clock_.WallTime();
    const Digest digest = {1, 2, Digest::kVersion};
    const absl::StatusOr<uint64_t> number = journal->AddRun(ToJournal(run, 1, 0, digest));
    ASSERT_THAT(number, IsOk());
    journal->EndRun(*number, ToJournal(run, 1, 0, digest, engine::RunState::kSucceeded));
    run.id = "active";
    ASSERT_THAT(journal->AddRun(ToJournal(run, 2, 0, digest)), IsOk());
  }
  const JournalHistory history = Restart();
  ASSERT_THAT(history.runs, SizeIs(2));
  for (const RunRecord& run : history.runs) {
    EXPECT_EQ(DigestOfJournal(run), (Digest{1, 2, Digest::kVersion}));
  }
}

// One that no client has named, and one whose content was not looked at: no request is the same.
TEST_F(JournalTest, SomeRunsHaveNoDigest) {
  EXPECT_EQ(DigestOfJournal(Run("open")), Digest());
  RunRecord own = Run("run-1");
  own.set_own_number(1);
  own.set_digest_low(2);
  EXPECT_EQ(DigestOfJournal(own), Digest());
}

TEST_F(JournalTest, KeepsTheNewestRuns) {
  retention_.max_runs = 3;
  {
    const auto journal = Open("one");
    for (int i = 0; i < 10; ++i) AddEnded(*journal, absl::StrCat("r", i));
  }
  const JournalHistory history = Restart();
  ASSERT_THAT(history.runs, SizeIs(3));
  EXPECT_EQ(history.runs[0].id(), "r7");
  EXPECT_EQ(history.runs[2].id(), "r9");
}

TEST_F(JournalTest, ARunThatDidNotEndIsNewerThanAllThatDid) {
  retention_.max_runs = 3;
  {
    const auto journal = Open("one");
    ASSERT_THAT(journal->AddRun(Run("long")), IsOk());
    for (int i = 0; i < 10; ++i) AddEnded(*journal, absl::StrCat("r", i));
  }
  // What the first start has written tells the second the same.
  for (const char* boot_id : {"two", "three"}) {
    const JournalHistory history = Restart(boot_id);
    ASSERT_THAT(history.runs, SizeIs(3));
    EXPECT_EQ(history.runs[0].id(), "r8");
    EXPECT_EQ(history.runs[1].id(), "r9");
    EXPECT_EQ(history.runs[2].id(), "long");
    ASSERT_THAT(history.runs[2].errors(), SizeIs(1));
    EXPECT_THAT(StatusFromProto(history.runs[2].errors(0)), HasReason(reason::kDaemonRestarted));
  }
}

TEST_F(JournalTest, RunsThatDidNotEndAreKnownEvenWhenTheyAreTooMany) {
  retention_.max_runs = 3;
  {
    const auto journal = Open("one");
    for (int i = 0; i < 5; ++i) {
      ASSERT_THAT(journal->AddRun(Run(absl::StrCat("long", i))), IsOk());
    }
    AddEnded(*journal, "ended");
  }
  const JournalHistory history = Restart();
  ASSERT_THAT(history.runs, SizeIs(5));
  EXPECT_EQ(history.runs[0].id(), "long0");
  EXPECT_EQ(history.runs[4].id(), "long4");
}

TEST_F(JournalTest, ForgetsOldRuns) {
  retention_.max_age = absl::Hours(1);
  {
    const auto journal = Open("one");
    AddEnded(*journal, "old");
    clock_.Advance(absl::Minutes(50));
    AddEnded(*journal, "young");
  }
  clock_.Advance(absl::Minutes(20));
  const JournalHistory history = Restart();
  ASSERT_THAT(history.runs, SizeIs(1));
  EXPECT_EQ(history.runs[0].id(), "young");
}

TEST_F(JournalTest, StaysSmallAndForgetsNoRunThatIsActive) {
  retention_.max_bytes = 512 << 10;
  {
    const auto journal = Open("one");
    ASSERT_THAT(journal->AddSession("s", "uid-7"), IsOk());
    ASSERT_THAT(journal->AddRun(Run("long")), IsOk());
    const std::string text(100, 'x');
    for (int i = 0; i < 20'000; ++i) AddEnded(*journal, absl::StrCat(text, i));
    // Files go when what is behind them is on the disk.
    ASSERT_THAT(journal->Sync(), IsOk());
    // With the ids of those that are gone.
    EXPECT_LT(BytesOnDisk(), retention_.max_bytes + retention_.max_bytes / 8 + (128 << 10));
  }
  const JournalHistory history = Restart();
  ASSERT_GE(history.runs.size(), 2u);
  EXPECT_EQ(history.runs[history.runs.size() - 2].id(),
            absl::StrCat(std::string(100, 'x'), 19'999));
  EXPECT_EQ(history.runs.back().id(), "long");
  ASSERT_THAT(history.sessions, SizeIs(1));
  EXPECT_EQ(history.sessions[0].boot_id(), "one");
}

TEST_F(JournalTest, AStartLeavesOneFile) {
  for (int i = 0; i < 5; ++i) AddEnded(*Open(absl::StrCat("boot", i)), absl::StrCat("r", i));
  EXPECT_THAT(Restart().runs, SizeIs(5));
  EXPECT_THAT(Files(), SizeIs(1));
}

TEST_F(JournalTest, ATornEndCostsOnlyWhatIsTorn) {
  {
    const auto journal = Open("one");
    AddEnded(*journal, "whole");
    ASSERT_THAT(journal->AddRun(Run("torn")), IsOk());
  }
  const std::string file = Files().at(0);
  // Behind it is the time at which the journal was closed.
  constexpr uint64_t kTimeBytes = 24;
  std::filesystem::resize_file(file, std::filesystem::file_size(file) - kTimeBytes - 1);
  const JournalHistory history = Restart();
  ASSERT_THAT(history.runs, SizeIs(1));
  EXPECT_EQ(history.runs[0].id(), "whole");
  EXPECT_EQ(history.damage.files, 0u);
  // One file, and what the torn one was.
  EXPECT_THAT(Files(), SizeIs(2));
}

TEST_F(JournalTest, ADamagedFileIsKeptAside) {
  {
    const auto journal = Open("one");
    for (int i = 0; i < 2000; ++i) AddEnded(*journal, absl::StrCat("r", i));
  }
  const std::string file = Files().at(0);
  {
    std::fstream damage(file, std::ios::in | std::ios::out | std::ios::binary);
    damage.seekp(300);
    damage << "damage";
  }
  const auto journal = Open("two");
  EXPECT_THAT(journal->TakeHistory().runs, SizeIs(2000));
  EXPECT_EQ(journal->counts().damage.files, 1u);
  EXPECT_TRUE(std::filesystem::exists(file + ".corrupt"));
}

TEST_F(JournalTest, AJournalOfALaterReleaseIsLeftAsItIs) {
  AddEnded(*Open("one"), "r");
  const std::string file = Files().at(0);
  // A later one with all else right: its number, and the checksum of the header with it.
  const auto put = [&](std::streamoff at, const std::string& bytes) {
    std::fstream change(file, std::ios::in | std::ios::out | std::ios::binary);
    change.seekp(at);
    change.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  };
  std::string header("PTOJRNL\n\x03\0\0\0", 12);
  const uint32_t crc = Crc32c(header);
  put(0, header + std::string(reinterpret_cast<const char*>(&crc), sizeof crc));
  Journal::Options options;
  options.directory = directory_;
  EXPECT_THAT(Journal::Open(options), HasReason(reason::kJournalNewer));
  EXPECT_THAT(Files(), ::testing::ElementsAre(file));
}

// A limit on the size of files, which a full disk is like.
class FullDisk {
 public:
  explicit FullDisk(uint64_t bytes) {
    std::signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before_);
    rlimit limit = before_;
    limit.rlim_cur = bytes;
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FullDisk() { setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_ = {};
};

TEST_F(JournalTest, AFullDiskRefusesRunsAndLosesNoEnd) {
  {
    const auto journal = Open("one");
    std::vector<bool> told;
    Mutex mutex;
    CondVar changed;
    journal->OnWritable([&](bool writable) {
      MutexLock lock(mutex);
      told.push_back(writable);
      changed.NotifyAll();
    });
    const absl::StatusOr<uint64_t> number = journal->AddRun(Run("before"));
    ASSERT_THAT(number, IsOk());
    {
      const FullDisk full(10);
      EXPECT_THAT(journal->AddRun(Run("refused")), HasReason(reason::kJournalUnwritable));
      EXPECT_THAT(journal->AddSession("refused", "uid-7"), HasReason(reason::kJournalUnwritable));
      journal->EndRun(*number, Run("before", engine::RunState::kSucceeded));
      EXPECT_FALSE(journal->writable());
    }
    MutexLock lock(mutex);
    while (told.size() < 2) changed.Wait(mutex);
    EXPECT_THAT(told, ::testing::ElementsAre(false, true));
    EXPECT_THAT(journal->AddRun(Run("after")), IsOk());
  }
  const JournalHistory history = Restart();
  ASSERT_THAT(history.runs, SizeIs(2));
  EXPECT_EQ(history.runs[0].id(), "before");
  EXPECT_EQ(history.runs[0].state(), static_cast<uint32_t>(engine::RunState::kSucceeded));
  EXPECT_EQ(history.runs[1].id(), "after");
}

TEST_F(JournalTest, ABrokenFileStaysUntilWhatIsGoodInItIsWrittenAnew) {
  {
    const auto journal = Open("one");
    AddEnded(*journal, "first");
    ASSERT_THAT(journal->AddRun(Run("second")), IsOk());
    for (int i = 0; i < 2000; ++i) AddEnded(*journal, absl::StrCat("r", i));
  }
  const std::string file = Files().at(0);
  {
    std::fstream damage(file, std::ios::in | std::ios::out | std::ios::binary);
    damage.seekp(400);
    damage << "damage";
  }
  size_t runs = 0;
  {
    const FullDisk full(10);
    const auto journal = Open("two");
    EXPECT_FALSE(journal->writable());
    runs = journal->TakeHistory().runs.size();
    EXPECT_GE(runs, 2u);
    EXPECT_TRUE(std::filesystem::exists(file));
    EXPECT_FALSE(std::filesystem::exists(file + ".corrupt"));
  }
  const JournalHistory history = Restart("three");
  ASSERT_THAT(history.runs, SizeIs(runs));
  EXPECT_EQ(history.runs[0].id(), "first");
  EXPECT_FALSE(std::filesystem::exists(file));
  EXPECT_TRUE(std::filesystem::exists(file + ".corrupt"));
  EXPECT_THAT(Restart("four").runs, SizeIs(runs));
}

TEST_F(JournalTest, ARunWhoseEndCannotBeWrittenIsNotForgottenWithItsFile) {
  retention_.max_bytes = 512 << 10;  // of which a file has 64 KiB
  retention_.max_age = absl::Hours(1);
  {
    const FullDisk full(32 << 10);
    const auto journal = Open("one");
    RunRecord run = Run("r");
    run.set_graph(std::string(10 << 10, 'x'));
    const absl::StatusOr<uint64_t> number = journal->AddRun(run);
    ASSERT_THAT(number, IsOk());
    // The end begins a file, as it has no place in the first, which is old enough to go. There is
    // room for what is carried on, but not for the end.
    clock_.Advance(absl::Hours(2));
    run.set_state(static_cast<uint32_t>(engine::RunState::kSucceeded));
    run.set_graph(std::string(60 << 10, 'x'));
    journal->EndRun(*number, run);
    EXPECT_FALSE(journal->writable());
  }
  const JournalHistory history = Restart();
  ASSERT_THAT(history.runs, SizeIs(1));
  EXPECT_EQ(history.runs[0].id(), "r");
  ASSERT_THAT(history.runs[0].errors(), SizeIs(1));
  EXPECT_THAT(StatusFromProto(history.runs[0].errors(0)), HasReason(reason::kDaemonRestarted));
}

// ---- ids of runs that are forgotten

class UsedIdsTest : public JournalTest {
 protected:
  // Which of these ids the next start knows as used, and nothing else of.
  std::set<std::string> Used(const std::vector<std::string>& ids) {
    const JournalHistory history = Restart();
    std::set<uint64_t> hashes;
    for (const UsedRunIds& used : history.used_ids) {
      hashes.insert(used.hashes.begin(), used.hashes.end());
    }
    std::set<std::string> found;
    for (const std::string& id : ids) {
      if (hashes.contains(HashOfRunId("s", id))) found.insert(id);
    }
    return found;
  }
};

TEST_F(UsedIdsTest, AreKeptOfRunsThatAreTooMany) {
  retention_.max_runs = 2;
  {
    const auto journal = Open("one");
    for (int i = 0; i < 5; ++i) AddEnded(*journal, absl::StrCat("r", i));
  }
  const std::vector<std::string> ids = {"r0", "r1", "r2", "r3", "r4", "never"};
  // The answer stays the same over further starts.
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(Used(ids), ::testing::ElementsAre("r0", "r1", "r2"));
  }
}

TEST_F(UsedIdsTest, AreKeptOfFilesThatGo) {
  retention_.max_bytes = 512 << 10;
  std::vector<std::string> ids;
  {
    const auto journal = Open("one");
    const std::string text(100, 'x');
    for (int i = 0; i < 6000; ++i) {
      ids.push_back(absl::StrCat(text, i));
      AddEnded(*journal, ids.back());
      if (i % 100 == 0) {
        ASSERT_THAT(journal->Sync(), IsOk());
      }
    }
  }
  std::set<std::string> known;
  {
    const auto journal = Open("two");
    for (const RunRecord& run : journal->TakeHistory().runs) known.insert(run.id());
  }
  ASSERT_LT(known.size(), 3000u);
  const std::set<std::string> used = Used(ids);
  for (const std::string& id : ids) ASSERT_TRUE(known.contains(id) || used.contains(id)) << id;
}

TEST_F(UsedIdsTest, GoAfterTheirTime) {
  retention_.max_runs = 1;
  retention_.max_age = absl::Hours(10);
  {
    const auto journal = Open("one");
    AddEnded(*journal, "r0");
    clock_.Advance(absl::Hours(9));
    AddEnded(*journal, "r1");
    AddEnded(*journal, "r2");
  }
  EXPECT_THAT(Used({"r0", "r1", "r2"}), ::testing::ElementsAre("r0", "r1"));
  clock_.Advance(absl::Hours(9));
  EXPECT_THAT(Used({"r0", "r1", "r2"}), ::testing::ElementsAre("r0", "r1"));
  clock_.Advance(absl::Hours(3));
  EXPECT_THAT(Used({"r0", "r1", "r2"}), IsEmpty());
}

// An id that the session chose is in no request.
TEST_F(UsedIdsTest, AreThoseOfClientsOnly) {
  retention_.max_runs = 1;
  {
    const auto journal = Open("one");
    for (int i = 0; i < 3; ++i) {
      RunRecord run = Run(absl::StrCat("r-", i), engine::RunState::kSucceeded);
      run.set_own_number(static_cast<uint64_t>(i) + 1);
      journal->EndRun(journal->AddRun(run).value(), run);
    }
  }
  EXPECT_THAT(Used({"r-0", "r-1"}), IsEmpty());
  for (const std::string& file : Files()) EXPECT_THAT(file, ::testing::HasSubstr("/journal-"));
}

// ---- clocks

class ClockTest : public JournalTest {
 protected:
  std::unique_ptr<Journal> OpenAt(absl::Duration ahead) {
    wrong_.Set(ahead);
    Journal::Options options;
    options.directory = directory_;
    options.boot_id = "boot";
    options.sync_interval = absl::Hours(1);
    options.clock = &wrong_;
    absl::StatusOr<std::unique_ptr<Journal>> journal = Journal::Open(options);
    EXPECT_THAT(journal, IsOk());
    return *std::move(journal);
  }
  size_t RunsAt(absl::Duration ahead) { return OpenAt(ahead)->TakeHistory().runs.size(); }

  void AddRunAt(absl::Duration ahead, const std::string& id) {
    const auto journal = OpenAt(ahead);
    RunRecord run = Run(id);
    run.set_create_ns(absl::ToUnixNanos(wrong_.WallTime()));
    const uint64_t number = journal->AddRun(run).value();
    run.set_state(static_cast<uint32_t>(engine::RunState::kSucceeded));
    journal->EndRun(number, run);
  }

  testing::WrongClock wrong_;
};

// The finding: one start eight days ahead erased the journal.
TEST_F(ClockTest, StartsWithAClockThatIsFarAheadForgetNothing) {
  AddRunAt(absl::ZeroDuration(), "r");
  for (int i = 0; i < 3; ++i) EXPECT_EQ(RunsAt(absl::Hours(8 * 24)), 1u);
  EXPECT_EQ(RunsAt(absl::ZeroDuration()), 1u);
}

TEST_F(ClockTest, StartsWithAClockThatIsFarBackForgetNothing) {
  AddRunAt(absl::ZeroDuration(), "r");
  EXPECT_EQ(RunsAt(absl::Hours(-8 * 24)), 1u);
  AddRunAt(absl::Hours(-8 * 24), "meanwhile");
  EXPECT_EQ(RunsAt(absl::Hours(-8 * 24)), 2u);
}

TEST_F(ClockTest, RunsAreForgottenWhenTheClockHasGoneOnForAnHour) {
  AddRunAt(absl::ZeroDuration(), "r");
  {
    const auto journal = OpenAt(absl::Hours(8 * 24));
    EXPECT_THAT(journal->TakeHistory().runs, SizeIs(1));
    wrong_.Advance(absl::Minutes(61));
  }
  EXPECT_EQ(RunsAt(absl::Hours(8 * 24)), 0u);
}

TEST_F(ClockTest, AnIdleDaemonIsNotDoubtedForItsIdleness) {
  AddRunAt(absl::ZeroDuration(), "r");
  {
    OpenAt(absl::ZeroDuration());
  }
  {
    const auto journal = OpenAt(absl::ZeroDuration());
    wrong_.Advance(absl::Hours(200));
  }
  EXPECT_EQ(RunsAt(absl::ZeroDuration()), 0u);
}

// ----

TEST_F(JournalTest, AnEndThatWaitedIsWrittenWhenItStops) {
  {
    const auto journal = Open("one");
    const absl::StatusOr<uint64_t> number = journal->AddRun(Run("r"));
    ASSERT_THAT(number, IsOk());
    const FullDisk full(10);
    journal->EndRun(*number, Run("r", engine::RunState::kSucceeded));
    EXPECT_FALSE(journal->writable());
  }
  const JournalHistory history = Restart();
  ASSERT_THAT(history.runs, SizeIs(1));
  EXPECT_EQ(history.runs[0].state(), static_cast<uint32_t>(engine::RunState::kSucceeded));
}

}  // namespace
}  // namespace pto::daemon
