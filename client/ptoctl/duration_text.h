#pragma once

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace pto::ptoctl {

// Parses `1.5s`, `200ms`, `2m` or a number of seconds. Returns false for any other text and for
// durations that are not positive.
bool ParseDurationText(absl::string_view text, absl::Duration* duration);

}  // namespace pto::ptoctl
