#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <utility>

#include "runtime/base/mutex.h"

namespace pto::daemon {

class RunEntry;

// Runs of the node that have failed and of which nobody has taken note yet. Thread-safe; its locks
// are held for a moment only, so that those may look who must not wait for a run.
class FailedRuns {
 public:
  // Of more than these only the number is kept.
  static constexpr size_t kMaxKept = 16;

  struct News {
    uint64_t count = 0;
    std::deque<std::shared_ptr<RunEntry>> newest;  // in the order in which they failed
  };

  // A run has failed, and this can be read from it.
  void Add(std::shared_ptr<RunEntry> run) {
    std::shared_ptr<RunEntry> dropped;  // destroyed without the lock
    {
      MutexLock lock(mutex_);
      news_.newest.push_back(std::move(run));
      if (news_.newest.size() > kMaxKept) {
        dropped = std::move(news_.newest.front());
        news_.newest.pop_front();
      }
      if (++news_.count > 1) return;
    }
    MutexLock lock(callback_mutex_);
    if (on_first_) on_first_();
  }

  uint64_t count() const {
    MutexLock lock(mutex_);
    return news_.count;
  }

  News Take() {
    MutexLock lock(mutex_);
    return std::exchange(news_, {});
  }

  // Called when there is one where there was none; from any thread. When this returns, the callback
  // before is not called any more. nullptr means none.
  void OnFirst(std::function<void()> callback) {
    MutexLock lock(callback_mutex_);
    on_first_ = std::move(callback);
  }

 private:
  mutable Mutex mutex_;
  News news_ ABSL_GUARDED_BY(mutex_);
  Mutex callback_mutex_;  // held during the call
  std::function<void()> on_first_ ABSL_GUARDED_BY(callback_mutex_);
};

}  // namespace pto::daemon
