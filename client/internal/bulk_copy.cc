#include "client/internal/bulk_copy.h"

#include <cstdint>
#include <optional>
#include <system_error>
#include <thread>

#include "runtime/base/long_copy.h"

namespace pto::internal {
namespace {

constexpr size_t kPage = 4096;
// memcpy is slow within this distance; measured.
constexpr size_t kNear = 1024;
// Longer data would be evicted from a CPU's own caches before it is used.
constexpr size_t kLongBytes = size_t{4} << 20;

void CopyAlone(std::byte* to, const std::byte* from, size_t bytes) {
  const size_t ahead =
      (reinterpret_cast<uintptr_t>(to) - reinterpret_cast<uintptr_t>(from)) % kPage;
  const bool near = ahead > 0 && ahead < kNear && bytes >= kPage;
  LongCopy(to, from, bytes, /*stream=*/near || bytes >= kLongBytes);
}

// A thread that copies, unless the system cannot create one.
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
