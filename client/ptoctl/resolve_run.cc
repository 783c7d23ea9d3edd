#include "client/ptoctl/resolve_run.h"

#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "runtime/base/error.h"
#include "runtime/base/status_macros.h"

namespace pto::ptoctl {

absl::StatusOr<std::string> ResolveRun(Client& client, const std::string& given) {
  if (absl::StrContains(given, '/')) return given;
  PTO_ASSIGN_OR_RETURN(const std::vector<v1::Run> runs, client.ListRuns());
  return ResolveRun(runs, given);
}

absl::StatusOr<std::string> ResolveRun(absl::Span<const v1::Run> runs, const std::string& given) {
  std::vector<std::string> names;
  for (const v1::Run& run : runs) {
    if (absl::EndsWith(run.name(), absl::StrCat("/", given))) names.push_back(run.name());
  }
  if (names.size() == 1) return names[0];
  if (names.empty()) {
    return Error(reason::kRunUnknown, absl::StrCat("there is no run '", given, "'"));
  }
  return Error(reason::kRunUnknown, absl::StrCat("more than one session has a run '", given,
                                                 "': ", absl::StrJoin(names, ", ")))
      .Hint("use the full name");
}

absl::StatusOr<std::string> SessionOfRun(absl::string_view run) {
  const std::vector<absl::string_view> parts = absl::StrSplit(run, '/');
  if (parts.size() != 4 || parts[0] != "sessions" || parts[2] != "runs") {
    return Error(reason::kNameInvalid, absl::StrCat("'", run, "' is not a run name"));
  }
  return absl::StrCat(parts[0], "/", parts[1]);
}

}  // namespace pto::ptoctl
