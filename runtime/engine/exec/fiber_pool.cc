#include "runtime/engine/exec/fiber_pool.h"

#include <limits>
#include <utility>

#include "runtime/base/log.h"

namespace pto::engine {

FiberPool::~FiberPool() { PTO_CHECK(busy() == 0, "an executor ends while its blocks wait"); }

FiberBlock* FiberPool::New() {
  if (idle_.empty()) {
    auto block = std::make_unique<FiberBlock>();
    block->pool = this;
    block->fiber = Fiber::Create();
    if (block->fiber == nullptr) return nullptr;
    idle_.push_back(std::move(block));
  }
  ++busy_;
  FiberBlock* const block = idle_.back().release();
  idle_.pop_back();
  return block;
}

void FiberPool::Recycle(FiberBlock& block) {
  --busy_;
  std::unique_ptr<FiberBlock> owned(&block);
  if (idle_.size() < kMaxIdle) idle_.push_back(std::move(owned));
}

FiberBlock* FiberPool::Take(size_t place) {
  if (runnable() == 0) return nullptr;
  SpinLockHolder lock(lock_);
  FiberBlock* previous = nullptr;
  FiberBlock* block = first_;
  for (; block != nullptr && place > 0; --place) {
    previous = block;
    block = block->next;
  }
  return block == nullptr ? nullptr : Unlink(previous, *block);
}

FiberBlock* FiberPool::Unlink(FiberBlock* previous, FiberBlock& block) {
  (previous != nullptr ? previous->next : first_) = block.next;
  if (last_ == &block) last_ = previous;
  runnable_.fetch_sub(1, std::memory_order_release);
  return &block;
}

FiberBlock* FiberPool::TakeOver(FiberPool& from) {
  if (from.runnable() == 0) return nullptr;
  SpinLockHolder lock(from.lock_);
  FiberBlock* previous = nullptr;
  FiberBlock* block = from.first_;
  while (block != nullptr && !block->left.load(std::memory_order_acquire)) {
    previous = block;
    block = block->next;
  }
  if (block == nullptr) return nullptr;
  // Nobody lets it go on again before it has run and waits again, which is here then.
  block->pool = this;
  from.given_.fetch_add(1, std::memory_order_relaxed);
  ++busy_;
  return from.Unlink(previous, *block);
}

void FiberPool::MakeRunnable(FiberBlock& block) {
  // When the lock is free the block may end elsewhere, and then its thread and this pool with it.
  Parking& parking = parking_;
  const bool own = std::this_thread::get_id() == owner_;
  {
    SpinLockHolder lock(lock_);
    block.next = nullptr;
    (last_ != nullptr ? last_->next : first_) = &block;
    last_ = &block;
    runnable_.fetch_add(1, std::memory_order_release);
  }
  // The owner looks again before it sleeps. Others cannot wake it alone, so they wake all.
  if (!own) parking.Wake(std::numeric_limits<uint64_t>::max());
}

}  // namespace pto::engine
