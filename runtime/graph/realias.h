#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "runtime/graph/alias.h"
#include "runtime/graph/image.h"
#include "runtime/graph/work_budget.h"

namespace pto {

// The same graph for launches whose slots overlap like `places`, which come from FindAliases:
// with the dependencies that it has, and those that come of the overlapping. A graph whose
// dependencies are only those that its tasks name needs none of this.
// Errors: GRAPH_TOO_LARGE when there would be more than `max_dependencies` or to find them takes
// too long, CLIENT_GONE once `cancelled` says so.
absl::StatusOr<std::shared_ptr<const GraphImage>> Realias(
    const GraphImage& image, const SlotPlaces& places, uint64_t max_dependencies,
    WorkBudget::Cancelled cancelled = nullptr);

}  // namespace pto
