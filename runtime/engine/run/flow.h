#pragma once

#include <atomic>
#include <cstdint>

#include "absl/types/span.h"

namespace pto::engine {

class Run;
struct Share;

// A link in a list of ready tasks: the next task. Changed under the lock of the list's queue and
// read without it to explain runs. Not initialised, because a run has one for each task.
class ReadyLink {
 public:
  void Set(uint32_t task) { __atomic_store_n(&task_, task, __ATOMIC_RELAXED); }
  uint32_t Get() const { return __atomic_load_n(&task_, __ATOMIC_RELAXED); }

 private:
  uint32_t task_;
};

// The ready tasks of one run for one kind of core of one chip, in order. Tasks that are ready from
// the start may be a span of the image, so that queueing many takes constant time. The others are a
// list through the run's array, so that queueing a task allocates nothing. Also a node in the ring
// of its account's flows, which take turns. Guarded by the lock of the chip's ReadyQueue.
struct Flow {
  static constexpr uint32_t kNone = 0xffffffff;
  Run* run = nullptr;
  absl::Span<const uint32_t> roots;  // served before the list; plain tasks of one block
  uint32_t head = kNone;             // of the list
  uint32_t tail = kNone;
  uint32_t first_block = 0;  // next block of the first task to hand out
  Share* share = nullptr;    // of the run's account; set only while there are tasks
  Flow* previous = nullptr;
  Flow* next = nullptr;

  // For readers without the lock: the number of waiting tasks, and the first of them.
  std::atomic<uint32_t> shown_count{0};
  std::atomic<uint32_t> shown_first{kNone};

  bool empty() const { return head == kNone && roots.empty(); }
  // Must be called after each change, with the change of the number of tasks.
  void Show(int64_t more) {
    shown_count.store(static_cast<uint32_t>(shown_count.load(std::memory_order_relaxed) + more),
                      std::memory_order_relaxed);
    shown_first.store(empty() ? kNone : first(), std::memory_order_relaxed);
  }
  // Must not be empty.
  uint32_t first() const { return roots.empty() ? head : roots.front(); }
};

// Flows with ready tasks, which take turns.
class FlowRing {
 public:
  bool empty() const { return current_ == nullptr; }
  Flow* current() const { return current_; }
  void Rotate() { current_ = current_->next; }

  // Adds a flow that is served after all others.
  void Add(Flow& flow) {
    if (current_ == nullptr) {
      flow.previous = flow.next = &flow;
      current_ = &flow;
      return;
    }
    flow.next = current_;
    flow.previous = current_->previous;
    flow.previous->next = &flow;
    flow.next->previous = &flow;
  }

  void Remove(Flow& flow) {
    if (flow.next == &flow) {
      current_ = nullptr;
    } else {
      flow.previous->next = flow.next;
      flow.next->previous = flow.previous;
      if (current_ == &flow) current_ = flow.next;
    }
    flow.previous = flow.next = nullptr;
  }

 private:
  Flow* current_ = nullptr;
};

}  // namespace pto::engine
