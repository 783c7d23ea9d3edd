// Appends tasks to open runs. A run whose stream breaks is not repeated: its final state says how
// much of it was executed.

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/open_run.h"
#include "runtime/base/error.h"
#include "runtime/base/status_macros.h"
#include "tests/soak/kinds.h"

namespace pto::soak {
namespace {

constexpr int64_t kCount = 32;

// Sends `tasks` tasks that add one each, in segments.
absl::StatusOr<v1::Run> Send(Visit& visit, OpenRun& run, const Adding& adding, uint64_t tasks) {
  const TensorRef x = run.graph().Tensor(adding.one);
  const TensorRef y = run.graph().Tensor(adding.sum);
  for (uint64_t i = 0; i < tasks; ++i) {
    run.graph().Task("axpy", adding.one.buffer().chip(), {x, y}).Scalar(1.0);
    if (visit.OneIn(10)) PTO_RETURN_IF_ERROR(run.Flush());
  }
  return run.Finish();
}

}  // namespace

absl::Status OpenRunRound(Visit& visit) {
  PTO_ASSIGN_OR_RETURN(Adding adding, visit.BeginAdding(kCount));
  Session& session = adding.session;
  uint64_t least = 0;
  uint64_t most = 0;
  const uint64_t runs = 2 + visit.Below(6);
  for (uint64_t i = 0; i < runs && !visit.place().stopping; ++i) {
    PTO_ASSIGN_OR_RETURN(OpenRun open, session.BeginOpenRun({.run_id = absl::StrCat("r", i)}));
    const Run handle = session.GetRun(open.name());
    const uint64_t tasks = 1 + visit.Below(300);
    const absl::StatusOr<v1::Run> answer = Send(visit, open, adding, tasks);
    if (answer.ok() && StatusOf(*answer).ok()) {
      PTO_RETURN_IF_ERROR(visit.Same("tasks", answer->tasks_done(), tasks));
      ++visit.tally().runs;
      least += tasks;
      most += tasks;
      continue;
    }
    if (!answer.ok() && !absl::IsUnavailable(answer.status())) return answer.status();
    // Only a lost stream can have cancelled it. A task that ran at that moment may count or not.
    open.Cancel();
    const absl::StatusOr<v1::Run> ended = visit.Insist([&] { return handle.Wait(); });
    if (ReasonOf(ended.status()) == reason::kRunUnknown.name) continue;  // it never arrived
    if (!ended.ok()) return ended.status();
    ++visit.tally().runs;
    if (ended->state() == v1::Run::CANCELLED) ++visit.tally().cancelled;
    least += ended->tasks_done();
    most += ended->tasks_total();
  }
  PTO_ASSIGN_OR_RETURN(const std::vector<float> have,
                       visit.Insist([&] { return adding.sum.Read(); }));
  ++visit.tally().checks;
  for (const float value : have) {
    if (value < static_cast<float>(least) || value > static_cast<float>(most)) {
      return absl::DataLossError(
          absl::StrCat("sum is ", value, ", not between ", least, " and ", most));
    }
  }
  return visit.Insist([&] { return session.Close(); });
}

}  // namespace pto::soak
