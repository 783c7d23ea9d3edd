#include "runtime/graph/alias.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>

#include "absl/container/inlined_vector.h"
#include "absl/types/optional.h"

namespace pto::engine {
namespace {

// A byte range of a slot's memory that the graph reads or writes.
struct Part {
  const void* memory;
  ByteRange bytes;
  uint32_t slot;
  bool written;
};
using Parts = absl::InlinedVector<Part, 16>;

// The farthest end of the ranges added so far, excluding those of a given slot.
class Reach {
 public:
  uint64_t Without(uint32_t slot) const {
    return farthest_.slot == slot ? other_.end : farthest_.end;
  }
  void Add(const Part& part) {
    if (part.bytes.end > farthest_.end) {
      if (farthest_.slot != part.slot) other_ = farthest_;
      farthest_ = {part.bytes.end, part.slot};
    } else if (part.slot != farthest_.slot && part.bytes.end > other_.end) {
      other_ = {part.bytes.end, part.slot};
    }
  }

 private:
  struct End {
    uint64_t end = 0;
    uint32_t slot = std::numeric_limits<uint32_t>::max();
  };
  End farthest_, other_;  // of different slots
};

// Disjoint sets of slots, each named by its lowest slot.
class Groups {
 public:
  explicit Groups(size_t slots) : parents_(slots) {
    std::iota(parents_.begin(), parents_.end(), 0);
  }
  uint32_t Of(uint32_t slot) {
    while (parents_[slot] != slot) slot = parents_[slot] = parents_[parents_[slot]];
    return slot;
  }
  void Join(uint32_t a, uint32_t b) {
    const uint32_t first = Of(a), second = Of(b);
    parents_[std::max(first, second)] = std::min(first, second);
  }

 private:
  std::vector<uint32_t> parents_;
};

// Sorted by memory and first byte.
Parts SortedParts(const GraphImage& image, absl::Span<const SlotMemory> slots) {
  Parts parts;
  for (uint32_t i = 0; i < slots.size(); ++i) {
    if (slots[i].memory == nullptr) continue;
    const SlotUse& use = image.slot_uses()[i];
    const auto add = [&](const ByteRange& bytes, bool written) {
      if (!bytes.empty())
        parts.push_back({slots[i].memory, bytes.From(slots[i].offset), i, written});
    };
    add(use.written, true);
    // A write covers the reads within it.
    if (!use.written.Covers(use.read)) add(use.read, false);
    // These accesses create no dependencies, but the overlap check of a task still needs them.
    if (!use.written.Covers(use.unordered)) add(use.unordered, true);
  }
  std::sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) {
    if (a.memory != b.memory) return std::less<>()(a.memory, b.memory);
    return a.bytes.begin < b.bytes.begin;
  });
  return parts;
}

}  // namespace

SlotPlaces FindAliases(const GraphImage& image, absl::Span<const SlotMemory> slots) {
  if (slots.size() < 2) return {};
  const Parts parts = SortedParts(image, slots);
  absl::optional<Groups> groups;
  for (size_t first = 0; first < parts.size();) {
    // A run of ranges, each of which overlaps an earlier one.
    uint64_t end = parts[first].bytes.end;
    Reach any, written;
    bool matters = false;
    size_t next = first;
    for (; next < parts.size() && parts[next].memory == parts[first].memory &&
           parts[next].bytes.begin < end;
         ++next) {
      const Part& part = parts[next];
      matters |= (part.written ? any : written).Without(part.slot) > part.bytes.begin;
      any.Add(part);
      if (part.written) written.Add(part);
      end = std::max(end, part.bytes.end);
    }
    if (matters) {
      if (!groups.has_value()) groups.emplace(slots.size());
      for (size_t i = first + 1; i < next; ++i) groups->Join(parts[first].slot, parts[i].slot);
    }
    first = next;
  }
  if (!groups.has_value()) return {};
  std::vector<uint64_t> begins(slots.size(), std::numeric_limits<uint64_t>::max());
  for (uint32_t i = 0; i < slots.size(); ++i) {
    uint64_t& begin = begins[groups->Of(i)];
    begin = std::min(begin, slots[i].offset);
  }
  SlotPlaces places(slots.size());
  for (uint32_t i = 0; i < slots.size(); ++i) {
    const uint32_t space = groups->Of(i);
    places[i] = {space, slots[i].offset - begins[space]};
  }
  return places;
}

}  // namespace pto::engine
