#pragma once

#include <cstddef>
#include <cstdint>
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
class TimerQueue {
 public:
  using Id = uint64_t;

  explicit TimerQueue(const Clock& clock) : clock_(clock) {}
  TimerQueue(const TimerQueue&) = delete;
  TimerQueue& operator=(const TimerQueue&) = delete;

  // Calls `fn` at `at_ns` of the clock. When that has passed, `fn` is called after all that is due:
  // so whoever has much to do can do it bit by bit, and others are called in between. Never
  // returns 0.
  Id Schedule(int64_t at_ns, std::function<void()> fn);

  // Returns true when the function will never be called; false when it was called, is being
  // called, or was cancelled before.
  bool Cancel(Id id);

  // Calls what is due. Returns the time of the next timer, or -1 when there is none.
  int64_t RunDue();

  // Drops all timers without calling them.
  void Clear();

 private:
  friend class TimerThread;

  // Takes the first one if it is due; else nothing.
  std::function<void()> TakeDue() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Clock& clock_;
  Mutex mutex_;
  CondVar changed_;
  Id next_id_ ABSL_GUARDED_BY(mutex_) = 1;
  std::map<std::pair<int64_t, Id>, std::function<void()>> timers_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<Id, int64_t> times_ ABSL_GUARDED_BY(mutex_);
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
