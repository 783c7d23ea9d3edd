#include "runtime/engine/ready_queue.h"

namespace pto {

void ReadyQueue::Push(Run& run, uint32_t chip, absl::Span<const uint32_t> tasks) {
  MutexLock lock(mutex_);
  for (const uint32_t task : tasks) {
    const auto kind = static_cast<pto_core>(run.image().tasks()[task].core);
    Flow& flow = run.flow(chip, kind);
    run.next_ready_[task] = Flow::kNone;
    if (flow.empty()) {
      flow.head = flow.tail = task;
      flow.head_block = 0;
      ring(kind).Add(flow);
    } else {
      run.next_ready_[flow.tail] = task;
      flow.tail = task;
    }
  }
  ready_.fetch_add(static_cast<uint32_t>(tasks.size()), std::memory_order_release);
}

void ReadyQueue::PopHead(Flow& flow, pto_core kind) {
  flow.head = flow.run->next_ready_[flow.head];
  flow.head_block = 0;
  if (flow.empty()) ring(kind).Remove(flow);
  ready_.fetch_sub(1, std::memory_order_release);
}

bool ReadyQueue::TakeFrom(Flow& flow, pto_core kind, BlockTicket* ticket) {
  Run& run = *flow.run;
  const uint32_t block_num = run.image().tasks()[flow.head].block_num;
  if (run.stopping()) {
    *ticket = {&run, flow.head, flow.head_block, -1, kind, block_num - flow.head_block};
    PopHead(flow, kind);
    return true;
  }
  const int32_t core = cores_.Acquire(kind);
  if (core < 0) return false;
  *ticket = {&run, flow.head, flow.head_block, core, kind, 0};
  if (++flow.head_block == block_num) PopHead(flow, kind);
  return true;
}

bool ReadyQueue::Take(Run* only, uint32_t chip, BlockTicket* ticket) {
  if (ready() == 0) return false;
  MutexLock lock(mutex_);
  for (const pto_core kind : kKinds) {
    if (only != nullptr) {
      Flow& flow = only->flow(chip, kind);
      if (!flow.empty() && TakeFrom(flow, kind, ticket)) return true;
      continue;
    }
    if (ring(kind).empty()) continue;
    Flow* flow = ring(kind).current();
    // Turn first: taking the last task removes the flow from the ring.
    ring(kind).Rotate();
    if (TakeFrom(*flow, kind, ticket)) return true;
  }
  return false;
}

bool ReadyQueue::TakeCore(pto_core kind, int32_t* core) {
  MutexLock lock(mutex_);
  if (!ring(kind).empty()) return false;
  *core = cores_.Acquire(kind);
  return *core >= 0;
}

void ReadyQueue::ReleaseCore(pto_core kind, int32_t core) {
  MutexLock lock(mutex_);
  cores_.Release(kind, core);
}

uint32_t ReadyQueue::busy_cores() const {
  MutexLock lock(mutex_);
  return cores_.busy();
}

}  // namespace pto
