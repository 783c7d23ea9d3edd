#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

// The journal's files: `journal-0000000001` and so on, each a header and records behind each
// other. A record is its size, a checksum and its bytes.
namespace pto {

// The end of one file, to which records are added. For one thread at a time.
class SegmentWriter {
 public:
  // Makes the file, which must not exist, and takes room for `reserve_bytes` where the file system
  // can do that. Errors: PATH_UNUSABLE.
  static absl::StatusOr<std::unique_ptr<SegmentWriter>> Create(const std::string& directory,
                                                               uint64_t number,
                                                               uint64_t reserve_bytes);
  ~SegmentWriter();
  SegmentWriter(const SegmentWriter&) = delete;
  SegmentWriter& operator=(const SegmentWriter&) = delete;

  uint64_t number() const { return number_; }
  uint64_t bytes() const { return bytes_; }

  // When this returns, the operating system has the record: it survives the end of the process
  // however that comes, though not yet that of the machine. After an error the file is as before.
  absl::Status Append(absl::string_view record);

  // What the file has survives a power failure.
  absl::Status Sync() const;
  // A second descriptor of the file, for SyncAndClose without this object. Error: PATH_UNUSABLE.
  absl::StatusOr<int> Duplicate() const;
  // What the descriptor's file has survives a power failure. Closes the descriptor.
  static absl::Status SyncAndClose(int file);

 private:
  SegmentWriter(std::string path, uint64_t number, int file)
      : path_(std::move(path)), number_(number), file_(file) {}
  absl::Status Write(absl::string_view bytes);

  const std::string path_;
  const uint64_t number_;
  const int file_;
  uint64_t bytes_ = 0;  // all good
  std::string frame_;   // kept, so that a record costs no memory
};

// What was found in a file.
struct SegmentContents {
  uint64_t bytes = 0;  // that were good
  uint64_t rest = 0;   // behind them that are no record
};

// Calls `take` with each record up to the first that is none. Errors: PATH_UNUSABLE,
// JOURNAL_NEWER. A file whose header is broken has no good bytes.
absl::StatusOr<SegmentContents> ReadSegment(const std::string& path,
                                            const std::function<void(absl::string_view)>& take);

std::string SegmentPath(const std::string& directory, uint64_t number);
// Which files a directory has survives a power failure. Error: PATH_UNUSABLE.
absl::Status SyncDirectory(const std::string& directory);
// The numbers of the files in a directory, rising. Errors: PATH_UNUSABLE.
absl::StatusOr<std::vector<uint64_t>> ListSegments(const std::string& directory);

}  // namespace pto
