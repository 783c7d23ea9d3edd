#include "daemon/journal/segment.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/journal/frame.h"
#include "daemon/journal/testing/memory_storage.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/error.h"
#include "runtime/base/status_matchers.h"

namespace pto::daemon {
namespace {

using ::pto::testing::HasReason;
using ::pto::testing::IsOk;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using Damage = SegmentContents::Damage;

constexpr uint64_t kFrame = sizeof(Frame);

class SegmentTest : public ::testing::Test {
 protected:
  // Files with `zero` and these records.
  std::shared_ptr<SegmentWriter> Write(const std::vector<std::string>& records = {"first",
                                                                                  "second"}) {
    absl::StatusOr<std::shared_ptr<SegmentWriter>> writer =
        SegmentWriter::Create(storage_, "file", "zero", 1 << 16);
    EXPECT_THAT(writer, IsOk());
    for (const std::string& record : records) EXPECT_THAT((*writer)->Append(record), IsOk());
    bytes_ = storage_.Get("file");
    EXPECT_EQ((*writer)->bytes(), bytes_.size());
    return *writer;
  }

  std::vector<std::string> Read(SegmentContents* contents = nullptr) {
    std::vector<std::string> records;
    const auto read =
        ParseSegment("p", bytes_, [&](absl::string_view record) { records.emplace_back(record); });
    EXPECT_THAT(read, IsOk());
    if (read.ok()) {
      EXPECT_EQ(read->records, records.size());
      EXPECT_EQ(read->size, bytes_.size());
      if (contents != nullptr) *contents = *read;
    }
    return records;
  }

  testing::MemoryStorage storage_;
  std::string bytes_;
};

TEST_F(SegmentTest, TheChecksumIsTheKnownOne) {
  EXPECT_EQ(Crc32c("123456789"), 0xe3069283u);
  const std::string text = "a text that is longer than eight bytes";
  for (size_t cut = 0; cut < text.size(); ++cut) {
    EXPECT_EQ(Crc32c(text.substr(cut), Crc32c(text.substr(0, cut))), Crc32c(text));
  }
}

TEST_F(SegmentTest, WhatWasWrittenIsRead) {
  Write();
  SegmentContents contents;
  EXPECT_THAT(Read(&contents), ElementsAre("zero", "first", "second"));
  EXPECT_THAT(contents.damages, IsEmpty());
  EXPECT_FALSE(contents.torn.has_value());
}

// A crash between any two steps leaves no file of that name, or one with its first record.
TEST_F(SegmentTest, AFileHasItsNameWhenItHasItsFirstRecord) {
  for (int64_t steps = 0;; ++steps) {
    testing::MemoryStorage storage;
    storage.StopAfter(steps);
    const bool made = SegmentWriter::Create(storage, "file", "zero", 0).ok();
    bytes_ = storage.Get("file");
    if (!bytes_.empty()) {
      EXPECT_THAT(Read(), ElementsAre("zero"));
    }
    EXPECT_EQ(bytes_.empty(), !made);
    if (made) break;
  }
}

TEST_F(SegmentTest, ATornRecordOfAnyLengthIsNoDamage) {
  Write();
  const std::string whole = bytes_;
  for (uint64_t cut = 1; cut < kFrame + 6; ++cut) {
    bytes_ = whole.substr(0, whole.size() - cut);
    SegmentContents contents;
    EXPECT_THAT(Read(&contents), ElementsAre("zero", "first")) << cut;
    EXPECT_THAT(contents.damages, IsEmpty());
    EXPECT_EQ(contents.torn, (Damage{whole.size() - kFrame - 6, kFrame + 6 - cut}));
  }
}

TEST_F(SegmentTest, BlocksThatWereNotWrittenAreNoDamage) {
  Write({"first", std::string(6000, 'x')});
  bytes_.replace(4096, bytes_.size(), bytes_.size() - 4096, '\0');
  SegmentContents contents;
  EXPECT_THAT(Read(&contents), ElementsAre("zero", "first"));
  EXPECT_THAT(contents.damages, IsEmpty());
  EXPECT_TRUE(contents.torn.has_value());
}

TEST_F(SegmentTest, ReservedRoomIsNoRecord) {
  Write();
  bytes_.resize(bytes_.size() + 4096);
  SegmentContents contents;
  EXPECT_THAT(Read(&contents), ElementsAre("zero", "first", "second"));
  EXPECT_EQ(contents.torn, (Damage{bytes_.size() - 4096, 4096}));
}

// Whichever bit flips, each record except the one that has it is read, and the damage is seen, also
// in the last record.
TEST_F(SegmentTest, AnyBitThatFlipsCostsOneRecord) {
  Write({"first", "second", std::string(100, 'x'), "last"});
  const std::string whole = bytes_;
  const std::vector<std::string> all = Read();
  std::vector<uint64_t> ends = {kFirstFrame};
  for (const std::string& record : all) ends.push_back(ends.back() + kFrame + record.size());
  for (uint64_t bit = 0; bit < whole.size() * 8; ++bit) {
    bytes_ = whole;
    bytes_[bit / 8] = static_cast<char>(bytes_[bit / 8] ^ (1 << bit % 8));
    std::vector<std::string> expected;
    for (size_t i = 0; i < all.size(); ++i) {
      if (bit / 8 < ends[i] || bit / 8 >= ends[i + 1]) expected.push_back(all[i]);
    }
    SegmentContents contents;
    ASSERT_EQ(Read(&contents), expected) << bit;
    ASSERT_THAT(contents.damages, SizeIs(1)) << bit;
    ASSERT_LE(contents.damages[0].offset, bit / 8);
    ASSERT_GT(contents.damages[0].offset + contents.damages[0].bytes, bit / 8);
    ASSERT_FALSE(contents.torn.has_value()) << bit;
  }
}

TEST_F(SegmentTest, DamageAndATornEndAreToldApart) {
  Write({"first", "second", "third"});
  bytes_.resize(bytes_.size() - 2);
  bytes_[kFirstFrame + kFrame + 4 + kFrame] ^= 1;
  SegmentContents contents;
  EXPECT_THAT(Read(&contents), ElementsAre("zero", "second"));
  EXPECT_THAT(contents.damages, ElementsAre(Damage{kFirstFrame + kFrame + 4, kFrame + 5}));
  EXPECT_EQ(contents.records_behind, 1u);
  EXPECT_EQ(contents.torn, (Damage{bytes_.size() - kFrame - 3, kFrame + 3}));
}

// A client can put any bytes into a label.
TEST_F(SegmentTest, AFrameWithinARecordIsNotTakenForOne) {
  Write({"inner"});
  const std::string frame = bytes_.substr(kFirstFrame + kFrame + 4);
  Write({absl::StrCat("label ", frame, " ", std::string(20, 'x')), "last"});
  // Its size, its checksum, its first byte.
  for (uint64_t at = kFirstFrame + kFrame + 4; at <= kFirstFrame + 2 * kFrame + 4; at += 4) {
    const std::string whole = bytes_;
    bytes_[at] = static_cast<char>(bytes_[at] ^ 1);
    EXPECT_THAT(Read(), ElementsAre("zero", "last"));
    bytes_ = whole;
  }
  // The same when its end is not there.
  bytes_.resize(bytes_.size() - kFrame - 4 - 10);
  EXPECT_THAT(Read(), ElementsAre("zero"));
}

TEST_F(SegmentTest, AFileWithoutItsHeaderHasItsRecords) {
  Write();
  const std::string whole = bytes_;
  bytes_.replace(0, sizeof(SegmentHeader), sizeof(SegmentHeader), '?');
  EXPECT_THAT(Read(), ElementsAre("zero", "first", "second"));
  // Without both copies of the salt nobody can tell.
  bytes_ = whole;
  bytes_[sizeof(SegmentHeader)] ^= 1;
  bytes_[sizeof(SegmentHeader) + sizeof(SegmentSalt)] ^= 1;
  SegmentContents contents;
  EXPECT_THAT(Read(&contents), IsEmpty());
  EXPECT_THAT(contents.damages, SizeIs(3));
}

TEST_F(SegmentTest, AnEmptyFileIsDamaged) {
  for (const size_t size : {0, 10}) {
    bytes_.assign(size, '\0');
    SegmentContents contents;
    EXPECT_THAT(Read(&contents), IsEmpty());
    EXPECT_THAT(contents.damages, ElementsAre(Damage{0, size}));
  }
}

TEST_F(SegmentTest, AFileOfAnyLengthIsRead) {
  Write();
  const std::string whole = bytes_;
  for (size_t size = 0; size < whole.size(); ++size) {
    bytes_ = whole.substr(0, size);
    SegmentContents contents;
    const size_t records = Read(&contents).size();
    // A cut between two records cannot be seen.
    const size_t seen = contents.damages.size() + (contents.torn.has_value() ? 1 : 0);
    if (size < kFirstFrame) {
      EXPECT_GE(contents.damages.size(), 1u) << size;
    } else {
      EXPECT_THAT(contents.damages, IsEmpty()) << size;
      EXPECT_EQ(seen, size == kFirstFrame + records * kFrame + (records > 0 ? 4 : 0) +
                                  (records > 1 ? 5 : 0)
                          ? 0u
                          : 1u)
          << size;
    }
  }
}

TEST_F(SegmentTest, AFileOfALaterReleaseIsRefused) {
  Write();
  SegmentHeader header = {};
  std::memcpy(&header, bytes_.data(), sizeof header);
  header.version = kSegmentVersion + 1;
  header.crc = HeaderCrc(header);
  std::memcpy(bytes_.data(), &header, sizeof header);
  EXPECT_THAT(ParseSegment("p", bytes_, [](absl::string_view) {}),
              HasReason(reason::kJournalNewer));
}

TEST_F(SegmentTest, KnowsItsFiles) {
  const std::vector<std::string> names = {SegmentName(kJournalFiles, 12),
                                          "journal-0000000003",
                                          "journal-0000000004.corrupt",
                                          "lock",
                                          "ids-0000000005",
                                          "journal-3"};
  EXPECT_THAT(SegmentNumbers(names, kJournalFiles), ElementsAre(3u, 12u));
  EXPECT_THAT(SegmentNumbers(names, kIdFiles), ElementsAre(5u));
}

// ---- what may not be on the disk

TEST_F(SegmentTest, KeepsRecordsUntilTheyAreSynced) {
  const auto writer = Write();
  const auto unsynced = [&] {
    std::vector<std::string> records;
    EXPECT_THAT(writer->ForEachUnsynced([&](absl::string_view record) {
      records.emplace_back(record);
      return absl::OkStatus();
    }),
                IsOk());
    return records;
  };
  EXPECT_THAT(unsynced(), ElementsAre("zero", "first", "second"));
  writer->MarkSynced(writer->bytes());
  EXPECT_THAT(unsynced(), IsEmpty());
  EXPECT_EQ(writer->unsynced_begin(), writer->bytes());
  // With all that share its block.
  ASSERT_THAT(writer->Append("third"), IsOk());
  EXPECT_THAT(unsynced(), ElementsAre("zero", "first", "second", "third"));
  ASSERT_THAT(writer->Append(std::string(4096, 'x')), IsOk());
  writer->MarkSynced(writer->bytes());
  ASSERT_THAT(writer->Append("next"), IsOk());
  EXPECT_THAT(unsynced(), ElementsAre(std::string(4096, 'x'), "next"));
  EXPECT_EQ(writer->unsynced_begin(), writer->bytes() - 2 * kFrame - 4096 - 4);
}

TEST_F(SegmentTest, AWriteThatFailsLeavesNothing) {
  const auto writer = Write();
  storage_.SetRoom(15);
  EXPECT_THAT(writer->Append("third"), HasReason(reason::kPathUnusable));
  storage_.SetRoom(1000);
  EXPECT_THAT(writer->Append("fourth"), IsOk());
  bytes_ = storage_.Get("file");
  EXPECT_THAT(Read(), ElementsAre("zero", "first", "second", "fourth"));
}

}  // namespace
}  // namespace pto::daemon
