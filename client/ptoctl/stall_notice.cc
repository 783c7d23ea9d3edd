#include "client/ptoctl/stall_notice.h"

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "client/ptoctl/units.h"

namespace pto::ptoctl {
namespace {

// The explanation must not delay the user much.
constexpr absl::Duration kAnswerTime = absl::Seconds(2);

}  // namespace

void StallNotice::Look(const v1::Run& run, absl::Time time, ProgressLine& progress) {
  const uint64_t ended = run.tasks_done() + run.tasks_failed() + run.tasks_skipped();
  if (ended != ended_tasks_ || run.state() != state_) {
    ended_tasks_ = ended;
    state_ = run.state();
    next_look_ = time + kPatience;
    said_.clear();
    return;
  }
  if (context_.quiet || time < next_look_) return;
  next_look_ = time + kPatience;
  // A long-running kernel is normal and needs no notice.
  const absl::StatusOr<v1::ExplainRunResponse> explained = Ask();
  if (!explained.ok() || explained->verdict() == v1::ExplainRunResponse::PROGRESSING ||
      explained->verdict() == v1::ExplainRunResponse::ENDED) {
    return;
  }
  const std::string verdict = v1::ExplainRunResponse::Verdict_Name(explained->verdict());
  if (verdict == said_) return;
  said_ = verdict;
  progress.Clear();
  context_.err << "ptoctl: " << run_ << " has made no progress for at least "
               << DurationText(kPatience) << ": " << verdict << ": " << explained->summary()
               << "\nptoctl: for details, run `ptoctl runs explain " << run_ << "`\n";
  context_.err.flush();
}

Error StallNotice::NotInTime(const std::string& text) {
  std::string why;
  const absl::StatusOr<v1::ExplainRunResponse> explained = Ask();
  if (explained.ok() && explained->verdict() != v1::ExplainRunResponse::ENDED &&
      !explained->summary().empty()) {
    why = absl::StrCat("; ", v1::ExplainRunResponse::Verdict_Name(explained->verdict()), ": ",
                       explained->summary());
  }
  return Error(reason::kClientTimeout, absl::StrCat(text, why));
}

absl::StatusOr<v1::ExplainRunResponse> StallNotice::Ask() {
  return client_.ExplainRun(run_, /*max_tasks=*/0, kAnswerTime);
}

}  // namespace pto::ptoctl
