#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/mutex.h"

namespace pto::soak {

// The names of the newest runs that have succeeded: a restarted daemon must know them. Thread-safe.
class Remembered {
 public:
  void Add(std::string run) {
    MutexLock lock(mutex_);
    runs_.push_back(std::move(run));
    if (runs_.size() > kKept) runs_.pop_front();
  }
  std::vector<std::string> Take() {
    MutexLock lock(mutex_);
    std::vector<std::string> runs(runs_.begin(), runs_.end());
    runs_.clear();
    return runs;
  }

 private:
  static constexpr size_t kKept = 40;
  Mutex mutex_;
  std::deque<std::string> runs_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace pto::soak
