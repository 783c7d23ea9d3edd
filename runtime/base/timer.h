#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <thread>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "runtime/base/clock.h"
#include "runtime/base/mutex.h"

namespace pto {

// Calls functions at given times. Passive: someone calls RunDue. Thread-safe; a function is
// called without any lock held and may use the queue.
//
// When several are due, groups take turns: one whose timers are very many, or take long, delays no
// other group. Those of one group are called in order of time.
class TimerQueue {
 public:
  using Id = uint64_t;
  // Only compared, so it may point to anything: a session, say.
  using Group = const void*;

  explicit TimerQueue(const Clock& clock) : clock_(clock) {}
  TimerQueue(const TimerQueue&) = delete;
  TimerQueue& operator=(const TimerQueue&) = delete;

  // Calls `fn` at `at_ns` of the clock. When that has passed, `fn` is called after all of its group
  // that is due: so whoever has much to do can do it bit by bit. Never returns 0.
  Id Schedule(int64_t at_ns, std::function<void()> fn, Group group = nullptr);

  // Returns true when the function will never be called; false when it was called, is being
  // called, or was cancelled before.
  bool Cancel(Id id);

  // Calls what is due. Returns the time of the next timer, or -1 when there is none.
  int64_t RunDue();

  // Drops all timers without calling them.
  void Clear();

 private:
  friend class TimerThread;

  struct Timer {
    std::function<void()> fn;
    Group group = nullptr;
  };

  // Timers that become due are sorted by group so many at a time, which takes some microseconds.
  static constexpr int kSortedAtOnce = 256;

  void SortDue() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Takes the next one that is due; nothing when none is.
  std::function<void()> TakeDue() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // When the next one is due: it may have been long ago. kNever when there is none.
  static constexpr int64_t kNever = INT64_MAX;
  int64_t NextNanos() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Clock& clock_;
  Mutex mutex_;
  CondVar changed_;
  Id next_id_ ABSL_GUARDED_BY(mutex_) = 1;
  std::map<std::pair<int64_t, Id>, Timer> timers_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<Id, int64_t> times_ ABSL_GUARDED_BY(mutex_);
  // Those that were found to be due are no longer among the timers. A group's list may still have
  // ids that were cancelled since.
  absl::flat_hash_map<Id, std::function<void()>> due_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<Group, std::deque<Id>> due_of_group_ ABSL_GUARDED_BY(mutex_);
  std::deque<Group> turns_ ABSL_GUARDED_BY(mutex_);  // of groups with a list
};

// Runs a TimerQueue on the machine's clock until it is destroyed; the queue outlives it. After
// the destructor no function is being called; timers that are left stay in the queue.
//
// With `most_threads` above one a function that does not return holds up no other: while it is
// called another thread waits for the next timer. So functions may be called at the same time.
class TimerThread {
 public:
  explicit TimerThread(TimerQueue& queue, size_t most_threads = 1);
  ~TimerThread();
  TimerThread(const TimerThread&) = delete;
  TimerThread& operator=(const TimerThread&) = delete;

 private:
  void Hire() ABSL_EXCLUSIVE_LOCKS_REQUIRED(queue_.mutex_);
  void Loop();
  // Waits until something is due, as the only one who does. False when it is time to stop. The
  // thread is among the idle ones before, and not after.
  bool Lead() ABSL_EXCLUSIVE_LOCKS_REQUIRED(queue_.mutex_);
  // Lets another thread wait for the next timer, and makes one if there is none.
  void HandOver() ABSL_EXCLUSIVE_LOCKS_REQUIRED(queue_.mutex_);

  TimerQueue& queue_;
  const size_t most_threads_;
  bool stopping_ ABSL_GUARDED_BY(queue_.mutex_) = false;
  bool led_ ABSL_GUARDED_BY(queue_.mutex_) = false;  // one waits for the next timer
  size_t idle_ ABSL_GUARDED_BY(queue_.mutex_) = 0;   // those that wait to lead
  CondVar vacant_;                                   // nobody leads
  std::vector<std::thread> threads_ ABSL_GUARDED_BY(queue_.mutex_);
};

}  // namespace pto
