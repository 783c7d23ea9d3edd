#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "client/client.h"

namespace pto::ptoctl {

// The full name of a run that was given in full, or by its id alone when only one session has
// such a run. RUN_UNKNOWN otherwise; when several have one, the message names them.
absl::StatusOr<std::string> ResolveRun(Client& client, const std::string& given);

// The same among runs that are known.
absl::StatusOr<std::string> ResolveRun(absl::Span<const v1::Run> runs, const std::string& given);

// `sessions/s1` of `sessions/s1/runs/r1`; NAME_INVALID for another form.
absl::StatusOr<std::string> SessionOfRun(absl::string_view run);

}  // namespace pto::ptoctl
