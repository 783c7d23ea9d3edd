#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace pto::engine {

// The set of used cells of a grid. Finds the used cells within a box without visiting the others: a
// generalised quadtree for any number of dimensions, whose nodes are masks of 64 children. A node
// exists only while it has a child. Not thread-safe.
class CellTree {
 public:
  static constexpr uint32_t kMaxDims = 9;
  using Cell = std::array<uint64_t, kMaxDims>;

  // `cells` is the number of cells in each dimension; their product must be below 2^63.
  CellTree(const Cell& cells, uint32_t dims);

  void Add(const Cell& cell);
  void Remove(const Cell& cell);

  // Calls `visit(cell)` for each used cell from `first` to `last`, both included; `visit` may
  // remove that cell. Returns the number of visited children.
  template <typename Visit>
  uint64_t ForEach(const Cell& first, const Cell& last, Visit visit) const {
    // Starts at the level where the box spans only a few nodes, not at the root.
    uint32_t top = 1;
    while (top < levels_.size() && NodesBetween(top, first, last) > kFewNodes) ++top;
    Cell at{}, low{}, high{};
    for (uint32_t i = 0; i < dims_; ++i) {
      low[i] = first[i] >> levels_[top - 1].shift[i];
      high[i] = last[i] >> levels_[top - 1].shift[i];
    }
    at = low;
    uint64_t steps = 0;
    for (;;) {
      ++steps;
      Descend(top, at, first, last, steps, visit);
      uint32_t dim = dims_;
      while (dim > 0 && at[dim - 1] == high[dim - 1]) --dim, at[dim] = low[dim];
      if (dim == 0) return steps;
      ++at[dim - 1];
    }
  }

  size_t bytes() const;

 private:
  static constexpr uint64_t kFewNodes = 4;
  static constexpr uint32_t kChildBits = 6;
  using Masks = absl::flat_hash_map<uint64_t, uint64_t>;

  // Nodes of one size. The children of level 1 are cells.
  struct Level {
    std::array<uint8_t, kMaxDims> shift{};  // from a cell's coordinate to the node's
    std::array<uint8_t, kMaxDims> bits{};   // of a child's coordinate within the node
    std::array<uint64_t, kMaxDims> nodes{};
    Masks masks;
  };

  static uint64_t Key(const Level& level, uint32_t dims, const Cell& node) {
    uint64_t key = 0;
    for (uint32_t i = 0; i < dims; ++i) key = key * level.nodes[i] + node[i];
    return key;
  }
  uint64_t NodesBetween(uint32_t level, const Cell& first, const Cell& last) const;
  // Finds the node of that level that contains the cell, and the child's index in the node.
  void Find(uint32_t level, const Cell& cell, Cell* node, uint32_t* child) const;

  template <typename Visit>
  void Descend(uint32_t number, const Cell& node, const Cell& first, const Cell& last,
               uint64_t& steps, Visit& visit) const {
    const Level& level = levels_[number - 1];
    const auto found = level.masks.find(Key(level, dims_, node));
    if (found == level.masks.end()) return;
    // The children's coordinates are cell coordinates shifted right by the shift of the level
    // below.
    std::array<uint8_t, kMaxDims> shift{};
    if (number > 1) shift = levels_[number - 2].shift;
    for (uint64_t mask = found->second; mask != 0; mask &= mask - 1) {
      ++steps;
      auto bits = static_cast<uint32_t>(std::countr_zero(mask));
      Cell child;
      bool inside = true;
      for (uint32_t i = dims_; i-- > 0;) {
        child[i] = (node[i] << level.bits[i]) | (bits & ((1u << level.bits[i]) - 1));
        bits >>= level.bits[i];
        inside &= child[i] >= first[i] >> shift[i] && child[i] <= last[i] >> shift[i];
      }
      if (!inside) continue;
      if (number == 1) {
        visit(child);
      } else {
        Descend(number - 1, child, first, last, steps, visit);
      }
    }
  }

  uint32_t dims_;
  std::vector<Level> levels_;  // the last level has one node, the root
};

}  // namespace pto::engine
