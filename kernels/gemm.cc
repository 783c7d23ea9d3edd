#include "kernels/gemm.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <new>

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

namespace pto::kernels {
namespace {

using Input = Matrix<const float>;
using Output = Matrix<float>;

// The packed part of b stays in the second and third level caches, the packed part of a in the
// second.
constexpr int64_t kPackedColumns = 1024;
constexpr int64_t kPackedRows = 112;
// An operand is packed if c has more columns, or rows, than this in the other direction. Otherwise
// it is used too rarely to make up for the packing.
constexpr int64_t kMostUnpacked = 192;
// Rows that are a multiple of this many bytes apart compete for the same places in the first-level
// cache.
constexpr int64_t kCacheWay = 4096;
// This many of them fit.
constexpr int64_t kCacheWays = 8;

// A thread's memory for packing; kept, because allocating it costs more than a small product.
class Scratch {
 public:
  // At least this many floats, aligned to a cache line; nullptr if there is no memory.
  float* Get(int64_t count) {
    if (count > size_) {
      memory_.reset();
      size_ = 0;
      memory_.reset(static_cast<float*>(
          ::operator new(static_cast<size_t>(count) * sizeof(float), kLine, std::nothrow)));
      if (memory_ == nullptr) return nullptr;
      size_ = count;
    }
    return memory_.get();
  }

 private:
  static constexpr std::align_val_t kLine{64};
  struct Free {
    void operator()(float* memory) const { ::operator delete(memory, kLine); }
  };
  std::unique_ptr<float, Free> memory_;
  int64_t size_ = 0;
};

// to[i * width + j] = from[i, j]; columns up to `width` become 0.
void PackRows(const Input& from, int64_t width, float* to) {
  for (int64_t i = 0; i < from.rows; ++i, to += width) {
    const float* const row = from.data + i * from.row_stride;
    if (from.column_stride == 1) {
      std::memcpy(to, row, static_cast<size_t>(from.columns) * sizeof(float));
    } else {
      for (int64_t j = 0; j < from.columns; ++j) to[j] = row[j * from.column_stride];
    }
    std::fill(to + from.columns, to + width, 0.0f);
  }
}

// The same for a column-major matrix: in squares, so that whole cache lines are used on both sides.
void PackColumns(const Input& from, int64_t width, float* to) {
  int64_t i = 0;
#if defined(__SSE__)
  const int64_t step = from.column_stride;
  for (; i + 4 <= from.rows; i += 4) {
    const float* column = from.data + i;
    float* const rows = to + i * width;
    int64_t j = 0;
    for (; j + 4 <= from.columns; j += 4, column += 4 * step) {
      __m128 r0 = _mm_loadu_ps(column);
      __m128 r1 = _mm_loadu_ps(column + step);
      __m128 r2 = _mm_loadu_ps(column + 2 * step);
      __m128 r3 = _mm_loadu_ps(column + 3 * step);
      _MM_TRANSPOSE4_PS(r0, r1, r2, r3);
      _mm_storeu_ps(rows + j, r0);
      _mm_storeu_ps(rows + j + width, r1);
      _mm_storeu_ps(rows + j + 2 * width, r2);
      _mm_storeu_ps(rows + j + 3 * width, r3);
    }
    for (int64_t r = 0; r < 4; ++r) {
      float* const row = rows + r * width;
      for (int64_t rest = j; rest < from.columns; ++rest) {
        row[rest] = from.data[i + r + rest * step];
      }
      std::fill(row + from.columns, row + width, 0.0f);
    }
  }
#endif
  PackRows(from.Block(i, 0, from.rows - i, from.columns), width, to + i * width);
}

void Pack(const Input& from, int64_t width, float* to) {
  if (from.row_stride == 1 && from.column_stride != 1) {
    PackColumns(from, width, to);
  } else {
    PackRows(from, width, to);
  }
}

// The stride of a dimension of size 1 is arbitrary and must not be added to a pointer.
template <typename T>
Matrix<T> WithUsableStrides(Matrix<T> matrix) {
  if (matrix.rows == 1) matrix.row_stride = 1;
  if (matrix.columns == 1) matrix.column_stride = 1;
  return matrix;
}

int64_t DivideUp(int64_t a, int64_t b) { return (a + b - 1) / b; }

// One stretch of a product: a has at most kGemmStretch columns.
class Stretch {
 public:
  Stretch(const TileSet& tiles, const Input& a, const Input& b, const Output& c, bool accumulate,
          WorkMeter& meter)
      : tiles_(tiles), a_(a), b_(b), c_(c), accumulate_(accumulate), meter_(meter) {
    // Tiles of similar height avoid a nearly empty last tile.
    int64_t most = tiles.rows;
    if (!PacksA() && a.row_stride * static_cast<int64_t>(sizeof(float)) % kCacheWay == 0) {
      most = std::min(most, kCacheWays);
    }
    height_ = DivideUp(a.rows, DivideUp(a.rows, most));
  }

  bool Run() {
    const int64_t step = PacksB() ? kPackedColumns : c_.columns;
    for (int64_t column = 0; column < c_.columns; column += step) {
      if (!RunColumns(column, std::min(step, c_.columns - column))) return false;
    }
    return true;
  }

 private:
  // Whether the tiles use a packed copy of the operand, or the operand itself.
  bool PacksA() const {
    return c_.columns > kMostUnpacked || (a_.column_stride != 1 && a_.row_stride != 1);
  }
  bool PacksB() const { return b_.column_stride != 1 || c_.rows > kMostUnpacked; }

  // The work of packing so many elements, which may be far from each other.
  static int64_t PackWork(int64_t elements) { return 4 * elements; }
  // The work of multiplying: a few products at a time, if the operands come from the caches.
  int64_t TileWork(int64_t rows, int64_t columns) const {
    return a_.columns * (WorkMeter::kFar / 2 + rows * columns / 16);
  }

  bool RunColumns(int64_t column, int64_t columns) {
    static thread_local Scratch scratch;
    const int64_t width = tiles_.columns();
    float* packed = nullptr;
    if (PacksB()) {
      packed = scratch.Get(DivideUp(columns, width) * width * a_.columns);
      if (packed == nullptr) return false;
      for (int64_t at = 0; at < columns; at += width) {
        const int64_t count = std::min(width, columns - at);
        if (!meter_.Spend(PackWork(b_.rows * count))) return false;
        Pack(b_.Block(0, column + at, b_.rows, count), width, packed + at * a_.columns);
      }
    }
    const int64_t step = std::max<int64_t>(kPackedRows / height_, 1) * height_;
    for (int64_t row = 0; row < c_.rows; row += step) {
      const int64_t rows = std::min(step, c_.rows - row);
      if (!RunRows(row, rows, column, columns, packed)) return false;
    }
    return true;
  }

  bool RunRows(int64_t row, int64_t rows, int64_t column, int64_t columns, const float* packed_b) {
    static thread_local Scratch scratch;
    Tile tile;
    tile.inner = a_.columns;
    tile.accumulate = accumulate_;
    tile.a_row = a_.row_stride;
    tile.a_inner = a_.column_stride;
    const float* packed_a = nullptr;
    if (PacksA()) {
      float* const to = scratch.Get(DivideUp(rows, height_) * height_ * a_.columns);
      if (to == nullptr) return false;
      for (int64_t at = 0; at < rows; at += height_) {
        const int64_t count = std::min(height_, rows - at);
        if (!meter_.Spend(PackWork(count * a_.columns))) return false;
        Pack(a_.Block(row + at, 0, count, a_.columns).Transposed(), height_, to + at * a_.columns);
      }
      packed_a = to;
      tile.a_row = 1;
      tile.a_inner = height_;
    }
    const int64_t width = tiles_.columns();
    for (int64_t j = 0; j < columns; j += width) {
      tile.columns = std::min(width, columns - j);
      if (!meter_.Spend(TileWork(rows, tile.columns))) return false;
      tile.b = packed_b != nullptr ? packed_b + j * a_.columns
                                   : b_.data + (column + j) * b_.column_stride;
      tile.b_inner = packed_b != nullptr ? width : b_.row_stride;
      for (int64_t i = 0; i < rows; i += height_) {
        tile.a =
            packed_a != nullptr ? packed_a + i * a_.columns : a_.data + (row + i) * a_.row_stride;
        RunTile(tile, c_.Block(row + i, column + j, std::min(height_, rows - i), tile.columns));
      }
    }
    return true;
  }

  void RunTile(Tile& tile, const Output& c) const {
    const int vectors = c.columns > tiles_.lanes ? 2 : 1;
    const bool whole = c.columns == vectors * tiles_.lanes;
    const TileFunction multiply = (whole ? tiles_.whole : tiles_.cut)[vectors - 1][c.rows - 1];
    if (c.column_stride == 1) {
      tile.c = c.data;
      tile.c_row = c.row_stride;
      multiply(tile);
      return;
    }
    float sums[kMaxTileRows * kMaxTileColumns];
    tile.c = sums;
    tile.c_row = tiles_.columns();
    for (int64_t i = 0; accumulate_ && i < c.rows; ++i) {
      for (int64_t j = 0; j < c.columns; ++j) {
        sums[i * tile.c_row + j] = c.data[i * c.row_stride + j * c.column_stride];
      }
    }
    multiply(tile);
    for (int64_t i = 0; i < c.rows; ++i) {
      for (int64_t j = 0; j < c.columns; ++j) {
        c.data[i * c.row_stride + j * c.column_stride] = sums[i * tile.c_row + j];
      }
    }
  }

  const TileSet& tiles_;
  const Input a_;
  const Input b_;
  const Output c_;
  const bool accumulate_;
  WorkMeter& meter_;
  int64_t height_;  // of the tiles
};

}  // namespace

bool GemmF32(const TileSet& tiles, const Input& any_a, const Input& any_b, const Output& any_c,
             bool accumulate, WorkMeter& meter) {
  const Input a = WithUsableStrides(any_a);
  const Input b = WithUsableStrides(any_b);
  const Output c = WithUsableStrides(any_c);
  // Vectors run along the rows of c, and so of b. If these are short, and the columns of a or c are
  // contiguous, computing the transposed product is faster. The result is the same, because
  // products of two numbers commute.
  const bool few_columns = c.columns < tiles.lanes && c.columns < c.rows && a.column_stride != 1;
  const bool has_columns_in_one_piece =
      c.rows >= tiles.lanes && c.row_stride == 1 && c.column_stride != 1;
  const bool turned = few_columns || has_columns_in_one_piece;
  const Input left = turned ? b.Transposed() : a;
  const Input right = turned ? a.Transposed() : b;
  const Output out = turned ? c.Transposed() : c;
  for (int64_t k = 0; k < left.columns; k += kGemmStretch) {
    const int64_t count = std::min(kGemmStretch, left.columns - k);
    Stretch stretch(tiles, left.Block(0, k, left.rows, count),
                    right.Block(k, 0, count, right.columns), out, accumulate || k > 0, meter);
    if (!stretch.Run()) return false;
  }
  return true;
}

bool GemmF32(const Input& a, const Input& b, const Output& c, bool accumulate, WorkMeter& meter) {
  return GemmF32(BestTiles(), a, b, c, accumulate, meter);
}

}  // namespace pto::kernels
