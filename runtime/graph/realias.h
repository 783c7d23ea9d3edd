#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "runtime/graph/alias.h"
#include "runtime/graph/image.h"
#include "runtime/graph/work_budget.h"

namespace pto::engine {

// Returns the same graph for launches whose slots overlap as in `places`, which come from
// FindAliases: with its existing dependencies, and those caused by the overlap. Not needed for a
// graph that has only named dependencies. Errors: GRAPH_TOO_LARGE if there would be more than
// `max_dependencies` or finding them takes too long; CLIENT_GONE once `cancelled` returns true.
absl::StatusOr<std::shared_ptr<const GraphImage>> Realias(
    const GraphImage& image, const SlotPlaces& places, uint64_t max_dependencies,
    WorkBudget::Cancelled cancelled = nullptr);

}  // namespace pto::engine
