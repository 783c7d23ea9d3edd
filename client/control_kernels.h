#pragma once

#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace pto {

// Whether this is one of the kernels that the daemon does itself, without a core: its tasks may use
// buffers of all chips. By id or full name.
inline bool IsControlKernel(absl::string_view kernel) {
  const absl::string_view id = absl::StripPrefix(kernel, "kernels/");
  return id == "join" || id == "notify" || id == "wait" || id == "wait_token" || id == "copy_async";
}

}  // namespace pto
