#include "client/ptoctl/error_text.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "runtime/base/error.h"

namespace pto::ptoctl {

std::string FormatError(const absl::Status& status, const job::SourceMap& places) {
  const absl::optional<ErrorDetail> detail = GetErrorDetail(status);
  std::string text = absl::StrCat("ptoctl: error: ", status.message());
  if (!detail.has_value()) {
    return absl::StrCat(text, " (", absl::StatusCodeToString(status.code()), ")\n");
  }
  absl::StrAppend(&text, " (", detail->reason, ")\n");
  if (!detail->field.empty()) {
    absl::StrAppend(&text, "  at: ", detail->field);
    // Errors of the file itself begin with their place.
    if (!places.file().empty() && !absl::StartsWith(status.message(), places.file())) {
      absl::StrAppend(&text, " (", places.Where(detail->field), ")");
    }
    absl::StrAppend(&text, "\n");
  }
  if (!detail->hint.empty()) absl::StrAppend(&text, "  hint: ", detail->hint, "\n");
  return text;
}

}  // namespace pto::ptoctl
