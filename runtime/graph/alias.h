#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "runtime/graph/image.h"

namespace pto::engine {

// The memory that a launch binds to a slot, and the offset where the slot begins. nullptr for a
// slot that no task uses.
struct SlotMemory {
  const void* memory = nullptr;
  uint64_t offset = 0;
};

// Where a slot lies: `offset` in a space that it shares with the slots that overlap it. Launches
// whose slots overlap in the same way get the same places.
struct SlotPlace {
  uint32_t space = 0;  // the lowest slot in the space
  uint64_t offset = 0;

  bool operator==(const SlotPlace&) const = default;
};
using SlotPlaces = std::vector<SlotPlace>;

// Returns the places of all slots if some of them overlap in a way that matters, that is, if the
// graph writes one of them: this can create dependencies and overlapping arguments. Otherwise
// returns an empty list, and the image is valid as built. Takes O(n log n) for n slots.
SlotPlaces FindAliases(const GraphImage& image, absl::Span<const SlotMemory> slots);

}  // namespace pto::engine
