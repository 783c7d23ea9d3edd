// Submits graphs, with names and in columns, that add to a number, with run ids, so that each is
// executed once although calls are lost and repeated.

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"
#include "tests/soak/kinds.h"

namespace pto::soak {
namespace {

constexpr int64_t kCount = 64;

// `tasks` tasks that each add `number` to all of `sum`; they form a chain by their memory accesses.
void Describe(GraphBuilder& graph, const Adding& adding, uint64_t tasks, double number) {
  const TensorRef x = graph.Tensor(adding.one);
  const TensorRef y = graph.Tensor(adding.sum);
  for (uint64_t i = 0; i < tasks; ++i) {
    graph.Task("axpy", adding.one.buffer().chip(), {x, y}).Scalar(number).Blocks(1 + i % 4);
  }
}

}  // namespace

absl::Status SubmitRound(Visit& visit) {
  PTO_ASSIGN_OR_RETURN(Adding adding, visit.BeginAdding(kCount));
  Session& session = adding.session;

  // The numbers are small enough for an exact sum.
  float want = 0;
  std::vector<Run> pending;
  const uint64_t runs = 5 + visit.Below(20);
  for (uint64_t i = 0; i < runs && !visit.place().stopping; ++i) {
    GraphBuilder graph;
    const uint64_t tasks = 1 + visit.Below(20);
    const uint64_t number = visit.Below(9);
    Describe(graph, adding, tasks, static_cast<double>(number));
    RunOptions options;
    options.run_id = absl::StrCat("r", i);
    options.event_level = visit.OneIn(2) ? v1::TASK_ENDED : v1::EVENT_LEVEL_UNSPECIFIED;
    options.labels = {{"soak", "submit"}};
    const bool packed = visit.OneIn(3);
    PTO_ASSIGN_OR_RETURN(const Run run, visit.Insist([&] {
      return packed ? session.SubmitPacked(graph, options) : session.Submit(graph, options);
    }));
    want += static_cast<float>(tasks * number);
    pending.push_back(run);
    // Keeps some in flight.
    if (!visit.OneIn(4)) continue;
    for (const Run& before : pending) PTO_RETURN_IF_ERROR(visit.Finish(before));
    pending.clear();
  }
  for (const Run& before : pending) PTO_RETURN_IF_ERROR(visit.Finish(before));
  PTO_ASSIGN_OR_RETURN(const std::vector<float> have,
                       visit.Insist([&] { return adding.sum.Read(); }));
  PTO_RETURN_IF_ERROR(ExpectAll(visit, "sum", have, want));
  return visit.Insist([&] { return session.Close(); });
}

}  // namespace pto::soak
