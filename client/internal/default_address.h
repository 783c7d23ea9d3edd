#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace pto::internal {

// The default address: the user's own daemon in XDG_RUNTIME_DIR if its socket exists, otherwise the
// machine's. `runtime_dir` may be null.
std::string DefaultAddress(bool is_root, const char* runtime_dir);

// The address to use: `given` if not empty, otherwise PTOD_ADDRESS, otherwise the default.
std::string ResolveAddress(absl::string_view given);

}  // namespace pto::internal
