#include "runtime/base/reason.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace pto {
namespace {

constexpr const Reason* kAll[] = {
#define PTO_REASON(id, name, code, scope, mechanism, page, hint) &reason::id,
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

std::string HelpAnchor(const Reason& reason) {
  if (reason.page.empty()) return "";
  // Markdown renderers derive anchors from headings in this way.
  return absl::StrCat("deploy/docs/errors/", reason.page, ".md#",
                      absl::AsciiStrToLower(reason.name));
}

absl::string_view ScopeName(Scope scope) {
  switch (scope) {
    case Scope::kRequest:
      return "REQUEST";
    case Scope::kTask:
      return "TASK";
    case Scope::kRun:
      return "RUN";
    case Scope::kDomain:
      return "DOMAIN";
    case Scope::kSession:
      return "SESSION";
    case Scope::kChip:
      return "CHIP";
    case Scope::kNode:
      return "NODE";
  }
  return "UNKNOWN";
}

}  // namespace pto
