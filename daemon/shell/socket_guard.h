#pragma once

#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "daemon/shell/file_lock.h"

namespace pto {

// The right to listen on a unix socket's path. gRPC itself removes whatever socket it finds
// there, also one that a living daemon serves; so this comes first and the server is started
// below it. While it exists, `path`.lock is locked; at its end both files are gone.
class SocketGuard {
 public:
  // Makes the directory when only its last part is missing, and removes a socket that a dead
  // process left behind. Errors: INSTANCE_RUNNING, PATH_UNUSABLE (also when there is something
  // that is not a socket).
  static absl::StatusOr<std::unique_ptr<SocketGuard>> Acquire(const std::string& path);
  ~SocketGuard();
  SocketGuard(const SocketGuard&) = delete;
  SocketGuard& operator=(const SocketGuard&) = delete;

 private:
  SocketGuard(std::string path, std::unique_ptr<FileLock> lock)
      : path_(std::move(path)), lock_(std::move(lock)) {}
  const std::string path_;
  const std::unique_ptr<FileLock> lock_;
};

// While it exists, new sockets are for their owner and group only: mode 0660. The mask belongs
// to the whole process, so no other thread may make files meanwhile.
class SocketUmask {
 public:
  SocketUmask();
  ~SocketUmask();
  SocketUmask(const SocketUmask&) = delete;
  SocketUmask& operator=(const SocketUmask&) = delete;

 private:
  const unsigned before_;
};

}  // namespace pto
