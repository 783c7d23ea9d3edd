#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "runtime/base/spin_lock.h"
#include "runtime/engine/queue/parking.h"
#include "runtime/engine/run/errand_flow.h"

namespace pto {

class Account;
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

// Those that take turns, as a ring through them. Not thread-safe.
template <typename Node>
class ErrandRing {
 public:
  bool empty() const { return current_ == nullptr; }
  // Whose turn it is.
  Node* current() const { return current_; }
  void Rotate() { current_ = current_->next; }

  // Adds as the last one to be served.
  void Add(Node& node) {
    if (current_ == nullptr) {
      node.previous = node.next = &node;
      current_ = &node;
      return;
    }
    node.next = current_;
    node.previous = current_->previous;
    node.previous->next = &node;
    node.next->previous = &node;
  }
  void Remove(Node& node) {
    if (node.next == &node) {
      current_ = nullptr;
      return;
    }
    if (current_ == &node) current_ = node.next;
    node.previous->next = node.next;
    node.next->previous = node.previous;
  }

 private:
  Node* current_ = nullptr;
};

// The runs of one account that have errands.
struct ErrandShare {
  const Account* account = nullptr;  // nullptr: the one for all that have none
  ErrandRing<ErrandFlow> flows;
  ErrandShare* previous = nullptr;
  ErrandShare* next = nullptr;
};

// Errands of all runs. Accounts take turns, and so do the runs of one account: one that has very
// many errands keeps no other waiting. Those of one run are served in the order in which they came.
// Thread-safe.
class ErrandQueue {
 public:
  explicit ErrandQueue(Parking& parking) : parking_(parking) {}

  // Whoever sleeps is woken for it.
  void Push(Errand& errand);
  // The next one; nullptr when there is none. With `place`, for tests, the one at that place of
  // some order of all.
  Errand* Take(size_t place = 0);
  // The first of one run.
  Errand* TakeOf(Run& run);
  // Takes this one back, which somebody keeps alive. Returns whether it was there.
  bool TakeBack(Errand& errand);
  // All of one run.
  std::vector<Errand*> TakeAllOf(Run& run);

  size_t size() const { return size_.load(std::memory_order_acquire); }

 private:
  // Shares beyond so many are forgotten when they have no errands.
  static constexpr size_t kKeptShares = 64;

  ErrandShare& ShareOf(const Account* account);
  Errand* At(size_t place) const;
  void Unlink(Errand& errand);

  Parking& parking_;
  SpinLock lock_;
  // All but the number are guarded by the lock, and so are the flows of the runs.
  std::atomic<size_t> size_{0};
  ErrandRing<ErrandShare> ring_;
  absl::flat_hash_map<const Account*, std::unique_ptr<ErrandShare>> shares_;
  ErrandShare* last_share_ = nullptr;  // found last
};

}  // namespace pto
