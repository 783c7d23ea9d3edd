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

namespace pto::engine {

// A call of a task that was not finished at the task's deadline.
struct LateCall {
  static constexpr uint64_t kNotBegun = UINT64_MAX;

  BlockTicket ticket;
  uint64_t began_ticks = kNotBegun;
  bool waited = false;  // for a signal; the call at fault usually does not wait
  std::string said;     // by its kernel
};

class TaskWaiterLink;

// An intrusive list of waits. Each wait is in the list of its run, in that of its task if that is a
// long task, and perhaps in that of its call.
struct WaitList {
  TaskWaiterLink* first = nullptr;
  TaskWaiterLink* last = nullptr;
};

// The state of a task that needs more than its counter: it has a deadline, its blocks meet at
// barriers, or it ends later than its last block.
struct LongTask : public Deadline {
  LongTask() : Deadline(Kind::kTask) {}

  int64_t start_ns = 0;
  int64_t timeout_ns = 0;
  // Set at the deadline: its kernels must return.
  std::atomic<bool> late{false};
  // What a block of it waited for at the deadline, and which calls waited. Written before `late`.
  std::string late_for;
  absl::flat_hash_set<uint64_t> late_waits;  // see LongTasks::PlaceOf
  // The call that is most likely at fault, among those under way at the deadline: the oldest of
  // those that did not wait. See LongTasks::NoteLate.
  absl::optional<LateCall> late_call;
  // The first barrier is for all blocks, the others for the blocks of each member. Empty if they do
  // not meet.
  std::deque<Barrier> barriers;
  // When a kernel of it last returned, and on which core; 0: none is recorded yet.
  std::atomic<int64_t> returned_ns{0};
  std::atomic<uint32_t> core{0};

 private:
  friend class LongTasks;
  WaitList waits_;
  // The waits that are listed with their calls, by LongTasks::PlaceOf, and how many they are.
  absl::flat_hash_map<uint64_t, WaitList> calls_;
  uint32_t of_calls_ = 0;
};

// The part of a wait that its run knows, to end the wait when the run or task must end or at the
// wait's own deadline.
class TaskWaiterLink : public Deadline {
 public:
  uint32_t task() const { return ticket_.task; }

 protected:
  // `waiter` is the object that contains this one.
  TaskWaiterLink(const BlockTicket& ticket, Waiter& waiter)
      : Deadline(Kind::kWait), ticket_(ticket), waiter_(waiter) {}
  ~TaskWaiterLink() = default;
  // Before it is added: LongTasks::ClaimOf finds it.
  void ListWithCall() { with_call_ = true; }
  // Describes the condition and the current value.
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
  bool with_call_ = false;
  LongTask* long_task_ = nullptr;
  Place in_run_;
  Place in_task_;
  Place in_call_;
};

// The long tasks and all waits of one run, and the deadlines of both. One timer is set for the
// earliest deadline. The cost of an operation does not depend on the number of other waits of the
// run, except for the heap. Thread-safe.
class LongTasks {
 public:
  // Sets the run's timer to that time, or to now if it has passed, and replaces the timer `id`
  // unless it is 0. Called with the lock held.
  using SetTimer = absl::FunctionRef<TimerQueue::Id(TimerQueue::Id id, int64_t at_ns)>;

  // Returns the task's entry. If it is new, calls `fill`, which returns the deadline or 0.
  LongTask& Begin(uint32_t task, absl::FunctionRef<int64_t(LongTask&)> fill, SetTimer set_timer);
  // Returns nullptr if there is none.
  LongTask* Find(uint32_t task);
  // Whether there was ever an entry.
  bool used() const { return used_.load(std::memory_order_acquire); }
  // Removes and returns the entry; nullptr: none.
  std::unique_ptr<LongTask> End(uint32_t task);
  // Notes a call that was under way, or next, at the deadline of its task. `said` is the kernel's
  // message. Must be called before the call is counted as ended.
  void NoteLate(LongTask& late, const BlockTicket& ticket, uint64_t began_ticks,
                absl::string_view said);
  // Removes all entries; nothing may wait any more. Returns the run's timer, or 0.
  TimerQueue::Id Clear();

  // Adds a wait. `long_task`: the entry of its task, or nullptr. `at_ns`: the wait's own deadline,
  // or 0.
  void Add(TaskWaiterLink& waiter, LongTask* long_task, int64_t at_ns, SetTimer set_timer);
  void Remove(TaskWaiterLink& waiter);

  // Called when the run's timer fires. Marks tasks as late whose deadline has passed. Claims their
  // waits, and the waits whose own deadline has passed. Handles at most `most` tasks and waits and
  // leaves the rest for the next call. The caller ends the waits and then calls EndExpiry.
  std::vector<Waiter*> Expire(int64_t now_ns, size_t most);
  // Sets the timer for the next deadline.
  void EndExpiry(SetTimer set_timer);

  // Claims the waits that are listed with a call of a task. The caller must end them.
  std::vector<Waiter*> ClaimOf(LongTask& task, const BlockTicket& call);
  // How many waits of the task are listed with its calls.
  uint32_t WaitsOfCalls(const LongTask& task) const;
  // Claims all waits. The caller must end them.
  std::vector<Waiter*> ClaimAll();

 private:
  // Identifies one call of a task.
  static uint64_t PlaceOf(const BlockTicket& ticket) {
    return uint64_t{ticket.member} << 34 | uint64_t{ticket.cluster_lane} << 32 | ticket.block;
  }
  void AddDeadline(Deadline& deadline, int64_t at_ns, SetTimer set_timer)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static void MarkLate(LongTask& task);
  void Unlist(TaskWaiterLink& waiter) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Removes the wait from all lists, and claims it unless another thread has.
  void Claim(TaskWaiterLink& waiter, std::vector<Waiter*>* claimed)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable Mutex mutex_;
  absl::flat_hash_map<uint32_t, std::unique_ptr<LongTask>> tasks_ ABSL_GUARDED_BY(mutex_);
  // Set with the first entry. Most runs never have one.
  std::atomic<bool> used_{false};
  WaitList waits_ ABSL_GUARDED_BY(mutex_);
  DeadlineHeap deadlines_ ABSL_GUARDED_BY(mutex_);
  // A late task with waits that have not been claimed.
  LongTask* ending_ ABSL_GUARDED_BY(mutex_) = nullptr;
  // The timer and its time. It may be earlier than the first deadline, but not later. Not set
  // between Expire and EndExpiry.
  TimerQueue::Id timer_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t timer_ns_ ABSL_GUARDED_BY(mutex_) = 0;
  bool expiring_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace pto::engine
