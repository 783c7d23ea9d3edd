#include "runtime/graph/cell_tree.h"

#include <algorithm>

namespace pto::engine {

CellTree::CellTree(const Cell& cells, uint32_t dims) : dims_(dims) {
  std::array<uint8_t, kMaxDims> left{};  // coordinate bits that no level uses yet
  uint32_t total = 0;
  for (uint32_t i = 0; i < dims; ++i) {
    left[i] = static_cast<uint8_t>(std::bit_width(cells[i] - 1));
    total += left[i];
  }
  // Takes bits from each dimension in turn, so that nodes are roughly cubes.
  std::array<uint8_t, kMaxDims> shift{};
  uint32_t next = dims - 1;
  do {
    Level level;
    for (uint32_t bits = 0; bits < kChildBits && total > 0; next = (next + dims - 1) % dims) {
      if (left[next] == 0) continue;
      --left[next], --total;
      ++level.bits[next], ++shift[next];
      ++bits;
    }
    level.shift = shift;
    for (uint32_t i = 0; i < dims; ++i) level.nodes[i] = ((cells[i] - 1) >> shift[i]) + 1;
    levels_.push_back(std::move(level));
  } while (total > 0);
}

uint64_t CellTree::NodesBetween(uint32_t level, const Cell& first, const Cell& last) const {
  uint64_t count = 1;
  for (uint32_t i = 0; i < dims_; ++i) {
    const uint32_t shift = levels_[level - 1].shift[i];
    const uint64_t length = (last[i] >> shift) - (first[i] >> shift) + 1;
    if (length > kFewNodes) return length;
    count *= length;
  }
  return count;
}

void CellTree::Find(uint32_t number, const Cell& cell, Cell* node, uint32_t* child) const {
  const Level& level = levels_[number - 1];
  *child = 0;
  for (uint32_t i = 0; i < dims_; ++i) {
    (*node)[i] = cell[i] >> level.shift[i];
    const auto inner = static_cast<uint32_t>(cell[i] >> (level.shift[i] - level.bits[i]));
    *child = (*child << level.bits[i]) | (inner & ((1u << level.bits[i]) - 1));
  }
}

void CellTree::Add(const Cell& cell) {
  for (uint32_t number = 1; number <= levels_.size(); ++number) {
    Cell node;
    uint32_t child = 0;
    Find(number, cell, &node, &child);
    uint64_t& mask = levels_[number - 1].masks[Key(levels_[number - 1], dims_, node)];
    const uint64_t before = mask;
    mask |= uint64_t{1} << child;
    // The node still has other children, so the levels above do not change.
    if (before != 0) return;
  }
}

void CellTree::Remove(const Cell& cell) {
  for (uint32_t number = 1; number <= levels_.size(); ++number) {
    Cell node;
    uint32_t child = 0;
    Find(number, cell, &node, &child);
    Masks& masks = levels_[number - 1].masks;
    const auto found = masks.find(Key(levels_[number - 1], dims_, node));
    if (found == masks.end()) return;
    found->second &= ~(uint64_t{1} << child);
    if (found->second != 0) return;
    masks.erase(found);
  }
}

size_t CellTree::bytes() const {
  size_t bytes = levels_.capacity() * sizeof(Level);
  for (const Level& level : levels_) bytes += level.masks.capacity() * 17;
  return bytes;
}

}  // namespace pto::engine
