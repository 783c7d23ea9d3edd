#include "client/internal/bulk_copy.h"

#include <cstdint>
#include <cstring>
#include <optional>
#include <system_error>
#include <thread>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace pto::internal {
namespace {

constexpr size_t kPage = 4096;
// Within this distance a forward copy is slow; measured.
constexpr size_t kNear = 1024;
constexpr size_t kLine = 64;

#if defined(__SSE2__)
// From the end to the beginning, past the caches: what is this large does not fit them.
void CopyBackward(std::byte* to, const std::byte* from, size_t bytes) {
  const size_t tail = (reinterpret_cast<uintptr_t>(to) + bytes) % kLine;
  bytes -= tail;
  std::memcpy(to + bytes, from + bytes, tail);
  while (bytes >= kLine) {
    bytes -= kLine;
    const auto* const source = reinterpret_cast<const __m128i*>(from + bytes);
    auto* const target = reinterpret_cast<__m128i*>(to + bytes);
    const __m128i a = _mm_loadu_si128(source);
    const __m128i b = _mm_loadu_si128(source + 1);
    const __m128i c = _mm_loadu_si128(source + 2);
    const __m128i d = _mm_loadu_si128(source + 3);
    _mm_stream_si128(target, a);
    _mm_stream_si128(target + 1, b);
    _mm_stream_si128(target + 2, c);
    _mm_stream_si128(target + 3, d);
  }
  // Such stores are not in order with others; the next message to the daemon must come after them.
  _mm_sfence();
  std::memcpy(to, from, bytes);
}
#endif

void CopyAlone(std::byte* to, const std::byte* from, size_t bytes) {
#if defined(__SSE2__)
  const size_t ahead =
      (reinterpret_cast<uintptr_t>(to) - reinterpret_cast<uintptr_t>(from)) % kPage;
  if (ahead > 0 && ahead < kNear && bytes >= kPage) return CopyBackward(to, from, bytes);
#endif
  std::memcpy(to, from, bytes);
}

// A thread that copies, unless the system has none to give.
std::optional<std::thread> StartCopy(std::byte* to, const std::byte* from, size_t bytes) {
  try {
    return std::thread([=] { CopyAlone(to, from, bytes); });
  } catch (const std::system_error&) {
    return std::nullopt;
  }
}

}  // namespace

void BulkCopy(std::byte* to, const std::byte* from, size_t bytes) {
  if (bytes < kSharedBytes || std::thread::hardware_concurrency() < 2) {
    return CopyAlone(to, from, bytes);
  }
  const size_t first = bytes / 2 / kPage * kPage;
  std::optional<std::thread> second = StartCopy(to + first, from + first, bytes - first);
  CopyAlone(to, from, first);
  if (second.has_value()) {
    second->join();
  } else {
    CopyAlone(to + first, from + first, bytes - first);
  }
}

}  // namespace pto::internal
