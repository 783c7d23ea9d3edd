#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "daemon/journal/storage.h"

// The files of the journal: `journal-0000000001` and so on. Each is a header followed by frames; a
// frame is a record with its size and checksums. README.md has the layout.
namespace pto::daemon {

// Files of these kinds have their own numbers.
inline constexpr absl::string_view kJournalFiles = "journal-";
inline constexpr absl::string_view kIdFiles = "ids-";
// Files of these kinds that are not complete yet.
inline constexpr absl::string_view kNewJournalFile = "new-journal";
inline constexpr absl::string_view kNewIdFile = "new-ids";

std::string SegmentName(absl::string_view kind, uint64_t number);
// The numbers of the files of one kind, ascending.
std::vector<uint64_t> SegmentNumbers(const std::vector<std::string>& names, absl::string_view kind);

// Appends records to one file, and keeps those in memory that may not be on the disk. Not
// thread-safe.
class SegmentWriter {
 public:
  // The file gets its name when the header and the first record are in it, so a file of that name
  // is never empty, however the process ends. Reserves `reserve_bytes` if the file system can.
  // After an error there is no file. Errors: PATH_UNUSABLE.
  static absl::StatusOr<std::shared_ptr<SegmentWriter>> Create(Storage& storage,
                                                               const std::string& name,
                                                               absl::string_view first,
                                                               uint64_t reserve_bytes);
  // The same with a name that has no meaning. After an error the file may be there.
  static absl::StatusOr<std::shared_ptr<SegmentWriter>> CreateUnnamed(Storage& storage,
                                                                      absl::string_view unnamed,
                                                                      absl::string_view first,
                                                                      uint64_t reserve_bytes);
  SegmentWriter(const SegmentWriter&) = delete;
  SegmentWriter& operator=(const SegmentWriter&) = delete;

  // Of complete records, and how many of these are known to be on the disk.
  uint64_t bytes() const { return bytes_; }
  uint64_t synced() const { return synced_; }

  // When this returns, the record survives a crash of the process, but not yet of the machine.
  // After an error the file ends as before. Error: PATH_UNUSABLE.
  absl::Status Append(absl::string_view record);

  // To sync it while others append: everything up to bytes() of now.
  const std::shared_ptr<WritableFile>& file() const { return file_; }
  // The first `bytes` bytes are on the disk.
  void MarkSynced(uint64_t bytes);
  // Calls `take` with the records that may not be on the disk, in order. This includes those that
  // share a block with them: nobody knows what a failed write of the block has left. They are what
  // the file has from unsynced_begin() on.
  uint64_t unsynced_begin() const { return synced_ == bytes_ ? bytes_ : bytes_ - tail_.size(); }
  absl::Status ForEachUnsynced(const std::function<absl::Status(absl::string_view)>& take) const;

 private:
  SegmentWriter(std::shared_ptr<WritableFile> file, uint64_t salt)
      : file_(std::move(file)), salt_(salt) {}

  const std::shared_ptr<WritableFile> file_;
  const uint64_t salt_;
  uint64_t bytes_ = 0;
  uint64_t synced_ = 0;
  std::string tail_;  // the last bytes of the file, from the begin of a frame
};

// What was found in a file.
struct SegmentContents {
  struct Damage {
    uint64_t offset = 0;
    uint64_t bytes = 0;
    bool operator==(const Damage&) const = default;
  };
  uint64_t size = 0;
  uint64_t records = 0;         // that are intact
  uint64_t records_behind = 0;  // of those, behind the first damage
  std::vector<Damage> damages;  // in order
  absl::optional<Damage> torn;  // an incomplete write at the end of the file
};

// Calls `take` with each intact record, in order. After damage it goes on at the next intact one.
// Time is linear in the size. Error: JOURNAL_NEWER.
absl::StatusOr<SegmentContents> ParseSegment(absl::string_view path, absl::string_view bytes,
                                             const std::function<void(absl::string_view)>& take);

// The same of a file. Errors: PATH_UNUSABLE, JOURNAL_NEWER.
absl::StatusOr<SegmentContents> ReadSegment(Storage& storage, const std::string& name,
                                            const std::function<void(absl::string_view)>& take);

}  // namespace pto::daemon
