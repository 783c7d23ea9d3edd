#include "runtime/engine/ready_queue.h"

#include <algorithm>

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
}

bool ReadyQueue::TakeFrom(Flow& flow, pto_core kind, uint32_t max, BlockTicket* ticket,
                          std::vector<uint32_t>* more) {
  Run& run = *flow.run;
  const GraphImage& image = run.image();
  const uint32_t block_num = image.tasks()[flow.head].block_num;
  if (run.stopping()) {
    *ticket = {&run, flow.head, flow.head_block, block_num, -1, kind, block_num - flow.head_block};
    PopHead(flow, kind);
    ready_.fetch_sub(1, std::memory_order_release);
    return true;
  }
  const int32_t core = cores_.Acquire(kind);
  if (core < 0) return false;
  const uint32_t block_end = flow.head_block + std::min(max, block_num - flow.head_block);
  *ticket = {&run, flow.head, flow.head_block, block_end, core, kind, 0};
  flow.head_block = block_end;
  if (block_end < block_num) return true;
  PopHead(flow, kind);
  while (block_num == 1 && !flow.empty() && more->size() + 1 < max &&
         image.tasks()[flow.head].block_num == 1) {
    more->push_back(flow.head);
    PopHead(flow, kind);
  }
  ready_.fetch_sub(static_cast<uint32_t>(more->size()) + 1, std::memory_order_release);
  return true;
}

bool ReadyQueue::Take(Run* only, uint32_t chip, uint32_t max, BlockTicket* ticket,
                      std::vector<uint32_t>* more) {
  more->clear();
  if (ready() == 0) return false;
  MutexLock lock(mutex_);
  for (const pto_core kind : kKinds) {
    if (only != nullptr) {
      Flow& flow = only->flow(chip, kind);
      if (!flow.empty() && TakeFrom(flow, kind, max, ticket, more)) return true;
      continue;
    }
    if (ring(kind).empty()) continue;
    Flow* flow = ring(kind).current();
    // Turn first: taking the last task removes the flow from the ring.
    ring(kind).Rotate();
    if (TakeFrom(*flow, kind, max, ticket, more)) return true;
  }
  return false;
}

bool ReadyQueue::OthersWait(const Run& run) const {
  if (ready() == 0) return false;
  MutexLock lock(mutex_);
  for (const FlowRing& ring : rings_) {
    if (ring.empty()) continue;
    const Flow* flow = ring.current();
    if (flow->run != &run || flow->next->run != &run) return true;
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
