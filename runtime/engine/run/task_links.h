#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

namespace pto::engine {

class Run;

// The tasks of later runs that wait for tasks of this run. A waiter can be added at any time. When
// a task ends, its waiters are taken, and Add returns from then on how it ended. Thread-safe and
// lock-free: 8 bytes for each task.
class TaskLinks {
 public:
  enum class End : uintptr_t { kNone = 0, kDone = 1, kFailed = 2 };
  // A task of another run.
  struct Waiter {
    std::shared_ptr<Run> run;
    uint32_t task = 0;
  };

  explicit TaskLinks(uint32_t tasks);
  ~TaskLinks();
  TaskLinks(const TaskLinks&) = delete;
  TaskLinks& operator=(const TaskLinks&) = delete;

  // Returns kNone if the waiter was added. Otherwise the task has ended and nothing was added.
  End Add(uint32_t task, Waiter waiter);
  // The task has ended. Returns its waiters, the last one first. Only the first call has an effect.
  std::vector<Waiter> Close(uint32_t task, End end);
  // How the task has ended; kNone: it has not.
  End end(uint32_t task) const {
    const uintptr_t head = heads_[task].load(std::memory_order_acquire);
    return IsEnd(head) ? static_cast<End>(head) : End::kNone;
  }

 private:
  struct Node {
    Waiter waiter;
    uintptr_t next = 0;
  };
  static bool IsEnd(uintptr_t head) {
    return head == static_cast<uintptr_t>(End::kDone) ||
           head == static_cast<uintptr_t>(End::kFailed);
  }

  const uint32_t tasks_;
  // For each task: how it ended, or the first node of its list of waiters.
  const std::unique_ptr<std::atomic<uintptr_t>[]> heads_;
};

}  // namespace pto::engine
