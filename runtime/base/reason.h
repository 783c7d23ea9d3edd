#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace pto {

// Largest thing that can no longer be used because of an error.
enum class Scope { kRequest = 1, kTask, kRun, kDomain, kSession, kChip, kNode };

// One kind of error, with a stable name. All of them stand in reason.inc.
struct Reason {
  absl::string_view name;
  absl::StatusCode code;
  Scope scope;
  // The part of ptod that decides it.
  absl::string_view mechanism;
  // What to do next, unless the place that reports it knows better.
  absl::string_view hint;
  // The page below deploy/docs/errors, without `.md`, that has a section on it. Empty only for
  // reasons that are not of the registry.
  absl::string_view page = "";
};

namespace reason {
#define PTO_REASON(id, name, code, scope, mechanism, page, hint) \
  inline constexpr Reason id{name, absl::StatusCode::code, Scope::scope, mechanism, hint, page};
#include "runtime/base/reason.inc"
#undef PTO_REASON
}  // namespace reason

// Every reason there is, in the order of reason.inc.
absl::Span<const Reason* const> AllReasons();

// The reason of that name, or nullptr.
const Reason* FindReason(absl::string_view name);

// Where to read on, such as `deploy/docs/errors/graphs.md#kernel_unknown`. Empty for a reason
// without a page.
std::string HelpAnchor(const Reason& reason);

// `REQUEST`, `TASK`, and so on.
absl::string_view ScopeName(Scope scope);

}  // namespace pto
