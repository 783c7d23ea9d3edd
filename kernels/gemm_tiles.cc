#include "kernels/gemm_tiles.h"

#include <utility>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace pto::kernels {
namespace {

#if defined(__x86_64__)

namespace avx512 {
#define PTO_TARGET __attribute__((target("avx512f")))
#define PTO_LANES 16
#define PTO_ROWS 14
#define PTO_FUSED true
#define PTO_VECTOR __m512
#define PTO_MASK __mmask16
#define PTO_MASK_OF(count) static_cast<__mmask16>((1u << (count)) - 1)
#define PTO_ZERO _mm512_setzero_ps()
#define PTO_LOAD(p) _mm512_loadu_ps(p)
#define PTO_LOAD_SOME(mask, p) _mm512_maskz_loadu_ps(mask, p)
#define PTO_STORE(p, v) _mm512_storeu_ps(p, v)
#define PTO_STORE_SOME(mask, p, v) _mm512_mask_storeu_ps(p, mask, v)
#define PTO_SAME(x) _mm512_set1_ps(x)
#define PTO_ADD_UP(a, b) _mm512_add_ps(a, b)
#define PTO_MULTIPLY_ADD(a, b, sum) _mm512_fmadd_ps(a, b, sum)
#include "kernels/gemm_tile.inc"
}  // namespace avx512

namespace avx2 {
// The first `count` (at most eight) numbers have the sign bit set, which the masked instructions
// test.
alignas(32) constexpr int32_t kSigns[16] = {-1, -1, -1, -1, -1, -1, -1, -1};
#define PTO_TARGET __attribute__((target("avx2,fma")))
#define PTO_LANES 8
#define PTO_ROWS 6
#define PTO_FUSED true
#define PTO_VECTOR __m256
#define PTO_MASK __m256i
#define PTO_MASK_OF(count) \
  _mm256_loadu_si256(reinterpret_cast<const __m256i*>(kSigns + 8 - (count)))
#define PTO_ZERO _mm256_setzero_ps()
#define PTO_LOAD(p) _mm256_loadu_ps(p)
#define PTO_LOAD_SOME(mask, p) _mm256_maskload_ps(p, mask)
#define PTO_STORE(p, v) _mm256_storeu_ps(p, v)
#define PTO_STORE_SOME(mask, p, v) _mm256_maskstore_ps(p, mask, v)
#define PTO_SAME(x) _mm256_set1_ps(x)
#define PTO_ADD_UP(a, b) _mm256_add_ps(a, b)
#define PTO_MULTIPLY_ADD(a, b, sum) _mm256_fmadd_ps(a, b, sum)
#include "kernels/gemm_tile.inc"
}  // namespace avx2

#endif

// For all other processors, with portable vectors.
namespace plain {
using Vector = float __attribute__((vector_size(16)));

inline Vector Load(const float* from, int64_t count) {
  Vector vector = {};
  for (int64_t i = 0; i < count; ++i) vector[i] = from[i];
  return vector;
}

inline void Store(float* to, const Vector& vector, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i] = vector[i];
}

#if defined(__FP_FAST_FMAF)
constexpr bool kFused = true;
inline Vector MultiplyAdd(const Vector& a, const Vector& b, const Vector& sum) {
  Vector result;
  for (int i = 0; i < 4; ++i) result[i] = __builtin_fmaf(a[i], b[i], sum[i]);
  return result;
}
#else
constexpr bool kFused = false;
inline Vector MultiplyAdd(const Vector& a, const Vector& b, const Vector& sum) {
  return sum + a * b;
}
#endif

#define PTO_TARGET
#define PTO_LANES 4
#define PTO_ROWS 4
#define PTO_FUSED kFused
#define PTO_VECTOR Vector
#define PTO_MASK int64_t
#define PTO_MASK_OF(count) (count)
#define PTO_ZERO \
  Vector {}
#define PTO_LOAD(p) Load(p, 4)
#define PTO_LOAD_SOME(mask, p) Load(p, mask)
#define PTO_STORE(p, v) Store(p, v, 4)
#define PTO_STORE_SOME(mask, p, v) Store(p, v, mask)
#define PTO_SAME(x) (Vector{} + (x))
#define PTO_ADD_UP(a, b) ((a) + (b))
#define PTO_MULTIPLY_ADD(a, b, sum) MultiplyAdd(a, b, sum)
#include "kernels/gemm_tile.inc"
}  // namespace plain

std::vector<const TileSet*> FindUsable() {
  std::vector<const TileSet*> usable;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) usable.push_back(&avx512::kTiles);
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    usable.push_back(&avx2::kTiles);
  }
#endif
  usable.push_back(&plain::kTiles);
  return usable;
}

}  // namespace

absl::Span<const TileSet* const> UsableTiles() {
  static const std::vector<const TileSet*>* const usable =
      new std::vector<const TileSet*>(FindUsable());
  return *usable;
}

const TileSet& BestTiles() {
  static const TileSet* const best = UsableTiles().front();
  return *best;
}

}  // namespace pto::kernels
