#include "runtime/base/reason.h"

namespace pto {
namespace {

constexpr const Reason* kAll[] = {
#define PTO_REASON(id, name, code, scope, mechanism, hint) &reason::id,
#include "runtime/base/reason.inc"
#undef PTO_REASON
};

}  // namespace

absl::Span<const Reason* const> AllReasons() { return kAll; }

const Reason* FindReason(absl::string_view name) {
  for (const Reason* reason : kAll) {
    if (reason->name == name) return reason;
  }
  return nullptr;
}

}  // namespace pto
