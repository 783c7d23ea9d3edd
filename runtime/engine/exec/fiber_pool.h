#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "runtime/base/spin_lock.h"
#include "runtime/engine/exec/block_host.h"
#include "runtime/engine/exec/block_runner.h"
#include "runtime/engine/exec/fiber.h"
#include "runtime/engine/queue/parking.h"
#include "runtime/engine/run/block_ticket.h"

namespace pto::engine {

class FiberPool;
class Services;

// A block that runs on a fiber. Its core is taken until it has ended, also while it waits.
struct FiberBlock final : public BlockHost {
  void Park() override { fiber->Suspend(); }
  void Unpark() override;

  FiberPool* pool = nullptr;
  // Whether its thread has left the fiber since it waits. Until then no other thread may resume it.
  std::atomic<bool> left{false};
  std::unique_ptr<Fiber> fiber;
  FiberBlock* next = nullptr;  // that can go on

  // ---- of the block at hand
  Services* services = nullptr;
  BlockTicket ticket;
  LongTask* long_task = nullptr;
  int64_t start_ns = 0;
  BlockEnd end = BlockEnd::kDone;
  absl::Status error;
};

// The fibers of one executor: those that have nothing to do, and those that can go on. Only the
// executor's thread takes and runs them; any thread may let one go on. While a kernel holds that
// thread, others take those that can go on over to their own pools.
class FiberPool {
 public:
  // Made by the thread that runs the fibers.
  explicit FiberPool(Parking& parking) : parking_(parking) {}
  // All blocks must have ended.
  ~FiberPool();
  FiberPool(const FiberPool&) = delete;
  FiberPool& operator=(const FiberPool&) = delete;

  // A block that has not begun; nullptr when there is no memory for another stack.
  FiberBlock* New();
  // Takes back a block that has ended.
  void Recycle(FiberBlock& block);

  // How many have begun and not ended. For the owner.
  size_t busy() const { return busy_ - given_.load(std::memory_order_relaxed); }
  // How many can go on.
  size_t runnable() const { return runnable_.load(std::memory_order_acquire); }
  // Takes the one at that place from the front; nullptr when there is none.
  FiberBlock* Take(size_t place = 0);
  // Takes one from another pool over to this one; nullptr when none of those that can go on has
  // been left by its thread.
  FiberBlock* TakeOver(FiberPool& from);
  // Lets a block go on that waits, or is about to.
  void MakeRunnable(FiberBlock& block);

 private:
  // More stacks than this are given back.
  static constexpr size_t kMaxIdle = 256;

  Parking& parking_;
  const std::thread::id owner_ = std::this_thread::get_id();
  size_t busy_ = 0;               // all that have begun, or come from other pools, and not ended
  std::atomic<size_t> given_{0};  // to other pools, which end them
  std::vector<std::unique_ptr<FiberBlock>> idle_;

  SpinLock lock_;
  FiberBlock* Unlink(FiberBlock* previous, FiberBlock& block);

  // All but the number are guarded by the lock.
  std::atomic<size_t> runnable_{0};
  FiberBlock* first_ = nullptr;
  FiberBlock* last_ = nullptr;
};

inline void FiberBlock::Unpark() { pool->MakeRunnable(*this); }

}  // namespace pto::engine
