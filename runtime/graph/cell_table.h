#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "runtime/graph/big_vector.h"

namespace pto::engine {

// A sparse array of 32-bit numbers, initially 0, with 64-bit indices. Neighbouring cells share a
// page, so iterating over them is cheap. A page is created when one of its cells is first written.
// Pages are found by a hash that differs between processes, so that clients cannot choose colliding
// indices. Not thread-safe.
class CellTable {
 public:
  uint32_t Get(uint64_t cell) const {
    const uint64_t number = cell / kPageCells;
    if (number != last_number_ || pages_.empty()) {
      const uint32_t page = FindPage(number);
      if (page == kNone) return 0;
      last_number_ = number;
      last_page_ = page;
    }
    return pages_[last_page_][cell % kPageCells];
  }

  // Returns the cell's number, or nullptr if it was never written. Valid until the next call.
  uint32_t* Find(uint64_t cell) {
    const uint64_t number = cell / kPageCells;
    if (number != last_number_ || pages_.empty()) {
      const uint32_t page = FindPage(number);
      if (page == kNone) return nullptr;
      last_number_ = number;
      last_page_ = page;
    }
    return &pages_[last_page_][cell % kPageCells];
  }

  // Valid until the next call.
  uint32_t& At(uint64_t cell) {
    const uint64_t number = cell / kPageCells;
    if (number != last_number_ || pages_.empty()) UsePage(number);
    return pages_[last_page_][cell % kPageCells];
  }

  // Calls `visit(number)` for all numbers that are not 0, in any order.
  template <typename Visit>
  void ForEach(Visit visit) const {
    for (const Page& page : pages_) {
      for (const uint32_t number : page) {
        if (number != 0) visit(number);
      }
    }
  }

  size_t bytes() const;

 private:
  static constexpr uint64_t kPageCells = 64;
  static constexpr uint32_t kNone = 0xffffffff;
  using Page = std::array<uint32_t, kPageCells>;
  struct Slot {
    uint64_t number = 0;
    uint32_t page = kNone;
  };

  uint32_t FindPage(uint64_t number) const;
  // Makes this the last used page; creates it if necessary.
  void UsePage(uint64_t number);
  // The slot of the page, or the free slot where it belongs. There must be a free slot.
  size_t FindSlot(uint64_t number) const;
  void Grow();

  BigVector<Page> pages_;
  BigVector<Slot> slots_;  // open addressing; the size is a power of 2, or 0
  uint64_t multiplier_ = 0;
  uint32_t shift_ = 0;  // from the product to the slot
  // The last used page; valid if there is any page.
  mutable uint64_t last_number_ = 0;
  mutable uint32_t last_page_ = 0;
};

}  // namespace pto::engine
