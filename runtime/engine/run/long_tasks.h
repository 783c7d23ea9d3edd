#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "runtime/base/mutex.h"
#include "runtime/base/timer.h"
#include "runtime/engine/run/block_ticket.h"
#include "runtime/engine/signal/barrier.h"
#include "runtime/engine/signal/deadline_heap.h"
#include "runtime/engine/signal/wait_table.h"

namespace pto {

// A call of a task whose time was up.
struct LateCall {
  static constexpr uint64_t kNotBegun = UINT64_MAX;

  BlockTicket ticket;
  uint64_t began_ticks = kNotBegun;
  bool waited = false;  // for a signal, as all do that the one at fault keeps waiting
  std::string said;     // by its kernel
};

class TaskWaiterLink;

// A list of waits through the waits themselves: each is in that of its run, and in that of its task
// if the task is a long one.
struct WaitList {
  TaskWaiterLink* first = nullptr;
  TaskWaiterLink* last = nullptr;
};

// What is kept of a task from its start to its end, when that is more than its counter: it has a
// deadline, its blocks meet, or it ends later than its last block.
struct LongTask : public Deadline {
  LongTask() : Deadline(Kind::kTask) {}

  int64_t start_ns = 0;
  int64_t timeout_ns = 0;
  // Set when its time is up: its kernels are to return.
  std::atomic<bool> late{false};
  // What a block of it waited for at that time, and which of them did. Written before `late`.
  std::string late_for;
  absl::flat_hash_set<uint64_t> late_waits;  // see LongTasks::PlaceOf
  // Of the calls that were under way then, the one that is most likely at fault: one that did not
  // wait, and of these the one that began first. See LongTasks::NoteLate.
  absl::optional<LateCall> late_call;
  // The first is for all blocks, the others for those of each member. Empty when they do not meet.
  std::deque<Barrier> barriers;
  // When a kernel of it last returned, and from which core; 0 while none has that is recorded.
  std::atomic<int64_t> returned_ns{0};
  std::atomic<uint32_t> core{0};

 private:
  friend class LongTasks;
  WaitList waits_;
};

// The part of a wait that its run knows, to end it when the run or the task is to end, or when the
// wait's own time is up.
class TaskWaiterLink : public Deadline {
 public:
  uint32_t task() const { return ticket_.task; }

 protected:
  // `waiter` is the object that this is a part of.
  TaskWaiterLink(const BlockTicket& ticket, Waiter& waiter)
      : Deadline(Kind::kWait), ticket_(ticket), waiter_(waiter) {}
  ~TaskWaiterLink() = default;
  // Says what is waited for, and what is there now.
  virtual std::string Describe() const = 0;

  const BlockTicket ticket_;

 private:
  friend class LongTasks;

  struct Place {
    TaskWaiterLink* previous = nullptr;
    TaskWaiterLink* next = nullptr;
  };

  Waiter& waiter_;
  bool listed_ = false;
  LongTask* long_task_ = nullptr;
  Place in_run_;
  Place in_task_;
};

// The long tasks of one run, all that is waited for in it, and the deadlines of both. One timer is
// set for the earliest of them. Whatever there is to find or to end, it takes no longer because
// others wait too. Thread-safe.
class LongTasks {
 public:
  // Sets the run's timer to that time, or to now if that has passed, in place of the timer with
  // that id, if any. Called with the lock held.
  using SetTimer = absl::FunctionRef<TimerQueue::Id(TimerQueue::Id id, int64_t at_ns)>;

  // The task's entry; `fill` is called with it when it is new, and returns its deadline, or 0.
  LongTask& Begin(uint32_t task, absl::FunctionRef<int64_t(LongTask&)> fill, SetTimer set_timer);
  // Returns nullptr when there is none.
  LongTask* Find(uint32_t task);
  // Whether there has been any.
  bool used() const { return used_.load(std::memory_order_acquire); }
  // Takes the entry out, if there is one.
  std::unique_ptr<LongTask> End(uint32_t task);
  // Says that a call was under way, or next, when the time of its task was up; `said` is what its
  // kernel says of that. Before the call is counted as ended.
  void NoteLate(LongTask& late, const BlockTicket& ticket, uint64_t began_ticks,
                absl::string_view said);
  // Drops all entries, of which none is waited for. Returns the run's timer, or 0.
  TimerQueue::Id Clear();

  // A wait has begun; `long_task` is the entry of its task, if that is a long one, and `at_ns` the
  // wait's own deadline, or 0.
  void Add(TaskWaiterLink& waiter, LongTask* long_task, int64_t at_ns, SetTimer set_timer);
  void Remove(TaskWaiterLink& waiter);

  // The run's timer has fired: marks tasks as late whose time is up, and claims waits that are to
  // end for that reason, or because their own time is up. Looks at no more than `most` of both, and
  // leaves the rest for the next time. The caller ends the waits and then calls EndExpiry.
  std::vector<Waiter*> Expire(int64_t now_ns, size_t most);
  // Sets the timer for what is next.
  void EndExpiry(SetTimer set_timer);

  // Claims all waits, for the caller to end.
  std::vector<Waiter*> ClaimAll();

 private:
  // Stands for one call of a task.
  static uint64_t PlaceOf(const BlockTicket& ticket) {
    return uint64_t{ticket.member} << 34 | uint64_t{ticket.lane} << 32 | ticket.block;
  }
  void AddDeadline(Deadline& deadline, int64_t at_ns, SetTimer set_timer)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static void MarkLate(LongTask& task);
  void Unlist(TaskWaiterLink& waiter) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Takes it out of all lists, and claims it if nobody has.
  void Claim(TaskWaiterLink& waiter, std::vector<Waiter*>* claimed)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable Mutex mutex_;
  absl::flat_hash_map<uint32_t, std::unique_ptr<LongTask>> tasks_ ABSL_GUARDED_BY(mutex_);
  // Set with the first entry: most runs never have one.
  std::atomic<bool> used_{false};
  WaitList waits_ ABSL_GUARDED_BY(mutex_);
  DeadlineHeap deadlines_ ABSL_GUARDED_BY(mutex_);
  // A late task whose waits have not all been claimed.
  LongTask* ending_ ABSL_GUARDED_BY(mutex_) = nullptr;
  // The timer and its time. It may be earlier than the first deadline, but never later. Not set
  // between Expire and EndExpiry.
  TimerQueue::Id timer_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t timer_ns_ ABSL_GUARDED_BY(mutex_) = 0;
  bool expiring_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace pto
