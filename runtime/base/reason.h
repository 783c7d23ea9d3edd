#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace pto {

// The largest object that is unusable because of an error.
enum class Scope { kRequest = 1, kTask, kRun, kDomain, kSession, kChip, kNode };

// One kind of error, with a stable name. All reasons are listed in reason.inc.
struct Reason {
  absl::string_view name;
  absl::StatusCode code;
  Scope scope;
  // The part of ptod that reports it.
  absl::string_view mechanism;
  // What to do next. Code that reports the error may give a more specific hint.
  absl::string_view hint;
  // The page below deploy/docs/errors, without `.md`, that describes it. Empty only for reasons
  // that are not in the registry.
  absl::string_view page = "";
};

namespace reason {
#define PTO_REASON(id, name, code, scope, mechanism, page, hint) \
  inline constexpr Reason id{name, absl::StatusCode::code, Scope::scope, mechanism, hint, page};
#include "runtime/base/reason.inc"
#undef PTO_REASON
}  // namespace reason

// All reasons, in the order of reason.inc.
absl::Span<const Reason* const> AllReasons();

// The reason with that name, or nullptr.
const Reason* FindReason(absl::string_view name);

// The link to the documentation, such as `deploy/docs/errors/graphs.md#kernel_unknown`. Empty for a
// reason without a page.
std::string HelpAnchor(const Reason& reason);

// `REQUEST`, `TASK`, and so on.
absl::string_view ScopeName(Scope scope);

}  // namespace pto
