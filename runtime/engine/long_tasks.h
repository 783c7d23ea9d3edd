#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "runtime/base/mutex.h"
#include "runtime/base/timer.h"
#include "runtime/engine/barrier.h"
#include "runtime/engine/block_ticket.h"
#include "runtime/engine/wait_table.h"

namespace pto {

// A call of a task whose time was up.
struct LateCall {
  static constexpr uint64_t kNotBegun = UINT64_MAX;

  BlockTicket ticket;
  uint64_t began_ticks = kNotBegun;
  bool waited = false;  // for a signal, as all do that the one at fault keeps waiting
  std::string said;     // by its kernel
};

// What is kept of a task from its start to its end, when that is more than its counter: it has a
// deadline, its blocks meet, or it ends later than its last block.
struct LongTask {
  int64_t start_ns = 0;
  int64_t timeout_ns = 0;
  TimerQueue::Id timer = 0;
  // Set when its time is up: its kernels are to return.
  std::atomic<bool> late{false};
  // What a block of it waited for at that time, and which of them did. Written before `late`.
  std::string late_for;
  std::vector<BlockTicket> late_waits;
  // Of the calls that were under way then, the one that is most likely at fault: one that did not
  // wait, and of these the one that began first. See LongTasks::NoteLate.
  absl::optional<LateCall> late_call;
  // The first is for all blocks, the others for those of each member. Empty when they do not meet.
  std::deque<Barrier> barriers;
  // When a kernel of it last returned, and from which core; 0 while none has that is recorded.
  std::atomic<int64_t> returned_ns{0};
  std::atomic<uint32_t> core{0};
};

// Part of a list of waits that a run, or a task of it, can end.
class TaskWaiterLink {
 public:
  uint32_t task() const { return ticket_.task; }
  const WaitTable::Key& key() const { return key_; }

 protected:
  explicit TaskWaiterLink(const BlockTicket& ticket) : ticket_(ticket) {}
  ~TaskWaiterLink() = default;
  // Says what is waited for, and what is there now.
  virtual std::string Describe() const = 0;

  WaitTable::Key key_;
  const BlockTicket ticket_;

 private:
  friend class LongTasks;
  TaskWaiterLink* previous_ = nullptr;
  TaskWaiterLink* next_ = nullptr;
};

// The long tasks of one run, and all that is waited for in it. Thread-safe.
class LongTasks {
 public:
  static constexpr uint32_t kAllTasks = 0xffffffff;

  // The task's entry; `fill` is called with it when it is new.
  LongTask& Begin(uint32_t task, const std::function<void(LongTask&)>& fill);
  // Returns nullptr when there is none.
  LongTask* Find(uint32_t task);
  // Whether there has been any.
  bool used() const { return used_.load(std::memory_order_acquire); }
  // Takes the entry out, if there is one.
  std::unique_ptr<LongTask> End(uint32_t task);
  // Says that the task's time is up. Returns false when it has ended.
  bool MarkLate(uint32_t task);
  // Says that a call was under way, or next, when the time of its task was up; `said` is what its
  // kernel says of that. Before the call is counted as ended.
  void NoteLate(LongTask& late, const BlockTicket& ticket, uint64_t began_ticks,
                absl::string_view said);
  // Drops all entries. Returns their timers.
  std::vector<TimerQueue::Id> Clear();

  void Add(TaskWaiterLink& waiter);
  void Remove(TaskWaiterLink& waiter);
  // Of what is waited for now by one task, or by all.
  std::vector<WaitTable::Key> Waits(uint32_t task) const;

 private:
  mutable Mutex mutex_;
  absl::flat_hash_map<uint32_t, std::unique_ptr<LongTask>> tasks_ ABSL_GUARDED_BY(mutex_);
  // Set with the first entry: most runs never have one.
  std::atomic<bool> used_{false};
  TaskWaiterLink* first_ ABSL_GUARDED_BY(mutex_) = nullptr;
  TaskWaiterLink* last_ ABSL_GUARDED_BY(mutex_) = nullptr;
};

}  // namespace pto
