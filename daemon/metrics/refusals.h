#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "runtime/base/error.h"
#include "runtime/base/mutex.h"

namespace pto::daemon::metrics {

// Counts requests that were refused because a limit was reached, by reason. Thread-safe.
class Refusals {
 public:
  using Counts = std::map<std::string, uint64_t>;

  // For items within a call, such as launches on a stream: the call succeeds although items were
  // refused. A process has one daemon.
  static Refusals& InStreams() {
    static Refusals refusals;
    return refusals;
  }

  // Counts the error if it is such a refusal.
  void Count(const absl::Status& status) {
    if (status.code() != absl::StatusCode::kResourceExhausted) return;
    std::string reason(ReasonOf(status));
    MutexLock lock(mutex_);
    ++counts_[std::move(reason)];
  }

  Counts Look() const {
    MutexLock lock(mutex_);
    return counts_;
  }

 private:
  mutable Mutex mutex_;
  Counts counts_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace pto::daemon::metrics
