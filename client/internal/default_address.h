#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace pto::internal {

// Where a daemon listens that was told nothing else: a user's own in XDG_RUNTIME_DIR when its
// socket is there, else the machine's. `runtime_dir` may be null.
std::string DefaultAddress(bool is_root, const char* runtime_dir);

// The address to use for what the caller gave: itself, else PTOD_ADDRESS, else the default.
std::string ResolveAddress(absl::string_view given);

}  // namespace pto::internal
