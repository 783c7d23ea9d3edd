#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "runtime/base/mutex.h"

namespace pto::daemon {

// Open streams that must be notified when the daemon stops. Thread-safe.
class StopList {
 public:
  using Id = uint64_t;

  // `stop` is called at most once, by StopAll; immediately if that has already been called.
  Id Add(std::function<void()> stop) {
    {
      MutexLock lock(mutex_);
      if (!stopped_) {
        stops_.emplace(next_id_, std::move(stop));
        return next_id_++;
      }
    }
    stop();
    return 0;
  }

  void Remove(Id id) {
    std::function<void()> dropped;  // destroyed without the lock
    MutexLock lock(mutex_);
    auto it = stops_.find(id);
    if (it == stops_.end()) return;
    dropped = std::move(it->second);
    stops_.erase(it);
  }

  void StopAll() {
    std::map<Id, std::function<void()>> stops;
    {
      MutexLock lock(mutex_);
      stopped_ = true;
      stops.swap(stops_);
    }
    for (auto& [id, stop] : stops) stop();
  }

 private:
  Mutex mutex_;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  Id next_id_ ABSL_GUARDED_BY(mutex_) = 1;
  std::map<Id, std::function<void()>> stops_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace pto::daemon
