#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

namespace pto::engine {

// A half-open range of bytes, initially empty.
struct ByteRange {
  uint64_t begin = std::numeric_limits<uint64_t>::max();
  uint64_t end = 0;

  bool empty() const { return begin >= end; }
  bool Overlaps(const ByteRange& other) const { return begin < other.end && other.begin < end; }
  bool Covers(const ByteRange& other) const {
    return other.empty() || (begin <= other.begin && other.end <= end);
  }
  void Extend(const ByteRange& other) {
    begin = std::min(begin, other.begin);
    end = std::max(end, other.end);
  }
  ByteRange From(uint64_t offset) const { return {begin + offset, end + offset}; }

  bool operator==(const ByteRange&) const = default;
};

// How the tasks of a graph use a slot's memory where this creates dependencies: from the first byte
// that any task reads or writes to the last.
struct SlotUse {
  ByteRange read;
  ByteRange written;
  // Bytes used by arguments for which the task has turned dependencies off.
  ByteRange unordered;
};

}  // namespace pto::engine
