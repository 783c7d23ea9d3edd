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

// Calls functions at given times. Passive: its user calls RunDue. Thread-safe. Functions are called
// without locks held and may use the queue.
//
// When several timers are due, groups take turns: a group with many or slow timers does not delay
// the others. The timers of a group are called in order of time.
class TimerQueue {
 public:
  using Id = uint64_t;
  // Only compared, never dereferenced. For example, the address of a session.
  using Group = const void*;

  explicit TimerQueue(const Clock& clock) : clock_(clock) {}
  TimerQueue(const TimerQueue&) = delete;
  TimerQueue& operator=(const TimerQueue&) = delete;

  // Calls `fn` at `at_ns` of the clock. If that has passed, `fn` is called after all due timers of
  // its group, so long work can be split into steps. Never returns 0.
  Id Schedule(int64_t at_ns, std::function<void()> fn, Group group = nullptr);

  // Returns true if the function will never be called; false if it was called, is being called, or
  // was cancelled before.
  bool Cancel(Id id);

  // Calls all due functions. Returns the time of the next timer, or -1 if there is none.
  int64_t RunDue();

  // Removes all timers without calling them.
  void Clear();

 private:
  friend class TimerThread;

  struct Timer {
    std::function<void()> fn;
    Group group = nullptr;
  };

  // At most this many due timers are sorted into groups at a time, which takes some microseconds.
  static constexpr int kSortedAtOnce = 256;

  void SortDue() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Takes the next due function; empty if none is due.
  std::function<void()> TakeDue() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The time of the next timer, which may have passed. kNever if there is none.
  static constexpr int64_t kNever = INT64_MAX;
  int64_t NextNanos() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Clock& clock_;
  Mutex mutex_;
  CondVar changed_;
  Id next_id_ ABSL_GUARDED_BY(mutex_) = 1;
  std::map<std::pair<int64_t, Id>, Timer> timers_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<Id, int64_t> times_ ABSL_GUARDED_BY(mutex_);
  // Due timers that were removed from timers_. The list of a group may contain ids that were
  // cancelled since.
  absl::flat_hash_map<Id, std::function<void()>> due_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<Group, std::deque<Id>> due_of_group_ ABSL_GUARDED_BY(mutex_);
  std::deque<Group> turns_ ABSL_GUARDED_BY(mutex_);  // groups that have a list
};

// Runs a TimerQueue on the real clock until it is destroyed. The queue must outlive it. After the
// destructor no function is being called; remaining timers stay in the queue.
//
// If `most_threads` is above one, a slow function does not delay others: another thread waits for
// the next timer meanwhile. So functions may run concurrently.
class TimerThread {
 public:
  explicit TimerThread(TimerQueue& queue, size_t most_threads = 1);
  ~TimerThread();
  TimerThread(const TimerThread&) = delete;
  TimerThread& operator=(const TimerThread&) = delete;

 private:
  void Hire() ABSL_EXCLUSIVE_LOCKS_REQUIRED(queue_.mutex_);
  void Loop();
  // Waits until a timer is due; only one thread does so at a time. Returns false if it must stop.
  // The thread counts as idle before this call and not after it.
  bool Lead() ABSL_EXCLUSIVE_LOCKS_REQUIRED(queue_.mutex_);
  // Lets another thread wait for the next timer, and starts one if none is idle.
  void HandOver() ABSL_EXCLUSIVE_LOCKS_REQUIRED(queue_.mutex_);

  TimerQueue& queue_;
  const size_t most_threads_;
  bool stopping_ ABSL_GUARDED_BY(queue_.mutex_) = false;
  bool led_ ABSL_GUARDED_BY(queue_.mutex_) = false;  // a thread waits for the next timer
  size_t idle_ ABSL_GUARDED_BY(queue_.mutex_) = 0;   // threads that wait to lead
  CondVar vacant_;                                   // no thread leads
  std::vector<std::thread> threads_ ABSL_GUARDED_BY(queue_.mutex_);
};

}  // namespace pto
