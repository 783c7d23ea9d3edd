#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace pto::daemon {

// A file that is being written. One thread writes at a time; Sync may be called meanwhile.
class WritableFile {
 public:
  virtual ~WritableFile() = default;
  // Writes all bytes. After an error some of them may have been written. Error: PATH_UNUSABLE.
  virtual absl::Status WriteAt(uint64_t offset, absl::string_view bytes) = 0;
  // Error: PATH_UNUSABLE.
  virtual absl::Status Truncate(uint64_t bytes) = 0;
  // What was written is on the disk when this returns OK. After an error nobody knows what of it
  // is: the system reports an error once, and a second call that succeeds says nothing about the
  // bytes of the first. Error: PATH_UNUSABLE.
  virtual absl::Status Sync() = 0;
};

// The files of the journal's directory, so that tests can simulate disks that fail and machines
// that lose their power. Thread-safe.
class Storage {
 public:
  virtual ~Storage() = default;

  // An empty file. Replaces one of that name. Reserves space if the file system can. Error:
  // PATH_UNUSABLE, also when there is no space to reserve.
  virtual absl::StatusOr<std::shared_ptr<WritableFile>> Create(const std::string& name,
                                                               uint64_t reserve_bytes) = 0;
  // The whole file. Blocks that the disk cannot read are zeros. Error: PATH_UNUSABLE.
  virtual absl::StatusOr<std::string> Read(const std::string& name) = 0;
  // The names in the directory, in no order. Error: PATH_UNUSABLE.
  virtual absl::StatusOr<std::vector<std::string>> List() = 0;
  // Replaces `to`. Error: PATH_UNUSABLE.
  virtual absl::Status Rename(const std::string& from, const std::string& to) = 0;
  // Error: PATH_UNUSABLE.
  virtual absl::Status Remove(const std::string& name) = 0;
  // Names that were created, changed or removed are on the disk. Error: PATH_UNUSABLE.
  virtual absl::Status SyncNames() = 0;
  // For messages.
  virtual std::string Path(const std::string& name) const = 0;
};

// A directory, which must exist.
std::shared_ptr<Storage> OpenDirectory(const std::string& directory);

}  // namespace pto::daemon
