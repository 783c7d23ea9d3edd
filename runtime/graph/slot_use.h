#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

namespace pto {

// Bytes from the first to behind the last; empty at first.
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

// What the tasks of a graph do with a slot's memory, as far as it makes dependencies: from the
// first byte that any of them reads or writes to the last.
struct SlotUse {
  ByteRange read;
  ByteRange written;
  // What is read or written by arguments that make no dependency since their tasks say so.
  ByteRange unordered;
};

}  // namespace pto
