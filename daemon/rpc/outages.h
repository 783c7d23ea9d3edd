#pragma once

#include <cstdint>
#include <deque>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "runtime/base/mutex.h"

namespace pto::daemon::rpc {

// When calls were not served although the daemon was there: the polling thread did not return, or
// the whole process did not run. Clients could not renew their leases then. Times are those of
// Clock::NowNanos. Thread-safe.
class Outages {
 public:
  // No call has been served since.
  void Began(int64_t since_ns);
  // Calls are served again. Does nothing if none began.
  void Ended(int64_t now_ns);
  // What should have happened at `due_ns` happens now. If that is late, the process did not run.
  void NoteTimer(int64_t due_ns, int64_t now_ns);

  // For how long since then calls were not served. After an outage clients have some time to get
  // their calls through, which counts too.
  int64_t Since(int64_t since_ns, int64_t now_ns) const;

 private:
  static constexpr int64_t kSecond = 1'000'000'000;
  // A busy machine is no outage.
  static constexpr int64_t kLateNs = kSecond;
  static constexpr int64_t kGraceNs = kSecond;
  static constexpr size_t kRemembered = 64;

  void Remember(int64_t from_ns, int64_t to_ns) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable Mutex mutex_;
  int64_t open_since_ns_ ABSL_GUARDED_BY(mutex_) = 0;  // 0: not open
  // The newest, in order, without overlap.
  std::deque<std::pair<int64_t, int64_t>> past_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace pto::daemon::rpc
