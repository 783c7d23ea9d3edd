#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

// The files of the journal: `journal-0000000001` and so on. Each is a header followed by records. A
// record is its size, a checksum and its bytes.
namespace pto::daemon {

// Appends records to one file. Not thread-safe.
class SegmentWriter {
 public:
  // Creates the file, which must not exist, and reserves `reserve_bytes` if the file system can.
  // Errors: PATH_UNUSABLE.
  static absl::StatusOr<std::unique_ptr<SegmentWriter>> Create(const std::string& directory,
                                                               uint64_t number,
                                                               uint64_t reserve_bytes);
  ~SegmentWriter();
  SegmentWriter(const SegmentWriter&) = delete;
  SegmentWriter& operator=(const SegmentWriter&) = delete;

  uint64_t number() const { return number_; }
  uint64_t bytes() const { return bytes_; }

  // When this returns, the record survives a crash of the process, but not yet of the machine.
  // After an error the file is unchanged.
  absl::Status Append(absl::string_view record);

  // Syncs the file to disk.
  absl::Status Sync() const;
  // A second descriptor of the file, for SyncAndClose without this object. Error: PATH_UNUSABLE.
  absl::StatusOr<int> Duplicate() const;
  // Syncs the file of the descriptor to disk and closes the descriptor.
  static absl::Status SyncAndClose(int file);

 private:
  SegmentWriter(std::string path, uint64_t number, int file)
      : path_(std::move(path)), number_(number), file_(file) {}
  absl::Status Write(absl::string_view bytes);

  const std::string path_;
  const uint64_t number_;
  const int file_;
  uint64_t bytes_ = 0;  // of complete records
  std::string frame_;   // reused, to avoid an allocation for each record
};

// What was found in a file.
struct SegmentContents {
  uint64_t bytes = 0;  // of valid records
  uint64_t rest = 0;   // invalid bytes behind them
};

// Calls `take` with each record up to the first invalid one. Errors: PATH_UNUSABLE, JOURNAL_NEWER.
// A file with a corrupt header has no valid bytes.
absl::StatusOr<SegmentContents> ReadSegment(const std::string& path,
                                            const std::function<void(absl::string_view)>& take);

std::string SegmentPath(const std::string& directory, uint64_t number);
// Syncs the directory entries to disk. Error: PATH_UNUSABLE.
absl::Status SyncDirectory(const std::string& directory);
// The numbers of the files in a directory, ascending. Errors: PATH_UNUSABLE.
absl::StatusOr<std::vector<uint64_t>> ListSegments(const std::string& directory);

}  // namespace pto::daemon
