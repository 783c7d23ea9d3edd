#include "kernels/tile.h"

#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace pto::kernels {
namespace {

template <typename T>
void LoadStrided(const T* from, int64_t stride, int64_t count, float* to) {
  for (int64_t i = 0; i < count; ++i) to[i] = Element<T>::Load(from[i * stride]);
}

template <typename T>
void StoreStrided(const float* from, int64_t count, T* to, int64_t stride) {
  for (int64_t i = 0; i < count; ++i) to[i * stride] = Element<T>::Store(from[i]);
}

// The same with a stride of 1, which the compiler vectorises.
template <typename T>
void LoadDense(const T* __restrict from, int64_t count, float* __restrict to) {
  for (int64_t i = 0; i < count; ++i) to[i] = Element<T>::Load(from[i]);
}

template <typename T>
void StoreDense(const float* __restrict from, int64_t count, T* __restrict to) {
  for (int64_t i = 0; i < count; ++i) to[i] = Element<T>::Store(from[i]);
}

#if defined(__x86_64__)

// Not every x86-64 processor has these instructions; both functions return how many elements they
// processed.
bool HaveF16c() {
  static const bool have = __builtin_cpu_supports("avx") && __builtin_cpu_supports("f16c");
  return have;
}

__attribute__((target("avx,f16c"))) int64_t LoadF16c(const F16* from, int64_t count, float* to) {
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m128i half = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i));
    _mm256_storeu_ps(to + i, _mm256_cvtph_ps(half));
  }
  return i;
}

__attribute__((target("avx,f16c"))) int64_t StoreF16c(const float* from, int64_t count, F16* to) {
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m128i half = _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i), half);
  }
  return i;
}

#endif

}  // namespace

void LoadTile(const float* from, int64_t stride, int64_t count, float* to) {
  if (stride == 1) {
    std::memcpy(to, from, static_cast<size_t>(count) * sizeof(float));
  } else {
    LoadStrided(from, stride, count, to);
  }
}

void LoadTile(const F16* from, int64_t stride, int64_t count, float* to) {
  if (stride != 1) return LoadStrided(from, stride, count, to);
  int64_t done = 0;
#if defined(__x86_64__)
  if (HaveF16c()) done = LoadF16c(from, count, to);
#endif
  LoadDense(from + done, count - done, to + done);
}

void LoadTile(const BF16* from, int64_t stride, int64_t count, float* to) {
  if (stride != 1) return LoadStrided(from, stride, count, to);
  LoadDense(from, count, to);
}

void StoreTile(const float* from, int64_t count, F16* to, int64_t stride) {
  if (stride != 1) return StoreStrided(from, count, to, stride);
  int64_t done = 0;
#if defined(__x86_64__)
  if (HaveF16c()) done = StoreF16c(from, count, to);
#endif
  StoreDense(from + done, count - done, to + done);
}

void StoreTile(const float* from, int64_t count, BF16* to, int64_t stride) {
  if (stride != 1) return StoreStrided(from, count, to, stride);
  StoreDense(from, count, to);
}

}  // namespace pto::kernels
