// Clients in separate processes, which are killed.

#include <string>

#include "absl/strings/str_cat.h"
#include "tests/harness/doomed_client.h"
#include "tests/harness/process.h"
#include "tests/soak/kinds.h"

namespace pto::soak {

absl::Status KilledRound(Visit& visit) {
  testing::DoomedClients clients;
  clients.address = visit.place().address;
  clients.seed = visit.Below(uint64_t{1} << 62);
  clients.kills = 8;
  clients.at_once = 4;
  const testing::ProgramResult result =
      testing::RunProgram(testing::CommandOf(clients), {}, absl::Seconds(90));
  visit.tally().killed_clients += static_cast<uint64_t>(clients.kills);
  if (result.exit_code == 0) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat("seed ", clients.seed, ", exit code ", result.exit_code, ": ", result.err));
}

}  // namespace pto::soak
