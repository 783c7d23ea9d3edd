#pragma once

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "runtime/base/mutex.h"
#include "runtime/engine/open_run.h"

namespace pto::testing {

// Remembers what it is told of an open run, and lets a test wait for it.
class OpenRunWatcher final : public OpenRunObserver {
 public:
  std::string name() const override { return "test"; }
  void OnRecords(absl::Span<const TaskRecord> records) override {
    MutexLock lock(mutex_);
    for (const TaskRecord& record : records) outcomes_.push_back({record.task, record.outcome});
  }
  void OnRoom() override {
    MutexLock lock(mutex_);
    changed_.NotifyAll();
  }
  void OnFinished() override {
    MutexLock lock(mutex_);
    ++finished_;
    changed_.NotifyAll();
  }

  void WaitFinished() {
    MutexLock lock(mutex_);
    while (finished_ == 0) changed_.Wait(mutex_);
  }
  template <typename Condition>
  void WaitUntil(Condition condition) {
    while (!condition()) {
      MutexLock lock(mutex_);
      changed_.WaitFor(mutex_, std::chrono::milliseconds(1));
    }
  }
  int finished() {
    MutexLock lock(mutex_);
    return finished_;
  }
  std::vector<std::pair<uint32_t, TaskOutcome>> outcomes() {
    MutexLock lock(mutex_);
    std::sort(outcomes_.begin(), outcomes_.end());
    return outcomes_;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  int finished_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<std::pair<uint32_t, TaskOutcome>> outcomes_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace pto::testing
