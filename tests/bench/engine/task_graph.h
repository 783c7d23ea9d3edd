#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"

namespace pto::bench {

enum class Shape { kChain, kIndependent, kTree, kWavefront, kRandom };
inline constexpr std::array kShapes = {Shape::kChain, Shape::kIndependent, Shape::kTree,
                                       Shape::kWavefront, Shape::kRandom};

absl::string_view ShapeName(Shape shape);
absl::optional<Shape> ParseShape(absl::string_view name);

// The description of a graph for all contenders: for each task, its distinct predecessors.
class TaskGraph {
 public:
  // The maximum number of predecessors.
  static constexpr uint32_t kMaxDegree = 4;
  // Random edges reach back at most this far. With longer edges, large graphs would measure nothing
  // but cache misses, for any scheduler.
  static constexpr uint32_t kRandomReach = 1000;

  // About `tasks` tasks, at least 1; a wavefront is a square.
  //
  //   chain        each after the one before
  //   independent  no edges
  //   tree         from its root outwards, each with two after it
  //   wavefront    after the neighbours above and to the left
  //   random       after 4 of the kRandomReach before, the same ones every time
  static TaskGraph Make(Shape shape, uint32_t tasks);

  uint32_t size() const { return static_cast<uint32_t>(first_.size() - 1); }
  uint64_t edges() const { return before_.size(); }
  absl::Span<const uint32_t> before(uint32_t task) const {
    return absl::MakeConstSpan(before_).subspan(first_[task], first_[task + 1] - first_[task]);
  }

 private:
  TaskGraph() = default;
  void EndTask() { first_.push_back(static_cast<uint32_t>(before_.size())); }

  std::vector<uint32_t> first_{0};
  std::vector<uint32_t> before_;
};

}  // namespace pto::bench
