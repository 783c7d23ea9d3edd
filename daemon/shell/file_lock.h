#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace pto::daemon {

// A lock file that contains the id of this process. The kernel releases the lock however the
// process ends. The destructor removes the file.
class FileLock {
 public:
  // `what` names the locked resource in errors, such as `unix:/run/ptod.sock`. The directory must
  // exist. Errors: INSTANCE_RUNNING with the holder's process id; PATH_UNUSABLE.
  static absl::StatusOr<std::unique_ptr<FileLock>> Acquire(const std::string& path,
                                                           absl::string_view what);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  friend absl::StatusOr<std::unique_ptr<FileLock>> LockStateDirectory(const std::string& directory);

  FileLock(std::string path, int file) : path_(std::move(path)), file_(file) {}
  const std::string path_;
  const int file_;
  int directory_ = -1;  // that is locked itself, too
};

// Creates the directory if only its last component is missing. Errors: PATH_UNUSABLE.
absl::Status MakeLastDirectory(const std::string& path);

// Creates `directory` if only its last component is missing, and locks it for this process. The
// directory itself is locked, so it stays locked when somebody removes the file `lock` in it, which
// only says who holds it.
absl::StatusOr<std::unique_ptr<FileLock>> LockStateDirectory(const std::string& directory);

}  // namespace pto::daemon
