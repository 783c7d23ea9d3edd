#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

namespace pto {

class Run;

// Those outside of a run that wait for its tasks: tasks of other runs, which came later. A waiter
// is added at any time; when the task ends, its waiters are taken, and from then on whoever comes
// is told how it ended. Thread-safe and without locks: 8 bytes for each task.
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

  // Returns kNone when the waiter was added. Else the task has ended, and nothing was added.
  End Add(uint32_t task, Waiter waiter);
  // The task has ended. Returns who waited for it, the last one first. Of several calls only the
  // first one counts.
  std::vector<Waiter> Close(uint32_t task, End end);
  // How the task has ended, if it has.
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
  // Of each task: how it ended, or the first node of a list.
  const std::unique_ptr<std::atomic<uintptr_t>[]> heads_;
};

}  // namespace pto
