#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/client.h"
#include "client/domain.h"
#include "client/examples/scenarios/scenario.h"

// What the scenarios have in common.
namespace pto::scenarios {

// A session and the chips that a scenario uses.
class Scene {
 public:
  static absl::StatusOr<Scene> Create(Client& client, const Options& options);

  Session& session() { return session_; }
  uint32_t ranks() const { return static_cast<uint32_t>(chips_.size()); }
  uint32_t chip(uint32_t rank) const { return chips_[rank]; }
  int repeat() const { return repeat_; }

  // Only the first so many chips.
  void Keep(uint32_t ranks) { chips_.resize(ranks); }

  // A domain over these ranks, in this order; empty means all of them.
  absl::StatusOr<Domain> MakeDomain(absl::string_view id,
                                    const std::vector<WindowBufferSpec>& buffers,
                                    uint32_t signals = 0, const std::vector<uint32_t>& ranks = {});

  // Registers the graph and launches it as often as asked: `prepare`, the run, `check`.
  absl::Status RunGraph(const GraphBuilder& graph, const std::function<absl::Status()>& prepare,
                        const std::function<absl::Status()>& check);

 private:
  Scene(Session session, const Options& options);

  Session session_;
  std::vector<uint32_t> chips_;
  int repeat_;
  std::function<absl::Status(const std::string& run)> after_run_;
};

// A name for a tensor that no other one has.
std::string UniqueName(absl::string_view stem);
// A buffer of a domain that this program made, and so knows to have it.
Buffer WindowOf(const Domain& domain, uint32_t rank, absl::string_view buffer);
// A dense view of one.
TensorRef WindowTensor(GraphBuilder& graph, const Domain& domain, uint32_t rank,
                       absl::string_view buffer, v1::DType dtype, absl::Span<const int64_t> shape,
                       int64_t offset = 0);
// One of a rank's signals.
TensorRef WindowSignal(GraphBuilder& graph, const Domain& domain, uint32_t rank, uint32_t signal);

// DATA_LOSS that names the place and both numbers, unless all are within the tolerance.
absl::Status Expect(absl::string_view what, const std::vector<float>& have,
                    const std::function<double(size_t)>& want, double tolerance = 0);

}  // namespace pto::scenarios
