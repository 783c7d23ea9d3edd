#include "runtime/chip/ascend/fault_backoff.h"

#include <algorithm>

namespace pto::ascend {

absl::Duration FaultBackoff::Note(int64_t now_ns) {
  if (next_ == absl::ZeroDuration() || now_ns - last_ns_ > absl::ToInt64Nanoseconds(kQuiet)) {
    next_ = first_;
  }
  last_ns_ = now_ns;
  const absl::Duration pause = std::min(next_, longest_);
  next_ = std::min(2 * next_, longest_);
  return pause;
}

}  // namespace pto::ascend
