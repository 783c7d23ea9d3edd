#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/optional.h"

namespace pto::ascend {

// Parts of one piece of memory, whose sizes are powers of two: taken and given back in constant
// time. Not thread-safe.
class Arena {
 public:
  static constexpr uint64_t kSmallest = 1024;

  explicit Arena(uint64_t bytes) : bytes_(bytes) {}

  // The offset of a part; nullopt: there is no room now.
  absl::optional<uint64_t> Take(uint64_t bytes);
  void Give(uint64_t offset, uint64_t bytes);
  void Clear();

 private:
  static uint32_t ClassOf(uint64_t bytes);

  const uint64_t bytes_;
  uint64_t used_ = 0;  // what was never taken is behind it
  std::vector<std::vector<uint64_t>> free_;
};

}  // namespace pto::ascend
