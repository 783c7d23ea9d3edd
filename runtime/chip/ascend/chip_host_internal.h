// For the parts of ChipHost.
#pragma once

#include <chrono>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "runtime/base/error.h"

namespace pto::ascend {

inline int64_t SteadyNanos() {
  return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

inline absl::Status LostError(absl::string_view name, absl::string_view why) {
  return Error(reason::kHostLost, absl::StrCat("the host of ", name, " was lost: ", why))
      .With("chip", name);
}

}  // namespace pto::ascend
