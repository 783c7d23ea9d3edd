#include "runtime/engine/exec/fiber_lane.h"

#include <limits>
#include <utility>

#include "runtime/base/log.h"

namespace pto::engine {

FiberLane::~FiberLane() { PTO_CHECK(busy_ == 0, "an executor ends while its blocks wait"); }

FiberBlock* FiberLane::New() {
  if (idle_.empty()) {
    auto block = std::make_unique<FiberBlock>();
    block->lane = this;
    block->fiber = Fiber::Create();
    if (block->fiber == nullptr) return nullptr;
    idle_.push_back(std::move(block));
  }
  ++busy_;
  FiberBlock* const block = idle_.back().release();
  idle_.pop_back();
  return block;
}

void FiberLane::Recycle(FiberBlock& block) {
  --busy_;
  std::unique_ptr<FiberBlock> owned(&block);
  if (idle_.size() < kMaxIdle) idle_.push_back(std::move(owned));
}

FiberBlock* FiberLane::Take(size_t place) {
  if (runnable() == 0) return nullptr;
  SpinLockHolder lock(lock_);
  FiberBlock* previous = nullptr;
  FiberBlock* block = first_;
  for (; block != nullptr && place > 0; --place) {
    previous = block;
    block = block->next;
  }
  if (block == nullptr) return nullptr;
  (previous != nullptr ? previous->next : first_) = block->next;
  if (last_ == block) last_ = previous;
  runnable_.fetch_sub(1, std::memory_order_release);
  return block;
}

void FiberLane::MakeRunnable(FiberBlock& block) {
  {
    SpinLockHolder lock(lock_);
    block.next = nullptr;
    (last_ != nullptr ? last_->next : first_) = &block;
    last_ = &block;
    runnable_.fetch_add(1, std::memory_order_release);
  }
  // The owner looks again before it sleeps. Others cannot wake it alone, so they wake all.
  if (std::this_thread::get_id() != owner_) parking_.Wake(std::numeric_limits<uint64_t>::max());
}

}  // namespace pto::engine
