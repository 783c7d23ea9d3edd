#pragma once

#include <cstdint>

#include "absl/time/time.h"

namespace pto::ascend {

// How long to wait after a fault of a chip before it is tried again: doubles with each fault, up to
// a maximum, and is forgotten when there was none for a minute. Not thread-safe.
class FaultBackoff {
 public:
  static constexpr absl::Duration kQuiet = absl::Minutes(1);

  FaultBackoff(absl::Duration first, absl::Duration longest) : first_(first), longest_(longest) {}

  // A fault has happened. Returns the pause after it.
  absl::Duration Note(int64_t now_ns);

 private:
  const absl::Duration first_;
  const absl::Duration longest_;
  absl::Duration next_ = absl::ZeroDuration();
  int64_t last_ns_ = 0;
};

}  // namespace pto::ascend
