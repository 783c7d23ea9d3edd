#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/optional.h"

namespace pto::testing {

// Clients that are killed, each a process of its own: what they leave in the daemon is what a test
// is about.
struct DoomedClients {
  std::string address;
  uint64_t seed = 1;
  // How many, and how many of them at once.
  int kills = 100;
  int at_once = 4;
  // Of their sessions.
  absl::Duration ttl = absl::Seconds(1);
  // A client is killed at a random moment before this, or ends itself between two of its steps.
  absl::Duration longest = absl::Milliseconds(80);
};

// The command that makes this program do it, see MaybeKillClients.
std::vector<std::string> CommandOf(const DoomedClients& clients);

// For the beginning of main: starts and kills the clients when the arguments are those of
// CommandOf, and returns the exit code, 0 when all have died as they should. Prints how many steps
// they had taken together, each of which is a call or more. This process must not have used gRPC:
// its children are forks of it, so that starting one costs next to nothing.
absl::optional<int> MaybeKillClients(int argc, char** argv);

}  // namespace pto::testing
