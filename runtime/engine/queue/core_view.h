#pragma once

#include <atomic>
#include <cstdint>

#include "kernels/pto_kernel.h"

namespace pto {

class Run;

// Who has one core, as anybody can read at any time without a lock. What is read may be of two
// moments, and the run may be gone: it is only to be compared. Written by whoever has the core, or
// gives and takes it under the lock of its queue. On a line of its own, as whoever has the core
// writes it for each task.
struct alignas(64) CoreView {
  static constexpr uint32_t kUnknownTask = 0xffffffff;
  std::atomic<const Run*> run{nullptr};  // nullptr: it is free
  std::atomic<uint32_t> task{kUnknownTask};
  std::atomic<uint32_t> kind{0};  // pto_core; of a cluster the view of its cube core says PTO_MIX
  // Of the first core of a joint task: how many follow it, and which is next.
  std::atomic<uint32_t> followers{0};
  std::atomic<uint32_t> next_follower{kUnknownTask};
  // Whether the block that has the core waits for something, or has done so.
  enum Wait : uint32_t { kNeverWaited, kWaited, kWaits };
  std::atomic<uint32_t> wait{kNeverWaited};

  bool waits() const { return wait.load(std::memory_order_relaxed) == kWaits; }
  bool waited() const { return wait.load(std::memory_order_relaxed) != kNeverWaited; }

  void Take(const Run& taker, uint32_t its_task, pto_core as) {
    task.store(its_task, std::memory_order_relaxed);
    followers.store(0, std::memory_order_relaxed);
    wait.store(kNeverWaited, std::memory_order_relaxed);
    kind.store(static_cast<uint32_t>(as), std::memory_order_relaxed);
    run.store(&taker, std::memory_order_release);
  }
  void Release() { run.store(nullptr, std::memory_order_relaxed); }
};

// What the gang that has the turn on a chip has reserved so far. The same holds.
struct ReservationView {
  // Single cores that stand idle because they are reserved, also for tasks that are no gangs.
  std::atomic<uint32_t> idle_cores{0};
  std::atomic<const Run*> run{nullptr};  // nullptr: there is none
  std::atomic<uint32_t> task{0};
  std::atomic<uint32_t> have{0};  // cores or clusters
  std::atomic<uint32_t> want{0};
};

}  // namespace pto
