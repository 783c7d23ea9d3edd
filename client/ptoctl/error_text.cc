#include "client/ptoctl/error_text.h"

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "client/ptoctl/exit_code.h"
#include "runtime/base/error.h"

namespace pto::ptoctl {
namespace {

// The field that an error refers to. The error of a run refers to a task, which is a field of the
// job file.
std::string FieldOf(const ErrorDetail& detail, bool has_job) {
  if (!detail.field.empty() || !has_job) return detail.field;
  uint64_t index = 0;
  for (const auto& [key, value] : detail.metadata) {
    if (key == "task" && absl::SimpleAtoi(value, &index)) {
      return absl::StrCat("graph.tasks[", index, "]");
    }
  }
  return "";
}

// Where to find more information. Errors in the command line or in a job file need none.
std::string More(const absl::Status& status, const ErrorDetail& detail) {
  if (ExitCodeOf(status) == ExitCode::kUsage) return "";
  // A newer daemon may have reasons that this program does not know.
  if (FindReason(detail.reason) == nullptr) return detail.help;
  return absl::StrCat("ptoctl errors show ", detail.reason);
}

}  // namespace

std::string FormatError(const absl::Status& status, const job::SourceMap& places) {
  const absl::optional<ErrorDetail> detail = GetErrorDetail(status);
  std::string text = absl::StrCat("ptoctl: error: ", status.message());
  if (!detail.has_value()) {
    return absl::StrCat(text, " (", absl::StatusCodeToString(status.code()), ")\n");
  }
  absl::StrAppend(&text, " (", detail->reason, ")\n");
  const std::string field = FieldOf(*detail, !places.file().empty());
  if (!field.empty()) {
    absl::StrAppend(&text, "  at: ", field);
    // The message of an error in the file itself already starts with the position.
    if (!places.file().empty() && !absl::StartsWith(status.message(), places.file())) {
      absl::StrAppend(&text, " (", places.Where(field), ")");
    }
    absl::StrAppend(&text, "\n");
  }
  if (!detail->hint.empty()) absl::StrAppend(&text, "  hint: ", detail->hint, "\n");
  const std::string more = More(status, *detail);
  if (!more.empty()) absl::StrAppend(&text, "  more: ", more, "\n");
  return text;
}

}  // namespace pto::ptoctl
