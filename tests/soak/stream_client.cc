// Launches on one open stream, with many in flight; a broken stream is replaced, and unanswered
// launches are repeated with the same ids.

#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/launch_stream.h"
#include "runtime/base/status_macros.h"
#include "tests/soak/kinds.h"

namespace pto::soak {
namespace {

constexpr int64_t kCount = 16;

// Launches without an answer.
using Unanswered = std::map<uint64_t, v1::LaunchGraphRequest>;

absl::Status TakeOne(Visit& visit, LaunchStream& stream, Unanswered& unanswered) {
  PTO_ASSIGN_OR_RETURN(const v1::LaunchCompletion completion, stream.Next());
  PTO_RETURN_IF_ERROR(StatusOf(completion));
  ++visit.tally().runs;
  unanswered.erase(completion.tag());
  return absl::OkStatus();
}

// Sends all requests on a new stream, and takes all completions. Requests that remain in `left` may
// or may not have been executed.
absl::Status LaunchAll(Visit& visit, Session& session, std::vector<v1::LaunchGraphRequest>& left) {
  constexpr size_t kInFlight = 16;
  PTO_ASSIGN_OR_RETURN(LaunchStream stream, session.OpenLaunchStream());
  Unanswered unanswered;
  absl::Status status;
  size_t sent = 0;
  for (; sent < left.size() && status.ok(); ++sent) {
    const absl::StatusOr<uint64_t> tag = stream.Launch(left[sent]);
    status = tag.status();
    if (!status.ok()) break;
    unanswered.emplace(*tag, left[sent]);
    if (unanswered.size() >= kInFlight) status = TakeOne(visit, stream, unanswered);
  }
  while (status.ok() && !unanswered.empty()) status = TakeOne(visit, stream, unanswered);
  left.erase(left.begin(), left.begin() + static_cast<std::ptrdiff_t>(sent));
  for (auto& [tag, request] : unanswered) left.push_back(std::move(request));
  return status;
}

}  // namespace

absl::Status StreamRound(Visit& visit) {
  PTO_ASSIGN_OR_RETURN(Adding adding, visit.BeginAdding(kCount));
  Session& session = adding.session;
  GraphBuilder graph;
  const uint32_t chip = adding.one.buffer().chip();
  graph.Task("axpy", chip, {graph.Tensor(adding.one), graph.Tensor(adding.sum)}).Scalar(1.0);
  PTO_ASSIGN_OR_RETURN(const v1::Graph registered,
                       visit.Insist([&] { return session.Register("add", graph); }));
  const uint64_t launches = 20 + visit.Below(200);
  std::vector<v1::LaunchGraphRequest> left(launches);
  for (uint64_t i = 0; i < launches; ++i) {
    left[i].set_graph(registered.name());
    left[i].set_run_id(absl::StrCat("r", i));
  }
  PTO_RETURN_IF_ERROR(visit.Insist([&] { return LaunchAll(visit, session, left); }));
  PTO_ASSIGN_OR_RETURN(const std::vector<float> have,
                       visit.Insist([&] { return adding.sum.Read(); }));
  PTO_RETURN_IF_ERROR(ExpectAll(visit, "sum", have, static_cast<float>(launches)));
  return visit.Insist([&] { return session.Close(); });
}

}  // namespace pto::soak
