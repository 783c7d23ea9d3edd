#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace pto::engine {

// When a run begins and ends. It counts what keeps the run from ending: tasks that are ready,
// running or waited for, and holds. The thread that drops the last count ends the run.
// Thread-safe.
class RunLife {
 public:
  // The run is in the engine's list. Called once, with the engine's lock held.
  void Accept() { accepted_.store(true, std::memory_order_release); }
  bool accepted() const { return accepted_.load(std::memory_order_acquire); }

  // Begins the run, or gives up a run that has not begun. Returns true for the first call; that
  // caller then owns the count of Open.
  bool Begin() { return !begun_.exchange(true, std::memory_order_acq_rel); }
  bool begun() const { return begun_.load(std::memory_order_acquire); }

  // Adds the first count, which Begin's caller drops.
  void Open() { outstanding_.store(1, std::memory_order_release); }
  // The caller must own a count that it does not drop before this returns.
  void Add(size_t count = 1) {
    outstanding_.fetch_add(static_cast<int64_t>(count), std::memory_order_acq_rel);
  }
  // Like Add, for a caller without a count. Returns false if the run has ended.
  bool Hold() {
    int64_t outstanding = outstanding_.load(std::memory_order_acquire);
    while (outstanding > 0) {
      if (outstanding_.compare_exchange_weak(outstanding, outstanding + 1,
                                             std::memory_order_acq_rel)) {
        return true;
      }
    }
    return false;
  }
  // Drops counts. The caller must own another one.
  void TakeBack(size_t count = 1) {
    outstanding_.fetch_sub(static_cast<int64_t>(count), std::memory_order_acq_rel);
  }
  // Drops one count. Returns whether it was the last: then the caller must end the run.
  [[nodiscard]] bool Drop() { return outstanding_.fetch_sub(1, std::memory_order_acq_rel) == 1; }
  // Of two threads that change the count or call this, the second sees all writes of the first.
  void Synchronize() { outstanding_.fetch_add(0, std::memory_order_acq_rel); }

  int64_t outstanding() const { return outstanding_.load(std::memory_order_acquire); }

 private:
  std::atomic<int64_t> outstanding_{0};
  std::atomic<bool> begun_{false};
  std::atomic<bool> accepted_{false};
};

}  // namespace pto::engine
