#pragma once

#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace pto::job {

// Whether the daemon accepts this id for a resource that a client creates.
inline bool IsId(absl::string_view id) {
  if (id.empty() || id.size() > 63 || !absl::ascii_islower(static_cast<unsigned char>(id[0]))) {
    return false;
  }
  for (char c : id) {
    const auto u = static_cast<unsigned char>(c);
    if (!absl::ascii_islower(u) && !absl::ascii_isdigit(u) && c != '-') return false;
  }
  return true;
}

// The error message for an invalid id.
inline std::string NoId(absl::string_view id) {
  return absl::StrCat(
      "expected 1 to 63 characters from a-z, 0-9 and -, starting with a letter, got '", id, "'");
}

}  // namespace pto::job
