#pragma once

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/optional.h"

namespace pto::testing {

// A program started by the test: its standard input is empty, its outputs go to files. It runs in
// its own process group and is killed when the thread that started it ends, so that nothing
// outlives a test. Destroying the object kills the program. For one thread.
class Process {
 public:
  struct Options {
    std::vector<std::string> command;
    // Added to the test's own environment.
    std::vector<std::pair<std::string, std::string>> environment = {};
    // Files for the outputs, truncated unless `append` is set. May be the same file.
    std::string out;
    std::string err;
    bool append = false;
  };

  explicit Process(const Options& options);
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t pid() const { return pid_; }
  void Signal(int signal) const;

  // The wait status (see waitpid) once the program has ended; nullopt if it has not within
  // `timeout`.
  absl::optional<int> Wait(absl::Duration timeout);
  bool ended() { return Wait(absl::ZeroDuration()).has_value(); }

  // Whether the program's process group still has a process.
  bool GroupExists() const;

 private:
  pid_t pid_ = -1;
  int pidfd_ = -1;
  absl::optional<int> status_;
};

// Describes a wait status: `exit code 2`, `killed by signal 6 (Aborted)`.
std::string DescribeWaitStatus(int status);

// The result of a completed program.
struct ProgramResult {
  // -1 if it was killed, by a signal or because of the timeout.
  int exit_code = -1;
  std::string out;
  std::string err;
};

// Runs a program to its end. If it takes longer than `timeout`, it is killed and the test fails.
ProgramResult RunProgram(const std::vector<std::string>& command,
                         const std::vector<std::pair<std::string, std::string>>& environment = {},
                         absl::Duration timeout = absl::Seconds(60));

}  // namespace pto::testing
