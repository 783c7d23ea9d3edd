// Journals with bits that have flipped, files that are missing or empty, and journals that the
// release before has written.

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "daemon/journal/crc32c.h"
#include "daemon/journal/frame.h"
#include "daemon/journal/journal.h"
#include "daemon/journal/segment.h"
#include "daemon/journal/testing/memory_storage.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/error.h"
#include "runtime/base/sanitized.h"
#include "runtime/base/status_matchers.h"
#include "runtime/engine/run/run.h"
#include "tests/harness/directory.h"

namespace pto::daemon {
namespace {

using journal::v1::Record;
using journal::v1::RunRecord;
using ::pto::testing::IsOk;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::MemoryStorage;
using ::testing::SizeIs;

class DamageTest : public ::testing::Test {
 protected:
  std::unique_ptr<Journal> Open(const std::shared_ptr<MemoryStorage>& storage) {
    Journal::Options options;
    options.directory = "memory";
    options.storage = storage;
    options.boot_id = "boot";
    options.retention = retention_;
    options.clock = &clock_;
    // Only when the test says so.
    options.sync_interval = absl::Hours(1);
    absl::StatusOr<std::unique_ptr<Journal>> journal = Journal::Open(options);
    EXPECT_THAT(journal, IsOk());
    return *std::move(journal);
  }

  RunRecord Run(const std::string& id, bool ended = true) const {
    RunRecord run;
    run.set_session("s");
    run.set_id(id);
    run.set_create_ns(absl::ToUnixNanos(clock_.WallTime()));
    run.set_digest_high(0x0123456789abcdef);
    run.set_digest_version(2);
    (*run.mutable_labels())["who"] = "a test";
    if (ended) run.set_state(static_cast<uint32_t>(engine::RunState::kSucceeded));
    return run;
  }

  // A journal with this many runs that have ended, and the name of its newest file.
  std::shared_ptr<MemoryStorage> Make(int runs) {
    auto storage = std::make_shared<MemoryStorage>();
    const auto journal = Open(storage);
    EXPECT_THAT(journal->AddSession("s", "uid-7"), IsOk());
    for (int i = 0; i < runs; ++i) {
      const std::string id = absl::StrCat("r", i);
      journal->EndRun(journal->AddRun(Run(id, false)).value(), Run(id));
    }
    return storage;
  }

  static std::vector<std::string> Names(MemoryStorage& storage, absl::string_view part) {
    std::vector<std::string> names = storage.List().value();
    names.erase(
        std::remove_if(names.begin(), names.end(),
                       [&](const std::string& name) { return !absl::StrContains(name, part); }),
        names.end());
    std::sort(names.begin(), names.end());
    return names;
  }

  // The records of a file that are intact, as an independent reader finds them: by where they are
  // in the file when nothing is damaged.
  struct Place {
    uint64_t begin = 0;
    uint64_t end = 0;
    std::string bytes;
  };
  static std::vector<Place> Places(const std::string& bytes) {
    std::vector<Place> places;
    uint64_t at = kFirstFrame;
    while (at < bytes.size()) {
      Frame frame = {};
      std::memcpy(&frame, bytes.data() + at, sizeof frame);
      const uint64_t end = at + sizeof frame + frame.bytes;
      places.push_back({at, end, bytes.substr(at + sizeof frame, frame.bytes)});
      at = end;
    }
    return places;
  }

  ManualClock clock_;
  JournalRetention retention_;
};

TEST_F(DamageTest, ABitThatFlipsAnywhereCostsItsRecordOnlyAndIsReported) {
  constexpr int kPositions = kSanitized ? 200 : 1000;
  constexpr int kRuns = 40;
  const std::shared_ptr<MemoryStorage> whole = Make(kRuns);
  const std::string name = Names(*whole, "journal-").at(0);
  const std::string bytes = whole->Get(name);
  const std::vector<Place> places = Places(bytes);
  std::mt19937 random(17);
  for (int i = 0; i < kPositions; ++i) {
    const uint64_t bit = random() % (bytes.size() * 8);
    std::string flipped = bytes;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    const std::shared_ptr<MemoryStorage> storage = whole->AfterKill();
    storage->Put(name, flipped);

    std::vector<std::string> expected;
    std::string hit;  // the run whose record is damaged
    bool hit_end = false;
    for (const Place& place : places) {
      if (bit / 8 < place.begin || bit / 8 >= place.end) {
        expected.push_back(place.bytes);
        continue;
      }
      Record record;
      ASSERT_TRUE(record.ParseFromString(place.bytes));
      hit = record.run().id();
      hit_end = record.run().state() != 0;
    }
    std::vector<std::string> found;
    ASSERT_THAT(
        ReadSegment(*storage, name, [&](absl::string_view record) { found.emplace_back(record); }),
        IsOk());
    ASSERT_EQ(found, expected) << bit;

    const auto journal = Open(storage);
    const JournalHistory history = journal->TakeHistory();
    // Either of its two records tells that a run was accepted.
    ASSERT_THAT(history.runs, SizeIs(kRuns)) << bit;
    for (const RunRecord& run : history.runs) {
      const bool lost_end = run.id() == hit && hit_end;
      ASSERT_EQ(run.state(), static_cast<uint32_t>(lost_end ? engine::RunState::kFailed
                                                            : engine::RunState::kSucceeded))
          << bit;
    }
    ASSERT_EQ(journal->counts().damage.files, 1u) << bit;
    ASSERT_GT(journal->counts().damage.skipped_bytes, 0u) << bit;
    ASSERT_EQ(storage->Get(name + ".corrupt"), flipped) << bit;
  }
}

TEST_F(DamageTest, AThousandBitsThatFlipAtOnceCostTheirRecordsOnly) {
  constexpr int kRuns = 8000;
  const std::shared_ptr<MemoryStorage> storage = Make(kRuns);
  const std::string name = Names(*storage, "journal-").at(0);
  std::string bytes = storage->Get(name);
  const std::vector<Place> places = Places(bytes);
  std::mt19937 random(4711);
  std::vector<bool> hit(bytes.size());
  for (int i = 0; i < 1000; ++i) {
    const uint64_t bit = kFirstFrame * 8 + random() % ((bytes.size() - kFirstFrame) * 8);
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8));
    hit[bit / 8] = true;
  }
  std::vector<std::string> expected;
  for (const Place& place : places) {
    const auto begin = hit.begin();
    if (std::find(begin + static_cast<ptrdiff_t>(place.begin),
                  begin + static_cast<ptrdiff_t>(place.end),
                  true) == begin + static_cast<ptrdiff_t>(place.end)) {
      expected.push_back(place.bytes);
    }
  }
  ASSERT_LT(expected.size(), places.size() - 900);
  storage->Put(name, bytes);
  std::vector<std::string> found;
  ASSERT_THAT(
      ReadSegment(*storage, name, [&](absl::string_view record) { found.emplace_back(record); }),
      IsOk());
  EXPECT_EQ(found, expected);
  const auto journal = Open(storage);
  EXPECT_GE(journal->TakeHistory().runs.size(), kRuns - 60u);
  EXPECT_EQ(storage->Get(name + ".corrupt"), bytes);
}

// The finding: a bit in the last 64 KiB cost 199 of 200 runs.
TEST_F(DamageTest, WhatIsBehindDamageInTheNewestFileIsKnown) {
  const std::shared_ptr<MemoryStorage> storage = Make(200);
  const std::string name = Names(*storage, "journal-").at(0);
  std::string bytes = storage->Get(name);
  ASSERT_LT(bytes.size(), 64u << 10);
  // The acceptance of the second run.
  bytes[Places(bytes).at(4).begin + 20] ^= 4;
  storage->Put(name, bytes);
  EXPECT_THAT(Open(storage)->TakeHistory().runs, SizeIs(200));
}

TEST_F(DamageTest, AnEmptiedFileIsReported) {
  const std::shared_ptr<MemoryStorage> storage = Make(3);
  storage->Put(Names(*storage, "journal-").at(0), "");
  const auto journal = Open(storage);
  EXPECT_EQ(journal->counts().damage.files, 1u);
  EXPECT_THAT(journal->TakeHistory().runs, IsEmpty());
}

TEST_F(DamageTest, AMissingFileIsReportedOnce) {
  retention_.max_bytes = 512 << 10;  // of which a file has 64 KiB
  const std::shared_ptr<MemoryStorage> whole = Make(2000);
  const std::vector<std::string> names = Names(*whole, "journal-");
  ASSERT_GE(names.size(), 4u);
  // The first is only not needed when the journal says so.
  for (const size_t missing : {0, 1, 2}) {
    const std::shared_ptr<MemoryStorage> storage = whole->AfterKill();
    ASSERT_THAT(storage->Remove(names[missing]), IsOk());
    const auto journal = Open(storage);
    EXPECT_EQ(journal->counts().damage.files, missing == 0 ? 0u : 1u) << missing;
    EXPECT_LT(journal->TakeHistory().runs.size(), 2000u);
    EXPECT_EQ(Open(storage->AfterKill())->counts().damage.files, 0u);
  }
}

TEST_F(DamageTest, FilesThatWereRemovedAreNotMissing) {
  retention_.max_bytes = 512 << 10;
  const std::shared_ptr<MemoryStorage> storage = std::make_shared<MemoryStorage>();
  for (int boot = 0; boot < 3; ++boot) {
    const auto journal = Open(storage);
    EXPECT_EQ(journal->counts().damage.files, 0u);
    for (int i = 0; i < 5000; ++i) {
      const std::string id = absl::StrCat("r", boot, "-", i);
      journal->EndRun(journal->AddRun(Run(id, false)).value(), Run(id));
      if (i % 100 == 0) {
        ASSERT_THAT(journal->Sync(), IsOk());
      }
    }
    EXPECT_LT(Names(*storage, "journal-").size(), 12u);
    EXPECT_EQ(Open(storage->AfterKill())->counts().damage.files, 0u);
  }
  // But the first of those that should be there is.
  ASSERT_THAT(storage->Remove(Names(*storage, "journal-").front()), IsOk());
  EXPECT_EQ(Open(storage)->counts().damage.files, 1u);
}

TEST_F(DamageTest, CopiesAreNeverReplacedAndNotWithoutEnd) {
  const std::shared_ptr<MemoryStorage> storage = Make(10);
  std::vector<std::string> copies;
  for (int i = 0; i < 20; ++i) {
    const std::vector<std::string> all = Names(*storage, "journal-");
    const std::string name = *std::find_if(all.begin(), all.end(), [](const std::string& name) {
      return !absl::StrContains(name, "corrupt");
    });
    std::string bytes = storage->Get(name);
    bytes[100] ^= 1;
    // As if somebody had begun the directory anew.
    ASSERT_THAT(storage->Remove(name), IsOk());
    storage->Put("journal-0000000001", bytes);
    EXPECT_EQ(Open(storage)->counts().damage.files, 1u);
    if (i < 16) {
      copies.push_back(bytes);
      EXPECT_EQ(storage->Get(i == 0 ? "journal-0000000001.corrupt"
                                    : absl::StrCat("journal-0000000001.corrupt.", i + 1)),
                bytes);
    }
  }
  EXPECT_THAT(Names(*storage, ".corrupt"), SizeIs(16));
  EXPECT_EQ(storage->Get("journal-0000000001.corrupt"), copies[0]);
}

TEST_F(DamageTest, ATornEndIsQuietAndTheNewestAreKept) {
  const std::shared_ptr<MemoryStorage> storage = Make(10);
  for (int i = 0; i < 6; ++i) {
    const std::string name = Names(*storage, "journal-").at(0);
    const std::string bytes = storage->Get(name);
    storage->Put(name, bytes.substr(0, bytes.size() - 3));
    const auto journal = Open(storage);
    EXPECT_EQ(journal->counts().damage.files, 0u);
    EXPECT_THAT(journal->TakeHistory().runs, SizeIs(10));
    EXPECT_THAT(Names(*storage, "torn-"), SizeIs(std::min(i + 1, 4)));
    EXPECT_EQ(storage->Get(absl::StrCat("torn-", name.substr(8))).size(), bytes.size() - 3);
  }
  EXPECT_THAT(Names(*storage, ".corrupt"), IsEmpty());
}

TEST_F(DamageTest, AnIdFileThatIsDamagedLosesLittleAndIsKept) {
  retention_.max_runs = 1;
  std::shared_ptr<MemoryStorage> storage = Make(10'000);
  Open(storage);
  const std::vector<std::string> names = Names(*storage, "ids-");
  ASSERT_THAT(names, SizeIs(1));
  std::string bytes = storage->Get(names[0]);
  bytes[60'000] ^= 1;
  storage->Put(names[0], bytes);
  const auto journal = Open(storage);
  EXPECT_EQ(journal->counts().damage.files, 1u);
  size_t ids = 0;
  for (const UsedRunIds& used : journal->TakeHistory().used_ids) ids += used.hashes.size();
  EXPECT_EQ(ids, 9999u - 4096);
  EXPECT_EQ(storage->Get(names[0] + ".corrupt"), bytes);
  // It is repaired.
  EXPECT_EQ(Open(storage->AfterKill())->counts().damage.files, 0u);
}

// ---- the release before

// As that one wrote it: a header and frames without a checksum of their own.
std::string FirstVersion(const std::vector<std::string>& records) {
  std::string bytes("PTOJRNL\n\x01\0\0\0", 12);
  const uint32_t crc = Crc32c(bytes);
  bytes.append(reinterpret_cast<const char*>(&crc), sizeof crc);
  for (const std::string& record : records) {
    const uint32_t frame[2] = {static_cast<uint32_t>(record.size()), Crc32c(record)};
    bytes.append(reinterpret_cast<const char*>(frame), sizeof frame);
    bytes.append(record);
  }
  return bytes;
}

class FirstVersionTest : public DamageTest {
 protected:
  FirstVersionTest() {
    Record record;
    record.mutable_boot()->set_boot_id("old");
    records_.push_back(record.SerializeAsString());
    record.mutable_session()->set_id("s");
    record.mutable_session()->set_boot_id("old");
    records_.push_back(record.SerializeAsString());
    for (int i = 0; i < kRuns; ++i) {
      *record.mutable_run() = Run(absl::StrCat("r", i));
      records_.push_back(record.SerializeAsString());
    }
    *record.mutable_run() = Run("active", false);
    records_.push_back(record.SerializeAsString());
  }

  JournalHistory Start(const std::string& bytes, uint64_t damaged_files) {
    storage_->Put("journal-0000000007", bytes);
    const auto journal = Open(storage_);
    EXPECT_EQ(journal->counts().damage.files, damaged_files);
    return journal->TakeHistory();
  }

  static constexpr int kRuns = 50;
  std::vector<std::string> records_;
  const std::shared_ptr<MemoryStorage> storage_ = std::make_shared<MemoryStorage>();
};

// A file that release 1.0.0 left when it was killed: three runs that had ended, of two sessions,
// and one that had not.
TEST_F(FirstVersionTest, AFileOfRelease100IsRead) {
  const std::string bytes = ::pto::testing::ReadFile("daemon/journal/testing/data/release_1.0.0");
  ASSERT_EQ(bytes.size(), 666u);
  EXPECT_EQ(bytes.substr(0, 16), FirstVersion({}));
  // It was written in 2026.
  clock_.Advance(absl::Hours(24 * 365 * 25));
  const JournalHistory history = Start(bytes, 0);
  ASSERT_THAT(history.sessions, SizeIs(3));
  EXPECT_EQ(history.sessions[0].id(), "s-4xmzihcsh4ietiy7");
  EXPECT_EQ(history.sessions[0].boot_id(), "4936d16f6f18c288693dc8f7885566ea");
  ASSERT_THAT(history.runs, SizeIs(4));
  EXPECT_EQ(history.restarted, 1u);
  for (const RunRecord& run : history.runs) {
    const bool active = run.session() == "s-nwap5nyy74s3qa42";
    EXPECT_EQ(run.state(), static_cast<uint32_t>(active ? engine::RunState::kFailed
                                                        : engine::RunState::kSucceeded));
    EXPECT_EQ(run.tasks_total(), active ? 1u : 4u);
  }
  EXPECT_TRUE(history.torn.empty());
}

TEST_F(FirstVersionTest, IsReadAndWrittenAnew) {
  const JournalHistory history = Start(FirstVersion(records_), 0);
  ASSERT_THAT(history.runs, SizeIs(kRuns + 1));
  EXPECT_EQ(history.runs.back().id(), "active");
  EXPECT_THAT(history.sessions, SizeIs(1));
  EXPECT_THAT(Names(*storage_, "journal-"), ElementsAre("journal-0000000008"));
  EXPECT_THAT(Open(storage_)->TakeHistory().runs, SizeIs(kRuns + 1));
}

TEST_F(FirstVersionTest, AnyByteThatChangesCostsOneRecord) {
  const std::string whole = FirstVersion(records_);
  uint64_t end = 16;
  size_t record = 0;
  for (uint64_t at = 0; at < whole.size(); ++at) {
    while (at >= end) end += 8 + records_[record++].size();
    std::string bytes = whole;
    bytes[at] = static_cast<char>(bytes[at] ^ 0x10);
    std::vector<std::string> found;
    const auto contents =
        ParseSegment("p", bytes, [&](absl::string_view record) { found.emplace_back(record); });
    ASSERT_THAT(contents, IsOk());
    std::vector<std::string> expected = records_;
    if (record > 0) expected.erase(expected.begin() + static_cast<ptrdiff_t>(record) - 1);
    ASSERT_EQ(found, expected) << at;
    // The size of the last one may be wrong, or the file too short: nobody can tell.
    ASSERT_TRUE(contents->damages.size() == 1 || record == records_.size()) << at;
  }
}

TEST_F(FirstVersionTest, ATornEndIsNoDamage) {
  const std::string whole = FirstVersion(records_);
  EXPECT_THAT(Start(whole.substr(0, whole.size() - 5), 0).runs, SizeIs(kRuns));
}

TEST_F(FirstVersionTest, ItsRunsAreForgottenByTheirAge) {
  storage_->Put("journal-0000000007", FirstVersion(records_));
  clock_.Advance(absl::Hours(200));
  // More than a day since: not at once.
  auto journal = Open(storage_);
  EXPECT_THAT(journal->TakeHistory().runs, SizeIs(kRuns + 1));
  clock_.Advance(absl::Hours(2));
  ASSERT_THAT(journal->Sync(), IsOk());
  journal.reset();
  EXPECT_THAT(Open(storage_)->TakeHistory().runs, SizeIs(1));
}

}  // namespace
}  // namespace pto::daemon
