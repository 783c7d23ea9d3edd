#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "client/client.h"

namespace pto::ptoctl {

// Returns the full name of a run. `given` is a full name, or an id that is unique among all
// sessions. Otherwise returns RUN_UNKNOWN; for an ambiguous id the message lists the candidates.
absl::StatusOr<std::string> ResolveRun(Client& client, const std::string& given);

// The same for a given list of runs.
absl::StatusOr<std::string> ResolveRun(absl::Span<const v1::Run> runs, const std::string& given);

// Returns `sessions/s1` for `sessions/s1/runs/r1`, or NAME_INVALID for any other form.
absl::StatusOr<std::string> SessionOfRun(absl::string_view run);

}  // namespace pto::ptoctl
