#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "runtime/base/file_descriptor.h"
#include "runtime/host/control_block.h"

namespace pto::host {

// How to start the program of a host.
struct HostCommand {
  std::vector<std::string> arguments;  // the program's path, and what comes after it
  // NAME=VALUE: all that it gets, besides what every host gets.
  std::vector<std::string> environment;
};

// One process, and what the daemon shares with it: the memory with the rings, the lifeline, the
// doorbell that the host rings when it has reported something, and what it prints.
//
// The kernel kills the process when the thread that called Start ends, so that thread must live as
// long as the process. The destructor kills it, too, and waits for its end. Signal and AwaitEnd are
// thread-safe.
class HostProcess {
 public:
  struct End {
    bool signalled = false;
    int number = 0;  // the signal, or the exit code
  };

  // HOST_LOST if the process cannot be started.
  static absl::StatusOr<std::unique_ptr<HostProcess>> Start(const HostCommand& command);
  ~HostProcess();
  HostProcess(const HostProcess&) = delete;
  HostProcess& operator=(const HostProcess&) = delete;

  pid_t pid() const { return pid_; }
  ControlBlock& control() const { return *control_; }
  int lifeline() const { return lifeline_.get(); }
  int doorbell() const { return doorbell_.get(); }  // readable after it was rung
  int output() const { return output_.get(); }      // both standard outputs of the host
  int pidfd() const { return pidfd_.get(); }        // readable when it has ended

  // Ends it, whatever it does.
  void Kill() const;
  // Waits until it has ended; it may still be a zombie. Returns whether it has.
  bool AwaitEnd(absl::Duration timeout) const { return AwaitEnd(pidfd_.get(), timeout); }
  static bool AwaitEnd(int pidfd, absl::Duration timeout);
  // How it has ended. Waits for that; call it after AwaitEnd.
  End Reap();

 private:
  HostProcess() = default;

  pid_t pid_ = -1;
  bool reaped_ = false;
  End end_;
  ControlBlock* control_ = nullptr;
  FileDescriptor pidfd_;
  FileDescriptor lifeline_;
  FileDescriptor doorbell_;
  FileDescriptor output_;
};

}  // namespace pto::host
