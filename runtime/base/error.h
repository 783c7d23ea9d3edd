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

// A limit that was reached.
struct Quota {
  std::string name;
  uint64_t limit = 0;
  uint64_t usage = 0;
  uint64_t requested = 0;
};

// What our errors contain besides code and message. Stored in a payload of absl::Status.
struct ErrorDetail {
  std::string reason;
  Scope scope = Scope::kRequest;
  std::string mechanism;
  std::string hint;
  // A page of the documentation and its section. Empty if there is none.
  std::string help;
  // The path of the invalid field. Empty if there is none.
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

  // The path of the invalid field. Do not repeat it in the message.
  Error& At(absl::string_view field);
  // A value that the message mentions.
  Error& With(absl::string_view key, absl::AlphaNum value);
  // Replaces the hint of the reason.
  Error& Hint(absl::string_view hint);
  // Replaces the link to the documentation, for reasons of another release.
  Error& Help(absl::string_view help);
  Error& Limit(absl::string_view name, uint64_t limit, uint64_t usage, uint64_t requested);

  operator absl::Status() const;  // NOLINT: meant to convert in return statements

 private:
  const Reason* reason_;
  std::string message_;
  ErrorDetail detail_;
};

// The detail of a status that Error created; nullopt for any other status.
absl::optional<ErrorDetail> GetErrorDetail(const absl::Status& status);

// The name of the reason; empty for a status without one.
std::string ReasonOf(const absl::Status& status);

// Prepends `prefix` to the field path of one of our errors. Drops a trailing dot of the prefix if
// the path is empty. Returns any other status unchanged.
absl::Status PrefixField(const absl::Status& status, absl::string_view prefix);

}  // namespace pto
