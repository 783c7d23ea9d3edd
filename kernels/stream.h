#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "kernels/pto_kernel.h"

// Stores long outputs past the caches. An ordinary store first reads the line that it will
// overwrite, and evicts another one: a third of the memory bandwidth is wasted.
namespace pto::kernels {

// Whether to store `out` this way: it is so long that its beginning would be evicted before it is
// used, and no input shares its memory (then the lines would be in the caches anyway).
bool IsStreamed(const pto_tensor& out, absl::Span<const pto_tensor* const> inputs);

// Copies whole lines from the caches to an address on a line boundary. They become visible to other
// threads only after StreamEnd().
void StreamLines(void* to, const void* lines, size_t bytes);
void StreamEnd();

inline constexpr size_t kLineBytes = 64;

// Stores `count` elements of a contiguous run. `compute(first, count, to)` writes elements [first,
// first + count) to `to`, which need not be in `out`.
template <typename T, typename Compute>
void StreamRun(T* out, int64_t count, Compute compute) {
  constexpr int64_t kTile = 1024 / sizeof(T);
  // For short runs, splitting costs more than it saves.
  if (count < 4 * kTile) {
    compute(int64_t{0}, count, out);
    return;
  }
  const size_t to_line = -reinterpret_cast<uintptr_t>(out) % kLineBytes;
  int64_t at = std::min<int64_t>(count, to_line / sizeof(T));
  compute(int64_t{0}, at, out);
  alignas(kLineBytes) T tile[kTile];
  for (; at + kTile <= count; at += kTile) {
    compute(at, kTile, tile);
    StreamLines(out + at, tile, sizeof(tile));
  }
  compute(at, count - at, out + at);
  StreamEnd();
}

}  // namespace pto::kernels
