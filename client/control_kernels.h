#pragma once

#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace pto {

// Whether `kernel`, an id or full name, is a control kernel. The daemon executes these itself,
// without a core, and their tasks may use buffers of all chips.
inline bool IsControlKernel(absl::string_view kernel) {
  const absl::string_view id = absl::StripPrefix(kernel, "kernels/");
  return id == "join" || id == "notify" || id == "wait" || id == "wait_token" || id == "copy_async";
}

}  // namespace pto
