#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace pto::engine {

// A counter for each task of a run, initially zero. Large arrays are mapped pages, which the system
// clears: cheaper than clearing reused memory that is not in a cache.
class TaskCounters {
 public:
  explicit TaskCounters(size_t count);
  ~TaskCounters();
  TaskCounters(const TaskCounters&) = delete;
  TaskCounters& operator=(const TaskCounters&) = delete;

  std::atomic<uint32_t>& operator[](size_t task) { return counters_[task]; }
  std::atomic<uint32_t>* data() { return counters_; }

 private:
  // A few tasks need no allocation.
  static constexpr size_t kInline = 4;
  std::atomic<uint32_t> few_[kInline] = {};
  std::atomic<uint32_t>* counters_ = few_;
  size_t mapped_bytes_ = 0;  // 0: not mapped
};

// A task's counter while the task waits for others: how many dependencies have ended, and whether
// one has failed. It counts up from zero, so the image need not be read to initialise it.
class MetDependencies {
 public:
  enum class State { kWaits, kReady, kPoisoned };

  MetDependencies(std::atomic<uint32_t>& counter, uint32_t all) : counter_(counter), all_(all) {}

  // A dependency has ended. The caller that gets a state other than kWaits must handle the task.
  State Add(bool failed) {
    if (failed) counter_.fetch_or(kFailed, std::memory_order_relaxed);
    return StateOf(counter_.fetch_add(kOne, std::memory_order_acq_rel) + kOne);
  }
  // Like Add, if no other thread can access the counter and no dependency has failed.
  State AddAlone() {
    const uint32_t now = counter_.load(std::memory_order_relaxed) + kOne;
    counter_.store(now, std::memory_order_relaxed);
    return StateOf(now);
  }

  // Whether a dependency has failed. Only valid while the task waits for others.
  bool poisoned() const { return (counter_.load(std::memory_order_acquire) & kFailed) != 0; }

  // Adds a dependency that the image does not contain.
  void Expect() { counter_.fetch_sub(kOne, std::memory_order_relaxed); }
  // Such a dependency has ended. Only while the task cannot become ready.
  void Take(bool failed) {
    if (failed) counter_.fetch_or(kFailed, std::memory_order_relaxed);
    counter_.fetch_add(kOne, std::memory_order_acq_rel);
  }

 private:
  static constexpr uint32_t kFailed = 1;
  static constexpr uint32_t kOne = 2;

  State StateOf(uint32_t now) const {
    if ((now | kFailed) != (all_ * kOne | kFailed)) return State::kWaits;
    return (now & kFailed) != 0 ? State::kPoisoned : State::kReady;
  }

  std::atomic<uint32_t>& counter_;
  const uint32_t all_;
};

}  // namespace pto::engine
