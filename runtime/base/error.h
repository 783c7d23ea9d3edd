#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "runtime/base/reason.h"

namespace pto {

// A limit that was hit.
struct Quota {
  std::string name;
  uint64_t limit = 0;
  uint64_t usage = 0;
  uint64_t requested = 0;
};

// What an error of ours says beside its code and message. It travels inside absl::Status.
struct ErrorDetail {
  std::string reason;
  Scope scope = Scope::kRequest;
  std::string mechanism;
  std::string hint;
  // Where to read on: a page and its section. Empty when there is none.
  std::string help;
  // Path of the offending field; empty when there is none.
  std::string field;
  std::vector<std::pair<std::string, std::string>> metadata;
  absl::optional<Quota> quota;
};

// Builds an absl::Status with a reason of the registry:
//
//   return Error(reason::kKernelUnknown, absl::StrCat("there is no kernel '", name, "'"))
//       .At("graph.tasks[3].kernel")
//       .With("kernel", name);
class Error {
 public:
  Error(const Reason& reason, absl::string_view message);

  // Path of the field that is wrong. It goes beside the message, not into it.
  Error& At(absl::string_view field);
  // A value that the message speaks of.
  Error& With(absl::string_view key, absl::AlphaNum value);
  // Replaces the reason's own hint.
  Error& Hint(absl::string_view hint);
  // Replaces where to read on. For reasons of another release, whose pages are not ours.
  Error& Help(absl::string_view help);
  Error& Limit(absl::string_view name, uint64_t limit, uint64_t usage, uint64_t requested);

  operator absl::Status() const;  // NOLINT: meant to convert in return statements

 private:
  const Reason* reason_;
  std::string message_;
  ErrorDetail detail_;
};

// The detail of an error made by Error; nullopt for any other status.
absl::optional<ErrorDetail> GetErrorDetail(const absl::Status& status);

// The reason's name, or an empty string for a status without one.
std::string ReasonOf(const absl::Status& status);

// Puts `prefix` before the field path of an error of ours; a dot at its end is dropped when
// nothing follows. Leaves any other status alone.
absl::Status PrefixField(const absl::Status& status, absl::string_view prefix);

}  // namespace pto
