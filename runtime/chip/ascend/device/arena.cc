#include "runtime/chip/ascend/device/arena.h"

namespace pto::ascend {

uint32_t Arena::ClassOf(uint64_t bytes) {
  uint32_t result = 0;
  while ((kSmallest << result) < bytes) ++result;
  return result;
}

absl::optional<uint64_t> Arena::Take(uint64_t bytes) {
  if (bytes > bytes_) return absl::nullopt;
  const uint32_t size = ClassOf(bytes);
  if (size < free_.size() && !free_[size].empty()) {
    const uint64_t offset = free_[size].back();
    free_[size].pop_back();
    return offset;
  }
  const uint64_t rounded = kSmallest << size;
  if (rounded > bytes_ - used_) return absl::nullopt;
  const uint64_t offset = used_;
  used_ += rounded;
  return offset;
}

void Arena::Give(uint64_t offset, uint64_t bytes) {
  const uint32_t size = ClassOf(bytes);
  if (size >= free_.size()) free_.resize(size + 1);
  free_[size].push_back(offset);
}

void Arena::Clear() {
  used_ = 0;
  free_.clear();
}

}  // namespace pto::ascend
