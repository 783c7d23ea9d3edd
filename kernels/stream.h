#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "kernels/pto_kernel.h"

// Stores of long outputs, past the caches. A store of the ordinary kind reads the line first that
// it is about to replace, and pushes another one out: a third of the memory's time for nothing.
namespace pto::kernels {

// Whether to store `out` in this way: it is so long that its beginning would have left the caches
// before anybody looks, and no input lies in its place, whose lines would be there anyway.
bool IsStreamed(const pto_tensor& out, absl::Span<const pto_tensor* const> inputs);

// Copies whole lines from the caches to what lies on a line's boundary. Others see them after
// StreamEnd() only.
void StreamLines(void* to, const void* lines, size_t bytes);
void StreamEnd();

inline constexpr size_t kLineBytes = 64;

// Stores elements 0 to `count` of a run that has no gaps. `compute(first, count, to)` writes
// elements number `first` to first + count to where it is told, which need not be in `out`.
template <typename T, typename Compute>
void StreamRun(T* out, int64_t count, Compute compute) {
  constexpr int64_t kTile = 1024 / sizeof(T);
  // What is short is done sooner than it is taken apart.
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
