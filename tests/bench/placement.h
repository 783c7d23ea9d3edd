#pragma once

#include <sys/types.h>

#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"

namespace pto::bench {

// On which CPUs the client and the servers of a ping-pong run. The kernel puts two processes that
// wake each other now on one CPU and now on two, and keeps it so for a while; on a virtual machine
// that alone makes a factor of two. A comparison needs the same for both sides.
enum class Placement {
  // As the kernel likes.
  kFree,
  // The client on one CPU, every server on another one.
  kApart,
  // All on one CPU.
  kTogether,
};

absl::optional<Placement> ParsePlacement(absl::string_view name);

// Places all threads of this process and of `servers`, and those that they start later. Can be
// called again. On a machine with one CPU there is nothing to choose.
absl::Status Place(Placement placement, const std::vector<pid_t>& servers);

}  // namespace pto::bench
