#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "client/client.h"
#include "client/domain.h"
#include "client/examples/scenarios/scenario.h"

// Code that the scenarios share.
namespace pto::scenarios {

// A step of one repetition; these count from 0.
using Step = std::function<absl::Status(int repetition)>;

// The session and the chips of a scenario.
class Scene {
 public:
  static absl::StatusOr<Scene> Create(Client& client, const Options& options);

  Session& session() { return session_; }
  uint32_t ranks() const { return static_cast<uint32_t>(chips_.size()); }
  uint32_t chip(uint32_t rank) const { return chips_[rank]; }

  // Creates a domain over these ranks, in this order; empty means all.
  absl::StatusOr<Domain> MakeDomain(absl::string_view id,
                                    const std::vector<WindowBufferSpec>& buffers,
                                    uint32_t signals = 0, const std::vector<uint32_t>& ranks = {});

  // Repeats a step as often as requested; errors name the repetition.
  absl::Status Repeat(const Step& step);
  // Registers the graph and launches it as often as requested: `prepare`, the run, `check`. The
  // leftovers of a run must be wrong for the next one, because otherwise a run that does nothing
  // would go unnoticed: so `prepare` changes the input, or spoils the output.
  absl::Status RunGraph(const GraphBuilder& graph, const Step& prepare, const Step& check);
  // For scenarios that start runs themselves: waits for a run, which must succeed.
  absl::Status WaitFor(const Run& run);
  // The same for a run that has already ended.
  absl::Status AfterRun(const std::string& run);

 private:
  Scene(Session session, const Options& options);

  Session session_;
  std::vector<uint32_t> chips_;
  int repeat_;
  std::function<absl::Status(const std::string& run)> after_run_;
};

// The clusters of a chip.
absl::StatusOr<uint32_t> ClustersOf(Client& client, uint32_t chip);

// A unique name for a tensor.
std::string UniqueName(absl::string_view stem);
// A buffer of a domain that this program has created, so it must exist.
Buffer WindowOf(const Domain& domain, uint32_t rank, absl::string_view buffer);
// A dense view of such a buffer.
TensorRef WindowTensor(GraphBuilder& graph, const Domain& domain, uint32_t rank,
                       absl::string_view buffer, v1::DType dtype, absl::Span<const int64_t> shape,
                       int64_t offset = 0);
// One of a rank's signals.
TensorRef WindowSignal(GraphBuilder& graph, const Domain& domain, uint32_t rank, uint32_t signal);

// Floats that a buffer needs for Delay.
inline constexpr int64_t kDelayFloats = 1024;
// Adds tasks on a chip, the first of which waits for `after` and each other one for the previous
// one; returns the last. Tasks after them are late, which reveals consumers that do not wait for
// them.
TaskRef Delay(GraphBuilder& graph, uint32_t chip, TensorRef floats, const TaskRef& after);

// Sets every float of the buffer to a value that equals no result.
absl::Status Spoil(const Buffer& buffer);

// The permitted difference from the expected number; `relative` is relative to that.
struct Tolerance {
  double absolute = 0;
  double relative = 0;
};

// DATA_LOSS with the position and both numbers.
absl::Status WrongNumber(absl::string_view what, size_t index, double have, double want);

// Checks that have[i] is want(i) for all i, within the tolerance.
template <typename T, typename Want>
absl::Status Expect(absl::string_view what, const std::vector<T>& have, const Want& want,
                    Tolerance tolerance = {}) {
  for (size_t i = 0; i < have.size(); ++i) {
    const auto number = static_cast<double>(have[i]);
    const auto expected = static_cast<double>(want(i));
    const double margin = tolerance.absolute + tolerance.relative * std::fabs(expected);
    // Written so that NaN fails, too.
    if (std::fabs(number - expected) <= margin) continue;
    return WrongNumber(what, i, number, expected);
  }
  return absl::OkStatus();
}

}  // namespace pto::scenarios
