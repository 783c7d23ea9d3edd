#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/mutex.h"
#include "runtime/engine/open_run.h"

namespace pto::engine::testing {

// Records the progress of an open run, and lets a test wait for it.
class OpenRunWatcher final : public OpenRunObserver {
 public:
  std::string name() const override { return "test"; }
  void OnRecords(size_t) override { records_told_.fetch_add(1, std::memory_order_relaxed); }
  void OnSegmentEnded(uint32_t, const Run&, Completions&) override {
    MutexLock lock(mutex_);
    changed_.NotifyAll();
  }
  void OnFinished(Completions&) override {
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
  // How many times it was notified of records.
  int records_told() const { return records_told_.load(std::memory_order_relaxed); }

 private:
  Mutex mutex_;
  CondVar changed_;
  int finished_ ABSL_GUARDED_BY(mutex_) = 0;
  std::atomic<int> records_told_{0};
};

// The tasks whose records wait, and how they ended, in order.
inline std::vector<std::pair<uint32_t, TaskOutcome>> TakeOutcomes(OpenRun& run) {
  std::vector<std::pair<uint32_t, TaskOutcome>> outcomes;
  for (const RecordBlock& block : run.TakeRecords()) {
    for (size_t i = 0; i < block.count; ++i) {
      outcomes.emplace_back(block.records[i].task, block.records[i].outcome);
    }
  }
  std::sort(outcomes.begin(), outcomes.end());
  return outcomes;
}

}  // namespace pto::engine::testing
