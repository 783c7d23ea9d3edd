// Runs that would never end, or not soon, and are cancelled.

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"
#include "tests/soak/kinds.h"

namespace pto::soak {
namespace {

constexpr int64_t kOne[] = {1};

// A graph that waits without a core, on one core, on several cores, or that works.
void Describe(Visit& visit, GraphBuilder& graph, const Buffer& signal) {
  const TensorRef word = graph.Tensor("signal", signal, v1::I64, kOne);
  const uint32_t chip = signal.chip();
  switch (visit.Below(4)) {
    case 0: {
      const TaskRef wait = graph.WaitFor(word, v1::GE, 1);
      graph.Task("noop", chip, {}).After(wait);
      break;
    }
    case 1:
      graph.Task("hold", chip, {word}).Scalar(1).Blocks(1 + static_cast<uint32_t>(visit.Below(4)));
      break;
    case 2:
      graph.Task("hold", chip, {word}).Scalar(1).Blocks(4).SyncStart();
      break;
    default:
      for (int i = 0; i < 20; ++i) graph.Task("spin", chip, {}).Scalar(int64_t{2000});
      break;
  }
}

}  // namespace

absl::Status CancelRound(Visit& visit) {
  PTO_ASSIGN_OR_RETURN(Client client, visit.Connect());
  PTO_ASSIGN_OR_RETURN(Session session, visit.CreateSession(client));
  const uint32_t chip = visit.AnyChip();
  PTO_ASSIGN_OR_RETURN(const Buffer signal,
                       visit.Insist([&] { return session.CreateBuffer("signal", chip, 64); }));
  const uint64_t runs = 5 + visit.Below(15);
  for (uint64_t i = 0; i < runs && !visit.place().stopping; ++i) {
    GraphBuilder graph;
    Describe(visit, graph, signal);
    const RunOptions options = {.run_id = absl::StrCat("r", i)};
    PTO_ASSIGN_OR_RETURN(const Run run,
                         visit.Insist([&] { return session.Submit(graph, options); }));
    absl::SleepFor(absl::Microseconds(visit.Below(20'000)));
    PTO_RETURN_IF_ERROR(visit.Insist([&] { return run.Cancel("by the soak").status(); }));
    PTO_ASSIGN_OR_RETURN(const v1::Run ended, visit.Insist([&] { return run.Wait(); }));
    ++visit.tally().runs;
    ++visit.tally().checks;
    if (ended.state() == v1::Run::CANCELLED) {
      ++visit.tally().cancelled;
    } else if (ended.state() != v1::Run::SUCCEEDED) {
      return StatusOf(ended);
    }
  }
  return visit.Insist([&] { return session.Close(); });
}

}  // namespace pto::soak
