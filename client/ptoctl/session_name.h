#pragma once

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace pto::ptoctl {

// The full name of a session that is given by name or id.
inline std::string SessionName(const std::string& given) {
  return absl::StrContains(given, '/') ? given : absl::StrCat("sessions/", given);
}

}  // namespace pto::ptoctl
