#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace pto::job {

// Returns the candidate most similar to `word`, or an empty string if none is similar enough.
std::string Nearest(absl::string_view word, const std::vector<std::string>& candidates);

}  // namespace pto::job
