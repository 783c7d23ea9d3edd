#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace pto::bench {

// Another program, started by this one and stopped with it: by SIGTERM, then by SIGKILL if it does
// not end within some seconds. It also dies if this process dies for any reason.
//
// Start children before gRPC is used: gRPC's threads do not survive a fork.
class ChildProcess {
 public:
  // `command` is the path of the program and its arguments.
  static absl::StatusOr<ChildProcess> Start(const std::vector<std::string>& command);

  ~ChildProcess() { Stop(); }
  ChildProcess(ChildProcess&& other) noexcept : pid_(other.pid_) { other.pid_ = 0; }
  ChildProcess& operator=(ChildProcess&& other) noexcept;

  void Stop();

  pid_t pid() const { return pid_; }

 private:
  explicit ChildProcess(pid_t pid) : pid_(pid) {}

  pid_t pid_ = 0;  // 0: none
};

// A directory below /tmp, whose name is short enough for unix sockets; removed with its contents.
class TemporaryDirectory {
 public:
  static absl::StatusOr<TemporaryDirectory> Make();

  ~TemporaryDirectory();
  TemporaryDirectory(TemporaryDirectory&& other) noexcept;
  TemporaryDirectory& operator=(TemporaryDirectory&&) = delete;

  const std::string& path() const { return path_; }

 private:
  explicit TemporaryDirectory(std::string path) : path_(std::move(path)) {}

  std::string path_;
};

}  // namespace pto::bench
