#include "client/examples/scenarios/scene.h"

#include <atomic>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"

namespace pto::scenarios {

Scene::Scene(Session session, const Options& options)
    : session_(std::move(session)),
      chips_(options.chips),
      repeat_(options.repeat),
      after_run_(options.after_run) {}

absl::StatusOr<Scene> Scene::Create(Client& client, const Options& options) {
  PTO_ASSIGN_OR_RETURN(Session session, client.CreateSession());
  return Scene(std::move(session), options);
}

absl::StatusOr<Domain> Scene::MakeDomain(absl::string_view id,
                                         const std::vector<WindowBufferSpec>& buffers,
                                         uint32_t signals, const std::vector<uint32_t>& ranks) {
  DomainSpec spec;
  spec.id = std::string(id);
  spec.buffers = buffers;
  spec.signal_count = signals;
  if (ranks.empty()) spec.chips = chips_;
  for (const uint32_t rank : ranks) spec.chips.push_back(chips_[rank]);
  return session_.CreateDomain(spec);
}

absl::Status Scene::Repeat(const Step& step) {
  for (int i = 0; i < repeat_; ++i) {
    const absl::Status done = step(i);
    if (done.ok()) continue;
    return absl::Status(done.code(), absl::StrCat("repetition ", i, ": ", done.message()));
  }
  return absl::OkStatus();
}

absl::Status Scene::RunGraph(const GraphBuilder& graph, const Step& prepare, const Step& check) {
  PTO_ASSIGN_OR_RETURN(const v1::Graph registered, session_.Register("scenario", graph));
  PTO_RETURN_IF_ERROR(Repeat([&](int repetition) -> absl::Status {
    PTO_RETURN_IF_ERROR(prepare(repetition));
    PTO_ASSIGN_OR_RETURN(const Run run, session_.Launch(registered.name()));
    PTO_RETURN_IF_ERROR(WaitFor(run));
    return check(repetition);
  }));
  return session_.DeleteGraph(registered.name());
}

absl::Status Scene::WaitFor(const Run& run) {
  PTO_ASSIGN_OR_RETURN(const v1::Run ended, run.Wait());
  PTO_RETURN_IF_ERROR(AfterRun(run.name()));
  return StatusOf(ended);
}

absl::Status Scene::AfterRun(const std::string& run) {
  return after_run_ ? after_run_(run) : absl::OkStatus();
}

absl::StatusOr<uint32_t> ClustersOf(Client& client, uint32_t chip) {
  PTO_ASSIGN_OR_RETURN(const std::vector<v1::Chip> chips, client.ListChips());
  for (const v1::Chip& found : chips) {
    if (found.name() == absl::StrCat("chips/", chip)) return found.clusters();
  }
  return absl::NotFoundError(absl::StrCat("there is no chips/", chip));
}

std::string UniqueName(absl::string_view stem) {
  static std::atomic<uint64_t> next{0};
  return absl::StrCat(stem, "#", next.fetch_add(1, std::memory_order_relaxed));
}

Buffer WindowOf(const Domain& domain, uint32_t rank, absl::string_view buffer) {
  return domain.Window(rank, buffer).value();
}

TensorRef WindowTensor(GraphBuilder& graph, const Domain& domain, uint32_t rank,
                       absl::string_view buffer, v1::DType dtype, absl::Span<const int64_t> shape,
                       int64_t offset) {
  return graph.Tensor(UniqueName(absl::StrCat(buffer, "@", rank)), WindowOf(domain, rank, buffer),
                      dtype, shape, {}, offset);
}

TensorRef WindowSignal(GraphBuilder& graph, const Domain& domain, uint32_t rank, uint32_t signal) {
  return graph.Tensor(UniqueName(absl::StrCat("signal", signal, "@", rank)),
                      domain.Signals(rank).value(), v1::I64, {}, {}, signal);
}

TaskRef Delay(GraphBuilder& graph, uint32_t chip, TensorRef floats, const TaskRef& after) {
  constexpr int kTasks = 200;
  TaskRef last = graph.Task("fill", chip, {floats}).Scalar(1.0).After(after);
  for (int i = 1; i < kTasks; ++i) last = graph.Task("scale", chip, {floats, floats}).Scalar(1.0);
  return last;
}

absl::Status Spoil(const Buffer& buffer) {
  return buffer.Write(
      std::vector<float>(buffer.bytes() / sizeof(float), std::numeric_limits<float>::quiet_NaN()));
}

absl::Status WrongNumber(absl::string_view what, size_t index, double have, double want) {
  return absl::DataLossError(absl::StrCat(what, "[", index, "] is ", have, " instead of ", want));
}

}  // namespace pto::scenarios
