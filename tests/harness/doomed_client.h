#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/optional.h"

namespace pto::testing {

// Clients that are killed, each in its own process: the test checks what they leave in the daemon.
struct DoomedClients {
  std::string address;
  uint64_t seed = 1;
  // The number of clients, and how many run at once.
  int kills = 100;
  int at_once = 4;
  // The time to live of their sessions.
  absl::Duration ttl = absl::Seconds(1);
  // A client is killed at a random moment before this, or kills itself between two steps.
  absl::Duration longest = absl::Milliseconds(80);
};

// The command that makes this program run the clients; see MaybeKillClients.
std::vector<std::string> CommandOf(const DoomedClients& clients);

// For the beginning of main: if the arguments are those of CommandOf, starts and kills the clients
// and returns the exit code, which is 0 if all died as expected. Prints the total number of steps,
// each of which is at least one call. This process must not have used gRPC, because the clients are
// forks of it (which makes starting them cheap).
absl::optional<int> MaybeKillClients(int argc, char** argv);

}  // namespace pto::testing
