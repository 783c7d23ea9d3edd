#pragma once

#include <sys/types.h>

#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"

namespace pto::bench {

// The CPUs of the client and the servers of a ping-pong. The kernel puts two processes that wake
// each other sometimes on one CPU and sometimes on two, and keeps that for a while; on a virtual
// machine this alone makes a factor of two. A comparison needs the same placement for both sides.
enum class Placement {
  // Chosen by the kernel.
  kFree,
  // The client on one CPU, all servers on another.
  kApart,
  // All on one CPU.
  kTogether,
};

absl::optional<Placement> ParsePlacement(absl::string_view name);

// Places all threads of this process and of `servers`, including those started later. May be called
// again. No effect on a machine with one CPU.
absl::Status Place(Placement placement, const std::vector<pid_t>& servers);

}  // namespace pto::bench
