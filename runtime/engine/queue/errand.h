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

namespace pto::engine {

class Account;
class Completions;
class Run;
class Worker;

// Short work for a run that needs no core: begin or end a task, or copy a part of the data. It
// keeps its run from ending and manages its own lifetime.
class Errand {
 public:
  explicit Errand(Run& run) : run_(&run) {}
  virtual ~Errand() = default;
  Errand(const Errand&) = delete;
  Errand& operator=(const Errand&) = delete;

  // Called by a worker, once for each push. Must check itself whether the run was stopped. The
  // worker drains `completions` when this has returned.
  virtual void Do(Worker& worker, Completions& completions) = 0;

 protected:
  Run& run() const { return *run_; }
  // Not while it is queued.
  void set_run(Run& run) { run_ = &run; }

 private:
  friend class ErrandQueue;
  Run* run_;
  Errand* previous_ = nullptr;
  Errand* next_ = nullptr;
  bool queued_ = false;
};

// A ring of nodes that take turns. Not thread-safe.
template <typename Node>
class ErrandRing {
 public:
  bool empty() const { return current_ == nullptr; }
  // The node to serve next.
  Node* current() const { return current_; }
  void Rotate() { current_ = current_->next; }

  // Adds a node that is served after all others.
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
  const Account* account = nullptr;  // nullptr: shared by all runs without an account
  ErrandRing<ErrandFlow> flows;
  ErrandShare* previous = nullptr;
  ErrandShare* next = nullptr;
};

// The errands of all runs. Accounts take turns, and so do the runs of an account, so a run with
// many errands does not delay the others. The errands of one run are served in order. Thread-safe.
class ErrandQueue {
 public:
  explicit ErrandQueue(Parking& parking) : parking_(parking) {}

  // Wakes one sleeping worker.
  void Push(Errand& errand);
  // Returns nullptr when the queue is empty. Tests use `place` to take errands in another order.
  Errand* Take(size_t place = 0);
  // Takes the first errand of a run.
  Errand* TakeOf(Run& run);
  // Removes an errand, which the caller keeps alive. Returns false if it was not queued.
  bool TakeBack(Errand& errand);
  // Takes all errands of a run.
  std::vector<Errand*> TakeAllOf(Run& run);

  size_t size() const { return size_.load(std::memory_order_acquire); }

 private:
  // Above this number, shares without errands are erased.
  static constexpr size_t kKeptShares = 64;

  ErrandShare& ShareOf(const Account* account);
  Errand* At(size_t place) const;
  void Unlink(Errand& errand);

  Parking& parking_;
  SpinLock lock_;
  // lock_ guards everything but size_, and also the ErrandFlow of each run.
  std::atomic<size_t> size_{0};
  ErrandRing<ErrandShare> ring_;
  absl::flat_hash_map<const Account*, std::unique_ptr<ErrandShare>> shares_;
  ErrandShare* last_share_ = nullptr;  // the last one looked up
};

}  // namespace pto::engine
