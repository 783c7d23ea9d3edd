#pragma once

#include <cstdint>

namespace pto {

class Run;
struct Share;

// The ready tasks of one run for one kind of core of one chip, in order. A list through the
// run's own array, so that queueing a task allocates nothing; and a node in the ring of flows of
// one account, which are served in turn. Guarded by the lock of the chip's ReadyQueue.
struct Flow {
  static constexpr uint32_t kNone = 0xffffffff;
  Run* run = nullptr;
  uint32_t head = kNone;
  uint32_t tail = kNone;
  uint32_t head_block = 0;  // next block of the head task to hand out
  Share* share = nullptr;   // of the run's account; only while there are tasks
  Flow* previous = nullptr;
  Flow* next = nullptr;

  bool empty() const { return head == kNone; }
};

// Flows that have something to hand out, served in turn.
class FlowRing {
 public:
  bool empty() const { return current_ == nullptr; }
  Flow* current() const { return current_; }
  void Rotate() { current_ = current_->next; }

  // Adds as the last one to be served.
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

}  // namespace pto
