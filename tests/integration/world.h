#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "tests/harness/api.h"

namespace pto::testing {

// Helpers for common setups. All fail the test if the daemon refuses.

// An id that is unique within this test program: the prefix and a number.
std::string UniqueId(absl::string_view prefix);

// Creates a session; returns its name.
std::string MakeSession(Api& api, absl::Duration ttl = absl::Minutes(5));
void DeleteSession(Api& api, const std::string& session);
// Whether the session still exists.
bool SessionLives(Api& api, const std::string& session);

void MakeBuffer(Api& api, const std::string& session, const std::string& id, uint64_t bytes,
                uint32_t chip = 0);

// Graphs without tensors, on chip 0. The tasks of `Chain` depend on each other.
v1::GraphSpec Noops(int count);
v1::GraphSpec Chain(int count);
v1::GraphSpec Spin(absl::Duration time, uint32_t chip = 0);
// Fills `out` with the scalar `value`, which a launch can bind: `count` F32 of slot `out`.
v1::GraphSpec Fill(int count, double value);

v1::SubmitRunRequest SubmitRequest(const std::string& session, v1::GraphSpec graph,
                                   const std::string& run_id = "");
// Submits the graph and returns the run's current state.
v1::Run Submit(Api& api, const std::string& session, v1::GraphSpec graph,
               const std::string& run_id = "");
// Returns the run when it has ended.
v1::Run WaitForRun(Api& api, const std::string& run);
// Returns the run's current state.
v1::Run GetRun(Api& api, const std::string& run);
void CancelRun(Api& api, const std::string& run);
// Waits until a task of the run has started.
void WaitUntilRunning(Api& api, const std::string& run);

v1::Node GetNode(Api& api);
v1::Chip GetChip(Api& api, uint32_t index);

}  // namespace pto::testing
