#pragma once

#include <atomic>
#include <cstdint>

#include "kernels/pto_kernel.h"

namespace pto::engine {

class Run;

// The owner of one core, for readers without a lock. Fields may be from different moments and the
// run may be gone, so readers may compare `run` but not dereference it. Written by the thread that
// has the core, or under the lock of the core's queue when the core is taken or released. On its
// own cache line, because it is written for each task.
struct alignas(64) CoreView {
  static constexpr uint32_t kUnknownTask = 0xffffffff;
  std::atomic<const Run*> run{nullptr};  // nullptr: free
  std::atomic<uint32_t> task{kUnknownTask};
  std::atomic<uint32_t> kind{0};  // pto_core; PTO_MIX in the cube core's view: a whole cluster
  // For the first core of a joint task: the number of cores that follow, and the next of them.
  std::atomic<uint32_t> followers{0};
  std::atomic<uint32_t> next_follower{kUnknownTask};
  // Whether the block on this core waits, or has waited, or runs on a lane.
  enum Wait : uint32_t { kNeverWaited, kWaited, kWaits, kPosted };
  std::atomic<uint32_t> wait{kNeverWaited};

  bool waits() const { return wait.load(std::memory_order_relaxed) == kWaits; }
  bool waited() const {
    const uint32_t now = wait.load(std::memory_order_relaxed);
    return now == kWaited || now == kWaits;
  }

  void Take(const Run& taker, uint32_t its_task, pto_core as) {
    task.store(its_task, std::memory_order_relaxed);
    followers.store(0, std::memory_order_relaxed);
    wait.store(kNeverWaited, std::memory_order_relaxed);
    kind.store(static_cast<uint32_t>(as), std::memory_order_relaxed);
    run.store(&taker, std::memory_order_release);
  }
  void Release() { run.store(nullptr, std::memory_order_relaxed); }
};

// The reservation of the gang that has the turn on a chip. Read under the same rules as CoreView.
struct ReservationView {
  // Single cores that are idle because they are reserved, for gangs and for other tasks.
  std::atomic<uint32_t> idle_cores{0};
  std::atomic<const Run*> run{nullptr};  // nullptr: none
  std::atomic<uint32_t> task{0};
  std::atomic<uint32_t> have{0};  // cores or clusters
  std::atomic<uint32_t> want{0};
};

}  // namespace pto::engine
