#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/engine/engine.h"
#include "tests/bench/collectives/case.h"

namespace pto::bench {

// Collectives in the engine: a graph of many of them, with two executors and a chip for each rank.
class EngineSide {
 public:
  explicit EngineSide(uint32_t ranks);

  // Microseconds per collective if each waits for the previous one, because they use the same
  // tensors. Takes about `seconds`.
  absl::StatusOr<double> Chain(const CollectiveCase& measured, double seconds);
  // The same if each has its own tensors, and nothing to wait for.
  absl::StatusOr<double> Independent(const CollectiveCase& measured, double seconds);

 private:
  using Image = std::shared_ptr<const engine::GraphImage>;

  absl::StatusOr<double> Measure(const CollectiveCase& measured, bool chain, double seconds);
  absl::StatusOr<Image> Build(const CollectiveCase& measured, bool chain, uint32_t count) const;
  // Seconds for one run of the graph.
  absl::StatusOr<double> Execute(const Image& image);

  const uint32_t ranks_;
  TimerQueue timers_{Clock::Real()};
  std::unique_ptr<engine::Engine> engine_;
  std::shared_ptr<engine::RunSlots> slots_;
};

}  // namespace pto::bench
