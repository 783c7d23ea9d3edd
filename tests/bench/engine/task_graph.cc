#include "tests/bench/engine/task_graph.h"

#include <algorithm>
#include <cmath>
#include <random>

namespace pto::bench {
namespace {

// In the order of the enumeration.
constexpr std::array<absl::string_view, kShapes.size()> kNames = {"chain", "independent", "tree",
                                                                  "wavefront", "random"};

}  // namespace

absl::string_view ShapeName(Shape shape) { return kNames[static_cast<size_t>(shape)]; }

absl::optional<Shape> ParseShape(absl::string_view name) {
  for (const Shape shape : kShapes) {
    if (ShapeName(shape) == name) return shape;
  }
  return absl::nullopt;
}

TaskGraph TaskGraph::Make(Shape shape, uint32_t tasks) {
  TaskGraph graph;
  const auto side = static_cast<uint32_t>(std::sqrt(tasks));
  if (shape == Shape::kWavefront) tasks = side * side;
  // A fixed seed and no distribution object: the same graph everywhere.
  std::mt19937 random(1);
  for (uint32_t i = 0; i < tasks; ++i) {
    std::vector<uint32_t>& before = graph.before_;
    switch (shape) {
      case Shape::kChain:
        if (i > 0) before.push_back(i - 1);
        break;
      case Shape::kIndependent:
        break;
      case Shape::kTree:
        if (i > 0) before.push_back((i - 1) / 2);
        break;
      case Shape::kWavefront:
        if (i >= side) before.push_back(i - side);
        if (i % side > 0) before.push_back(i - 1);
        break;
      case Shape::kRandom:
        for (uint32_t left = std::min(i, kMaxDegree); left > 0;) {
          const auto back = static_cast<uint32_t>(random() % std::min(i, kRandomReach));
          const uint32_t candidate = i - 1 - back;
          const auto own = before.begin() + graph.first_.back();
          if (std::find(own, before.end(), candidate) != before.end()) continue;
          before.push_back(candidate);
          --left;
        }
        break;
    }
    graph.EndTask();
  }
  return graph;
}

}  // namespace pto::bench
