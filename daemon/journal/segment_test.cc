#include "daemon/journal/segment.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/journal/crc32c.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/status_matchers.h"

namespace pto::daemon {
namespace {

using ::pto::testing::HasReason;
using ::pto::testing::IsOk;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class SegmentTest : public ::testing::Test {
 protected:
  SegmentTest() : directory_(absl::StrCat(::testing::TempDir(), "/segment-", getpid())) {
    std::filesystem::remove_all(directory_);
    std::filesystem::create_directories(directory_);
  }
  ~SegmentTest() override { std::filesystem::remove_all(directory_); }

  std::string Path() const { return SegmentPath(directory_, 1); }

  void WriteTwo() {
    const auto writer = SegmentWriter::Create(directory_, 1, 1 << 16);
    ASSERT_THAT(writer, IsOk());
    ASSERT_THAT((*writer)->Append("first"), IsOk());
    ASSERT_THAT((*writer)->Append("second"), IsOk());
    EXPECT_EQ((*writer)->bytes(), std::filesystem::file_size(Path()));
  }

  std::vector<std::string> Read(SegmentContents* contents = nullptr) {
    std::vector<std::string> records;
    const auto read =
        ReadSegment(Path(), [&](absl::string_view record) { records.emplace_back(record); });
    EXPECT_THAT(read, IsOk());
    if (contents != nullptr && read.ok()) *contents = *read;
    return records;
  }

  void Overwrite(uint64_t at, char byte) {
    std::fstream file(Path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(at));
    file.put(byte);
  }

  const std::string directory_;
};

TEST_F(SegmentTest, TheChecksumIsTheKnownOne) { EXPECT_EQ(Crc32c("123456789"), 0xe3069283u); }

TEST_F(SegmentTest, WhatWasWrittenIsRead) {
  WriteTwo();
  SegmentContents contents;
  EXPECT_THAT(Read(&contents), ElementsAre("first", "second"));
  EXPECT_EQ(contents.bytes, std::filesystem::file_size(Path()));
  EXPECT_EQ(contents.rest, 0u);
}

TEST_F(SegmentTest, AFileIsMadeOnce) {
  WriteTwo();
  EXPECT_THAT(SegmentWriter::Create(directory_, 1, 0), HasReason(reason::kPathUnusable));
}

TEST_F(SegmentTest, ReadsUpToATornRecordOfAnyLength) {
  WriteTwo();
  const uint64_t size = std::filesystem::file_size(Path());
  for (uint64_t cut = 1; cut < 8 + 6; ++cut) {
    std::filesystem::resize_file(Path(), size - cut);
    SegmentContents contents;
    EXPECT_THAT(Read(&contents), ElementsAre("first")) << cut;
    EXPECT_EQ(contents.rest, 8 + 6 - cut);
  }
}

TEST_F(SegmentTest, ReadsUpToARecordThatHasChanged) {
  WriteTwo();
  Overwrite(std::filesystem::file_size(Path()) - 1, 'x');
  SegmentContents contents;
  EXPECT_THAT(Read(&contents), ElementsAre("first"));
  EXPECT_EQ(contents.rest, 8u + 6u);
}

TEST_F(SegmentTest, ReservedRoomIsNoRecord) {
  WriteTwo();
  std::filesystem::resize_file(Path(), std::filesystem::file_size(Path()) + 4096);
  SegmentContents contents;
  EXPECT_THAT(Read(&contents), ElementsAre("first", "second"));
  EXPECT_EQ(contents.rest, 4096u);
}

TEST_F(SegmentTest, AFileWithoutItsHeaderHasNothing) {
  WriteTwo();
  Overwrite(0, 'x');
  SegmentContents contents;
  EXPECT_THAT(Read(&contents), IsEmpty());
  EXPECT_EQ(contents.bytes, 0u);
  std::filesystem::resize_file(Path(), 0);
  EXPECT_THAT(Read(), IsEmpty());
}

TEST_F(SegmentTest, AFileOfALaterReleaseIsRefused) {
  WriteTwo();
  std::string header("PTOJRNL\n\x02\0\0\0", 12);
  const uint32_t crc = Crc32c(header);
  header.append(reinterpret_cast<const char*>(&crc), sizeof crc);
  for (size_t i = 0; i < header.size(); ++i) Overwrite(i, header[i]);
  EXPECT_THAT(ReadSegment(Path(), [](absl::string_view) {}), HasReason(reason::kJournalNewer));
}

TEST_F(SegmentTest, ListsItsFilesOnly) {
  for (const uint64_t number : {12, 3}) {
    ASSERT_THAT(SegmentWriter::Create(directory_, number, 0), IsOk());
  }
  std::ofstream(directory_ + "/ptod.lock") << "1";
  std::ofstream(directory_ + "/journal-0000000004.corrupt") << "1";
  const auto numbers = ListSegments(directory_);
  ASSERT_THAT(numbers, IsOk());
  EXPECT_THAT(*numbers, ElementsAre(3u, 12u));
  EXPECT_THAT(ListSegments(directory_ + "/none"), HasReason(reason::kPathUnusable));
}

}  // namespace
}  // namespace pto::daemon
