#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "tests/harness/api.h"
#include "tests/harness/directory.h"
#include "tests/harness/process.h"

namespace pto::testing {

// A real ptod on a private socket, serving when the constructor returns. Its log is printed if the
// test fails.
//
// Unless the test killed it, the daemon must end cleanly: the test fails if it crashed, ended with
// an error, caused a sanitizer report, reported an error without a reason, or left a process
// behind. For one thread, except where noted; the daemon dies with the thread that created it.
class DaemonProcess {
 public:
  // `flags` are added to --listen; the default is two simulated chips.
  explicit DaemonProcess(std::vector<std::string> flags = {"--sim-chips=2"});
  ~DaemonProcess();
  DaemonProcess(const DaemonProcess&) = delete;
  DaemonProcess& operator=(const DaemonProcess&) = delete;

  // `unix:` and the path of the socket.
  const std::string& address() const { return address_; }
  const std::string& socket_path() const { return socket_path_; }
  // A directory for the test's files; removed with this object.
  const std::string& directory() const { return directory_.path(); }
  const std::vector<std::string>& flags() const { return flags_; }
  pid_t pid() const { return process_->pid(); }

  // Stubs on one connection, which reconnects after a restart. Thread-safe.
  Api& api() { return api_; }

  // Asks the daemon to end and waits; the test fails unless it ends with 0 in time.
  void Stop(absl::Duration timeout = absl::Seconds(30));
  // Kills it with SIGKILL.
  void Kill();
  // Starts it again on the same socket, with the same or other flags. It must have ended.
  void Restart();
  void Restart(std::vector<std::string> flags);
  void Signal(int signal) { process_->Signal(signal); }
  // Stops all its threads; returns when none runs.
  void Pause();
  void Resume();
  bool running() { return !process_->ended(); }
  // The wait status of a daemon that ends by itself; fails the test if it does not in time.
  int WaitForEnd(absl::Duration timeout = absl::Seconds(30));

  // Whether grpc.health.v1 reports the service as serving; "" means the whole daemon.
  bool IsServing(const std::string& service = "");
  // Resident memory in bytes, and open files.
  uint64_t ResidentBytes() const;
  size_t OpenFiles() const;
  // Everything that it has logged so far, over all starts.
  std::string Log() const;

 private:
  void Start();
  bool WaitUntilReady();
  // Fails the test if the end is not what the test asked for.
  void CheckEnd(int status);
  void CheckNothingLeft();

  const Directory directory_;
  const std::string socket_path_;
  const std::string address_;
  const std::string log_path_;
  std::vector<std::string> flags_;
  Api api_;
  std::unique_ptr<Process> process_;
  // Whether the end of the current process was already checked.
  bool checked_ = false;
};

// Waits until `condition` holds, polling every few milliseconds; returns false if it does not hold
// within a time that is ample even on a busy machine. For conditions that can only be polled, for
// example another process's memory.
bool Eventually(const std::function<bool()>& condition);

}  // namespace pto::testing
