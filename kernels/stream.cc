#include "kernels/stream.h"

#include <cstring>

#include "kernels/dtype.h"
#include "kernels/strided.h"
#include "runtime/base/long_copy.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace pto::kernels {
namespace {

// The memory range of a view's elements: from `first` up to but not including `last`.
struct Extent {
  uintptr_t first;
  uintptr_t last;
};

// For a view that has elements.
Extent ExtentOf(const pto_tensor& tensor) {
  const auto size = static_cast<int64_t>(DtypeSize(tensor.dtype));
  int64_t lowest = 0;
  int64_t highest = 0;
  for (uint32_t d = 0; d < tensor.ndim; ++d) {
    const int64_t reach = (tensor.shape[d] - 1) * tensor.strides[d];
    (reach < 0 ? lowest : highest) += reach;
  }
  const auto start = reinterpret_cast<uintptr_t>(tensor.data);
  return {start + static_cast<uintptr_t>(lowest * size),
          start + static_cast<uintptr_t>((highest + 1) * size)};
}

}  // namespace

bool IsStreamed(const pto_tensor& out, absl::Span<const pto_tensor* const> inputs) {
  const auto size = static_cast<int64_t>(DtypeSize(out.dtype));
  if (static_cast<size_t>(ElementCount(out) * size) < kStreamBytes) return false;
  const Extent place = ExtentOf(out);
  // Otherwise no element begins on a cache line boundary.
  if (reinterpret_cast<uintptr_t>(out.data) % size != 0) return false;
  return std::none_of(inputs.begin(), inputs.end(), [&](const pto_tensor* input) {
    const Extent taken = ExtentOf(*input);
    return taken.first < place.last && place.first < taken.last;
  });
}

#if defined(__SSE2__)

void StreamLines(void* to, const void* lines, size_t bytes) {
  auto* out = static_cast<__m128i*>(to);
  const auto* in = static_cast<const __m128i*>(lines);
  for (size_t i = 0; i < bytes / sizeof(__m128i); i += 4) {
    for (size_t part = i; part < i + 4; ++part) {
      _mm_stream_si128(out + part, _mm_load_si128(in + part));
    }
  }
}

void StreamEnd() { _mm_sfence(); }

#else

void StreamLines(void* to, const void* lines, size_t bytes) { std::memcpy(to, lines, bytes); }

void StreamEnd() {}

#endif

}  // namespace pto::kernels
