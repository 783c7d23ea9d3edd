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
  const float* b;  // the columns of a row lie side by side
  int64_t b_inner;
  float* c;  // here too
  int64_t c_row;
  int64_t columns;
  bool accumulate;
};

// Each element's sum begins with 0, and takes its products in the order of `inner`, each by one
// fused multiply-add where the processor has it. With `accumulate`, the sum is then added to c.
using TileFunction = void (*)(const Tile& tile);

inline constexpr int kMaxTileRows = 14;
inline constexpr int kMaxTileColumns = 32;

// The functions for tiles of all sizes, for one instruction set. The bits of the result do not
// depend on which function computes an element.
struct TileSet {
  int lanes;   // of a vector; a tile has at most two side by side
  int rows;    // most that a tile has
  bool fused;  // a product is not rounded before it is added
  // By vectors - 1 and rows - 1: the last vector may have fewer columns, or has all of them.
  std::array<std::array<TileFunction, kMaxTileRows>, 2> cut;
  std::array<std::array<TileFunction, kMaxTileRows>, 2> whole;

  int columns() const { return 2 * lanes; }
};

// The one for the processor that this runs on.
const TileSet& BestTiles();

// All that this processor can execute, the best one first.
absl::Span<const TileSet* const> UsableTiles();

}  // namespace pto::kernels
