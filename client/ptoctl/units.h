#pragma once

#include <cstdint>
#include <string>

#include "absl/time/time.h"

namespace pto::ptoctl {

// `1.5 GiB`, `512 B`: at most three digits and a unit.
std::string BytesText(uint64_t bytes);

// `1.23 ms`, `45 s`, `2m 5s`: for times from nanoseconds to days.
std::string DurationText(absl::Duration duration);

}  // namespace pto::ptoctl
