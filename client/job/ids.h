#pragma once

#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace pto::job {

// Whether the daemon takes it as the id of something that a client creates.
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

// What is wrong with one that is not.
inline std::string NoId(absl::string_view id) {
  return absl::StrCat("expected 1 to 63 of a-z 0-9 - starting with a letter, got '", id, "'");
}

}  // namespace pto::job
