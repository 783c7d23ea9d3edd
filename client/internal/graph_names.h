#pragma once

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "runtime/base/error.h"

// Names and paths in a graph under construction.
namespace pto::internal {

inline constexpr size_t kMaxNameBytes = 255;

inline bool IsName(absl::string_view name) { return !name.empty() && name.size() <= kMaxNameBytes; }

inline absl::Status NameError(absl::string_view name, bool repeated, const std::string& path) {
  if (repeated) {
    return Error(reason::kFieldInvalid, absl::StrCat("the name '", name, "' is used twice"))
        .At(path);
  }
  return Error(reason::kFieldInvalid,
               absl::StrCat("a name has 1 to ", kMaxNameBytes, " bytes, not ", name.size()))
      .At(path);
}

inline std::string TensorPath(size_t index) { return absl::StrCat("graph.tensors[", index, "]"); }
inline std::string TaskPath(size_t index) { return absl::StrCat("graph.tasks[", index, "]"); }

}  // namespace pto::internal
