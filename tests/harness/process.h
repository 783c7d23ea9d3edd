#pragma once

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/optional.h"

namespace pto::testing {

// A program that the test started: its standard input is empty, its outputs go to files. It is
// alone in a process group of its own and is killed when the thread that started it ends, so
// that nothing outlives a test. Destroying the object kills the program. For one thread.
class Process {
 public:
  struct Options {
    std::vector<std::string> command;
    // Added to the test's own environment.
    std::vector<std::pair<std::string, std::string>> environment = {};
    // Files for the outputs, written from their beginning unless `append` says otherwise. May be
    // the same file.
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

  // The wait status (see waitpid) once the program has ended; nullopt when it has not within
  // `timeout`.
  absl::optional<int> Wait(absl::Duration timeout);
  bool ended() { return Wait(absl::ZeroDuration()).has_value(); }

  // Whether anything of the program's process group is still there.
  bool GroupExists() const;

 private:
  pid_t pid_ = -1;
  int pidfd_ = -1;
  absl::optional<int> status_;
};

// What a wait status says, in words: `exit code 2`, `killed by signal 6 (Aborted)`.
std::string DescribeWaitStatus(int status);

// How a program ended that was run to its end.
struct ProgramResult {
  // -1 when it was killed, by a signal or because its time was up.
  int exit_code = -1;
  std::string out;
  std::string err;
};

// Runs a program to its end. One that takes longer than `timeout` is killed, which fails the
// test.
ProgramResult RunProgram(const std::vector<std::string>& command,
                         const std::vector<std::pair<std::string, std::string>>& environment = {},
                         absl::Duration timeout = absl::Seconds(60));

}  // namespace pto::testing
