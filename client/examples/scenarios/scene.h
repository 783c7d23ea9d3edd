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

// What the scenarios have in common.
namespace pto::scenarios {

// What is done for one of the repetitions, which count from 0.
using Step = std::function<absl::Status(int repetition)>;

// A session and the chips that a scenario uses.
class Scene {
 public:
  static absl::StatusOr<Scene> Create(Client& client, const Options& options);

  Session& session() { return session_; }
  uint32_t ranks() const { return static_cast<uint32_t>(chips_.size()); }
  uint32_t chip(uint32_t rank) const { return chips_[rank]; }

  // A domain over these ranks, in this order; empty means all of them.
  absl::StatusOr<Domain> MakeDomain(absl::string_view id,
                                    const std::vector<WindowBufferSpec>& buffers,
                                    uint32_t signals = 0, const std::vector<uint32_t>& ranks = {});

  // Does something as often as asked, and says which time it went wrong.
  absl::Status Repeat(const Step& step);
  // Registers the graph and launches it as often as asked: `prepare`, the run, `check`. What a run
  // leaves behind must be wrong for the next one, or that could do nothing and go unnoticed: so
  // `prepare` changes the input, or spoils the output.
  absl::Status RunGraph(const GraphBuilder& graph, const Step& prepare, const Step& check);
  // For scenarios that start runs themselves: waits for the end of one, which must be a good one.
  absl::Status WaitFor(const Run& run);
  // And when one has ended, for those that wait by other means.
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

// Floats that a buffer needs for Delay.
inline constexpr int64_t kDelayFloats = 1024;
// Tasks on a chip, the first of which waits for `after` and each other one for the one before;
// returns the last. What comes after them is late, so that who ought to wait for it and does not
// is seen.
TaskRef Delay(GraphBuilder& graph, uint32_t chip, TensorRef floats, const TaskRef& after);

// Makes every float of the buffer one that no result is equal to.
absl::Status Spoil(const Buffer& buffer);

// By how much a number may differ from the right one, which counts for `relative`.
struct Tolerance {
  double absolute = 0;
  double relative = 0;
};

// DATA_LOSS that names the place and both numbers.
absl::Status WrongNumber(absl::string_view what, size_t index, double have, double want);

// That have[i] is want(i) for all of them, within the tolerance.
template <typename T, typename Want>
absl::Status Expect(absl::string_view what, const std::vector<T>& have, const Want& want,
                    Tolerance tolerance = {}) {
  for (size_t i = 0; i < have.size(); ++i) {
    const auto number = static_cast<double>(have[i]);
    const auto expected = static_cast<double>(want(i));
    const double margin = tolerance.absolute + tolerance.relative * std::fabs(expected);
    // So that a NaN is wrong, too.
    if (std::fabs(number - expected) <= margin) continue;
    return WrongNumber(what, i, number, expected);
  }
  return absl::OkStatus();
}

}  // namespace pto::scenarios
