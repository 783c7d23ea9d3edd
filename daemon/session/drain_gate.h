#pragma once

#include <atomic>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "runtime/base/error.h"
#include "runtime/base/mutex.h"

namespace pto::daemon {

// Open until the node drains. Sessions check it with their lock before they let a run in, so a
// thread that closes it and then takes a session's lock sees all runs of that session.
// Thread-safe.
class DrainGate {
 public:
  // Returns whether it was open. Only the first reason counts.
  bool Close(absl::string_view reason) {
    MutexLock lock(mutex_);
    if (closed()) return false;
    reason_ = std::string(reason);
    closed_.store(true, std::memory_order_release);
    return true;
  }

  bool closed() const { return closed_.load(std::memory_order_acquire); }

  // NODE_DRAINING when closed.
  absl::Status Check() const {
    if (!closed()) return absl::OkStatus();
    MutexLock lock(mutex_);
    return Error(reason::kNodeDraining,
                 absl::StrCat("the node takes no new work",
                              reason_.empty() ? "" : absl::StrCat(": ", reason_)))
        .With("why", reason_);
  }

 private:
  std::atomic<bool> closed_{false};
  mutable Mutex mutex_;
  std::string reason_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace pto::daemon
