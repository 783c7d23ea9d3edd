#pragma once

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace pto::ptoctl {

// Reads `1.5s`, `200ms`, `2m`, or a number of seconds. False for anything else and for less
// than nothing.
bool ParseDurationText(absl::string_view text, absl::Duration* duration);

}  // namespace pto::ptoctl
