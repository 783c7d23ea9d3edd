#include "daemon/domain/domain_ranks.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "daemon/names/names.h"
#include "runtime/base/error.h"

namespace pto::daemon {
namespace {

// Enough to find the mistake.
constexpr size_t kMostNamed = 8;

// Reasons of errors of a run whose kernels did not come to an end.
bool IsLate(absl::string_view reason) {
  return reason == reason::kRunDeadline.name || reason == reason::kTaskDeadline.name ||
         reason == reason::kWaitTimeout.name || reason == reason::kHostLost.name;
}

// The place of an error: `chips/{index}`, or empty.
std::string ChipOf(const ErrorDetail& detail) {
  for (const auto& [key, value] : detail.metadata) {
    if (key == "chip") return value;
  }
  return "";
}

void AddDomain(const DomainRanks& domain, const std::string& chip, std::string* text,
               std::string* missing) {
  const auto own = std::find_if(domain.chips.begin(), domain.chips.end(),
                                [&](uint32_t index) { return names::Chip(index) == chip; });
  if (own != domain.chips.end()) {
    absl::StrAppend(text, "; ", chip, " is rank ", own - domain.chips.begin(), " of ",
                    domain.domain);
  }
  size_t count = 0;
  for (size_t rank = 0; rank < domain.chips.size(); ++rank) {
    if (domain.used[rank] || ++count > kMostNamed) continue;
    absl::StrAppend(text, "; no task of the run is for rank ", rank, " of ", domain.domain, ", ",
                    names::Chip(domain.chips[rank]));
    absl::StrAppend(missing, missing->empty() ? "" : ",", rank);
  }
  if (count > kMostNamed) absl::StrAppend(text, " and ", count - kMostNamed, " more");
}

}  // namespace

absl::Status NameRanks(const absl::Status& error, const std::vector<DomainRanks>& domains) {
  const absl::optional<ErrorDetail> detail = GetErrorDetail(error);
  if (!detail.has_value() || !IsLate(detail->reason)) return error;
  const Reason* const reason = FindReason(detail->reason);
  std::string text;
  std::string missing;
  for (const DomainRanks& domain : domains) AddDomain(domain, ChipOf(*detail), &text, &missing);
  if (reason == nullptr || text.empty()) return error;
  Error with(*reason, absl::StrCat(error.message(), text));
  with.At(detail->field).Hint(detail->hint).Help(detail->help);
  for (const auto& [key, value] : detail->metadata) with.With(key, value);
  if (!missing.empty()) {
    with.With("missing_ranks", missing).Hint("submit a task for each rank of the domain");
  }
  return with;
}

}  // namespace pto::daemon
