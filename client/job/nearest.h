#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace pto::job {

// The candidate that `word` was most likely meant to be; empty when none is close.
std::string Nearest(absl::string_view word, const std::vector<std::string>& candidates);

}  // namespace pto::job
