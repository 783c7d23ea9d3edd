#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace pto::ascend {

// How a child process has ended, and the begin of what it has printed.
struct ChildOutput {
  static constexpr size_t kMostBytes = size_t{1} << 20;

  int error = 0;       // of its start; then nothing else is set
  bool ended = false;  // false: the time was over, and it was killed
  int status = 0;      // of waitpid, if it has ended
  std::string text;
};

// Runs a program with this environment until it ends, at most for `timeout`. Returns in time
// whatever the program does; even one that cannot be killed, because a driver holds it.
ChildOutput RunChild(std::vector<std::string> arguments, std::vector<std::string> environment,
                     absl::Duration timeout);

}  // namespace pto::ascend
