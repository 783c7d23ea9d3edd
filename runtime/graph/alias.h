#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "runtime/graph/image.h"

namespace pto {

// The memory that a launch binds to a slot, and the byte of it where the slot begins. nullptr
// for a slot that no task uses.
struct SlotMemory {
  const void* memory = nullptr;
  uint64_t offset = 0;
};

// Where a slot lies: slots of one space overlap, and `offset` is the place in that space. The
// same for all launches whose slots overlap in the same way.
struct SlotPlace {
  uint32_t space = 0;  // the first slot that is in it
  uint64_t offset = 0;

  bool operator==(const SlotPlace&) const = default;
};
using SlotPlaces = std::vector<SlotPlace>;

// The places of all slots when some of them overlap in a way that matters, that is, where the graph
// writes one of them: dependencies can come of that, and tasks whose arguments overlap. Else
// nothing: then all is as it was when the image was built.
// Takes O(n log n) for n slots.
SlotPlaces FindAliases(const GraphImage& image, absl::Span<const SlotMemory> slots);

}  // namespace pto
