#pragma once

#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "daemon/shell/file_lock.h"

namespace pto::daemon {

// The right to listen on the path of a unix socket. gRPC removes any socket that it finds there,
// even of a running daemon, so this must be acquired before the server starts. While it exists,
// `path`.lock is locked; the destructor removes both files.
class SocketGuard {
 public:
  // Creates the directory if only its last component is missing, and removes the socket of a dead
  // process. Errors: INSTANCE_RUNNING, PATH_UNUSABLE (also if the path is not a socket).
  static absl::StatusOr<std::unique_ptr<SocketGuard>> Acquire(const std::string& path);
  // For a socket that systemd has made and this process has inherited: it stays.
  static absl::StatusOr<std::unique_ptr<SocketGuard>> AcquireInherited(const std::string& path);
  ~SocketGuard();
  SocketGuard(const SocketGuard&) = delete;
  SocketGuard& operator=(const SocketGuard&) = delete;

 private:
  SocketGuard(std::string path, std::unique_ptr<FileLock> lock)
      : path_(std::move(path)), lock_(std::move(lock)) {}
  const std::string path_;  // empty if it is not removed
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

}  // namespace pto::daemon
