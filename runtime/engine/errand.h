#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/base/spin_lock.h"
#include "runtime/engine/parking.h"

namespace pto {

class Run;
class Worker;

// Something short to do for a run that needs no core: to begin or to end a task, or a piece of a
// copy. It keeps its run from ending, and sees to its own life.
class Errand {
 public:
  explicit Errand(Run& run) : run_(&run) {}
  virtual ~Errand() = default;
  Errand(const Errand&) = delete;
  Errand& operator=(const Errand&) = delete;

  // Called once each time that it was queued, by a worker that does nothing else meanwhile. Must
  // see for itself whether the run was stopped.
  virtual void Do(Worker& worker) = 0;

 protected:
  Run& run() const { return *run_; }
  // Only while it is not queued.
  void set_run(Run& run) { run_ = &run; }

 private:
  friend class ErrandQueue;
  Run* run_;
  Errand* previous_ = nullptr;
  Errand* next_ = nullptr;
  bool queued_ = false;
};

// Errands of all runs, first come, first served. Thread-safe.
class ErrandQueue {
 public:
  explicit ErrandQueue(Parking& parking) : parking_(parking) {}

  // Whoever sleeps is woken for it.
  void Push(Errand& errand);
  // The one at that place from the front; nullptr when there is none.
  Errand* Take(size_t place = 0);
  // The first of one run.
  Errand* TakeOf(const Run& run);
  // Takes this one back, which somebody keeps alive. Returns whether it was there.
  bool TakeBack(Errand& errand);
  // All of one run.
  std::vector<Errand*> TakeAllOf(const Run& run);

  size_t size() const { return size_.load(std::memory_order_acquire); }

 private:
  void Unlink(Errand& errand);

  Parking& parking_;
  SpinLock lock_;
  // All but the number are guarded by the lock.
  std::atomic<size_t> size_{0};
  Errand* first_ = nullptr;
  Errand* last_ = nullptr;
};

}  // namespace pto
