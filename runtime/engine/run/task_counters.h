#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace pto {

// A counter for each task of a run, all zero at first. Many of them are pages that the system
// clears, which is cheaper than to clear what was used before and lies in no cache.
class TaskCounters {
 public:
  explicit TaskCounters(size_t count);
  ~TaskCounters();
  TaskCounters(const TaskCounters&) = delete;
  TaskCounters& operator=(const TaskCounters&) = delete;

  std::atomic<uint32_t>& operator[](size_t task) { return counters_[task]; }
  std::atomic<uint32_t>* data() { return counters_; }

 private:
  // A few tasks need no memory of their own.
  static constexpr size_t kInline = 4;
  std::atomic<uint32_t> few_[kInline] = {};
  std::atomic<uint32_t>* counters_ = few_;
  size_t mapped_bytes_ = 0;  // 0: not mapped
};

// What a task's counter says while the task waits for others: how many of them have ended, which
// its image does not have to be read for in advance, and whether one has failed.
class MetDependencies {
 public:
  enum class State { kWaits, kReady, kPoisoned };

  MetDependencies(std::atomic<uint32_t>& counter, uint32_t all) : counter_(counter), all_(all) {}

  // One more has ended. Whoever is told that it was the last sees to the task.
  State Add(bool failed) {
    if (failed) counter_.fetch_or(kFailed, std::memory_order_relaxed);
    return StateOf(counter_.fetch_add(kOne, std::memory_order_acq_rel) + kOne);
  }
  // The same where no other thread can touch the counter meanwhile, and none has failed.
  State AddAlone() {
    const uint32_t now = counter_.load(std::memory_order_relaxed) + kOne;
    counter_.store(now, std::memory_order_relaxed);
    return StateOf(now);
  }

  // Whether one has failed; only while the task waits for others.
  bool poisoned() const { return (counter_.load(std::memory_order_acquire) & kFailed) != 0; }

  // There is one more than the image knows of.
  void Expect() { counter_.fetch_sub(kOne, std::memory_order_relaxed); }
  // Which has ended, while the task cannot become ready.
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

}  // namespace pto
