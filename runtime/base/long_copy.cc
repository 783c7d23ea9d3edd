#include "runtime/base/long_copy.h"

#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace pto {
namespace {

#if defined(__x86_64__)

bool HaveAvx() {
  static const bool have = __builtin_cpu_supports("avx");
  return have;
}

// `to` must be aligned to 32 bytes. Returns the number of bytes copied.
__attribute__((target("avx"))) size_t StreamAvx(char* to, const char* from, size_t bytes) {
  size_t i = 0;
  for (; i + 128 <= bytes; i += 128) {
    const auto* in = reinterpret_cast<const __m256i*>(from + i);
    auto* out = reinterpret_cast<__m256i*>(to + i);
    const __m256i a = _mm256_loadu_si256(in);
    const __m256i b = _mm256_loadu_si256(in + 1);
    const __m256i c = _mm256_loadu_si256(in + 2);
    const __m256i d = _mm256_loadu_si256(in + 3);
    _mm256_stream_si256(out, a);
    _mm256_stream_si256(out + 1, b);
    _mm256_stream_si256(out + 2, c);
    _mm256_stream_si256(out + 3, d);
  }
  _mm_sfence();
  return i;
}

#endif

}  // namespace

void LongCopy(void* to, const void* from, size_t bytes, bool stream) {
  auto* out = static_cast<char*>(to);
  const auto* in = static_cast<const char*>(from);
#if defined(__x86_64__)
  if (stream && bytes >= 4096 && HaveAvx()) {
    const size_t head = -reinterpret_cast<uintptr_t>(out) % 32;
    std::memcpy(out, in, head);
    const size_t done = head + StreamAvx(out + head, in + head, bytes - head);
    out += done;
    in += done;
    bytes -= done;
  }
#endif
  std::memcpy(out, in, bytes);
}

}  // namespace pto
