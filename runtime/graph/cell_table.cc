#include "runtime/graph/cell_table.h"

#include <bit>
#include <random>
#include <utility>

namespace pto::engine {
namespace {

// Odd, so that the multiplication is injective.
uint64_t Multiplier() {
  static const uint64_t multiplier = [] {
    std::random_device random;
    return (uint64_t{random()} << 32 | random()) | 1;
  }();
  return multiplier;
}

}  // namespace

size_t CellTable::FindSlot(uint64_t number) const {
  const size_t mask = slots_.size() - 1;
  size_t at = static_cast<size_t>((number * multiplier_) >> shift_);
  while (slots_[at].page != kNone && slots_[at].number != number) at = (at + 1) & mask;
  return at;
}

uint32_t CellTable::FindPage(uint64_t number) const {
  return slots_.empty() ? kNone : slots_[FindSlot(number)].page;
}

void CellTable::UsePage(uint64_t number) {
  if (slots_.empty()) Grow();
  size_t at = FindSlot(number);
  if (slots_[at].page == kNone) {
    if (pages_.size() >= slots_.size() / 4 * 3) {
      Grow();
      at = FindSlot(number);
    }
    slots_[at] = {number, static_cast<uint32_t>(pages_.size())};
    pages_.push_back(Page{});
  }
  last_number_ = number;
  last_page_ = slots_[at].page;
}

void CellTable::Grow() {
  BigVector<Slot> old = std::exchange(slots_, {});
  slots_.resize(old.empty() ? 8 : old.size() * 2);
  multiplier_ = Multiplier();
  shift_ = 64 - static_cast<uint32_t>(std::countr_zero(slots_.size()));
  for (const Slot& slot : old) {
    if (slot.page != kNone) slots_[FindSlot(slot.number)] = slot;
  }
}

size_t CellTable::bytes() const { return pages_.bytes() + slots_.bytes(); }

}  // namespace pto::engine
