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

// A real ptod on a private socket, serving when the constructor returns. Its log is shown when
// the test fails.
//
// Unless the test killed it, the daemon must end well: one that crashed, ended with an error,
// reported through a sanitizer, told an error without a reason or left a process behind fails the
// test. For one thread, except
// where said; the daemon dies with the thread that made it.
class DaemonProcess {
 public:
  // `flags` beside --listen; without any, two simulated chips.
  explicit DaemonProcess(std::vector<std::string> flags = {"--sim-chips=2"});
  ~DaemonProcess();
  DaemonProcess(const DaemonProcess&) = delete;
  DaemonProcess& operator=(const DaemonProcess&) = delete;

  // `unix:` and the socket's path.
  const std::string& address() const { return address_; }
  const std::string& socket_path() const { return socket_path_; }
  // A directory for the test's files; it goes with this object.
  const std::string& directory() const { return directory_.path(); }
  const std::vector<std::string>& flags() const { return flags_; }
  pid_t pid() const { return process_->pid(); }

  // Stubs on one connection, which finds the daemon again after a restart. Thread-safe.
  Api& api() { return api_; }

  // Asks the daemon to end and waits for that; the test fails unless it ends with 0 in time.
  void Stop(absl::Duration timeout = absl::Seconds(30));
  // Ends it without notice.
  void Kill();
  // Starts it again on the same socket, with the same flags or with others. It must have ended.
  void Restart();
  void Restart(std::vector<std::string> flags);
  void Signal(int signal) { process_->Signal(signal); }
  // Keeps all its threads from running; returns when they stand still.
  void Pause();
  void Resume();
  bool running() { return !process_->ended(); }
  // The wait status of a daemon that ends by itself; fails the test when it does not in time.
  int WaitForEnd(absl::Duration timeout = absl::Seconds(30));

  // Whether grpc.health.v1 says that the service, or with "" the whole daemon, is serving.
  bool IsServing(const std::string& service = "");
  // Resident memory in bytes, and open files.
  uint64_t ResidentBytes() const;
  size_t OpenFiles() const;
  // Everything that it has written so far, of all starts.
  std::string Log() const;

 private:
  void Start();
  bool WaitUntilReady();
  // Complains about an end that is not what the test asked for.
  void CheckEnd(int status);
  void CheckNothingLeft();

  const Directory directory_;
  const std::string socket_path_;
  const std::string address_;
  const std::string log_path_;
  std::vector<std::string> flags_;
  Api api_;
  std::unique_ptr<Process> process_;
  // Whether the present process's end was looked at already.
  bool checked_ = false;
};

// Waits until `condition` holds, looking every few milliseconds; false when it does not even on a
// busy machine. For what can only be looked at from outside, such as another process's memory.
bool Eventually(const std::function<bool()>& condition);

}  // namespace pto::testing
