#include "client/examples/scenarios/scene.h"

#include <atomic>
#include <cmath>
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

absl::Status Scene::RunGraph(const GraphBuilder& graph,
                             const std::function<absl::Status()>& prepare,
                             const std::function<absl::Status()>& check) {
  PTO_ASSIGN_OR_RETURN(const v1::Graph registered, session_.Register("scenario", graph));
  for (int i = 0; i < repeat_; ++i) {
    PTO_RETURN_IF_ERROR(prepare());
    PTO_ASSIGN_OR_RETURN(const Run run, session_.Launch(registered.name()));
    PTO_ASSIGN_OR_RETURN(const v1::Run ended, run.Wait());
    if (after_run_) PTO_RETURN_IF_ERROR(after_run_(run.name()));
    PTO_RETURN_IF_ERROR(StatusOf(ended));
    absl::Status right = check();
    if (right.ok()) continue;
    return absl::Status(right.code(), absl::StrCat("repetition ", i, ": ", right.message()));
  }
  return session_.DeleteGraph(registered.name());
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

absl::Status Expect(absl::string_view what, const std::vector<float>& have,
                    const std::function<double(size_t)>& want, double tolerance) {
  for (size_t i = 0; i < have.size(); ++i) {
    const double expected = want(i);
    // So that a NaN is wrong, too.
    if (std::fabs(have[i] - expected) <= tolerance) continue;
    return absl::DataLossError(
        absl::StrCat(what, "[", i, "] is ", have[i], " instead of ", expected));
  }
  return absl::OkStatus();
}

}  // namespace pto::scenarios
