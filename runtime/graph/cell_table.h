#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "runtime/graph/big_vector.h"

namespace pto {

// A sparse array of 32-bit numbers, all 0 at first, with 64-bit indices. Neighbours share a
// page, so walking along them is cheap, and a page exists once one of its cells was written.
// Pages are found by a hash that differs from process to process, so that nobody can choose
// numbers that collide.
// Not thread-safe.
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

  // Where the cell's number is, or nullptr if it was never written. Valid until the next call.
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

  // Calls `visit(number)` for all that are not 0, in any order.
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
  // Makes it the page that was used last, and if need be makes it.
  void UsePage(uint64_t number);
  // Where the page is, or belongs. There must be a free slot.
  size_t FindSlot(uint64_t number) const;
  void Grow();

  BigVector<Page> pages_;
  BigVector<Slot> slots_;  // open addressing; a power of 2, or empty
  uint64_t multiplier_ = 0;
  uint32_t shift_ = 0;  // from a product to its slot
  // The page that was used last; it is there if any is.
  mutable uint64_t last_number_ = 0;
  mutable uint32_t last_page_ = 0;
};

}  // namespace pto
