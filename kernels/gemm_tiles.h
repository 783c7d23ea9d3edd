#pragma once

#include <array>
#include <cstdint>

#include "absl/types/span.h"

namespace pto::kernels {

// A small product c = a * b, or c += a * b, whose sums stay in registers. Strides in elements.
struct Tile {
  int64_t inner;  // columns of a, rows of b
  const float* a;
  int64_t a_row;
  int64_t a_inner;
  const float* b;  // rows are contiguous
  int64_t b_inner;
  float* c;  // rows are contiguous
  int64_t c_row;
  int64_t columns;
  bool accumulate;
};

// The sum of each element starts with 0 and adds its products in the order of `inner`, each with
// one fused multiply-add if the processor has it. With `accumulate`, the sum is then added to c.
using TileFunction = void (*)(const Tile& tile);

inline constexpr int kMaxTileRows = 14;
inline constexpr int kMaxTileColumns = 32;

// The functions for tiles of all sizes, for one instruction set. The bits of the result do not
// depend on which function computes an element.
struct TileSet {
  int lanes;   // of a vector; a tile is at most two vectors wide
  int rows;    // maximum rows of a tile
  bool fused;  // products are not rounded before they are added
  // By vectors - 1 and rows - 1. In `cut`, the last vector may have fewer columns; in `whole`, it
  // is complete.
  std::array<std::array<TileFunction, kMaxTileRows>, 2> cut;
  std::array<std::array<TileFunction, kMaxTileRows>, 2> whole;

  int columns() const { return 2 * lanes; }
};

// The set for this processor.
const TileSet& BestTiles();

// All sets that this processor can execute, the best one first.
absl::Span<const TileSet* const> UsableTiles();

}  // namespace pto::kernels
