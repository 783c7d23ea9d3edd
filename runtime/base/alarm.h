#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>

#include "runtime/base/mutex.h"
#include "runtime/base/timer.h"

namespace pto {

// Calls a function at a given time; the function returns when to call it next. Uses one timer,
// however often it is armed. Thread-safe.
class Alarm {
 public:
  // `fn` returns when to call it next, or 0: not until it is armed again. It is called without
  // locks of the timers held, never concurrently with itself, and not after the destructor. It is
  // never called if `timers` is nullptr.
  Alarm(TimerQueue* timers, std::function<int64_t()> fn);
  // Waits until a call in progress returns, unless it is that call which destroys the alarm.
  ~Alarm();
  Alarm(const Alarm&) = delete;
  Alarm& operator=(const Alarm&) = delete;

  // Calls the function at `at_ns` of the timers' clock, which is not 0. Does nothing if a call is
  // already scheduled.
  void Arm(int64_t at_ns);
  // Whether Arm would do nothing.
  bool armed() const {
    return timers_ == nullptr || state_->at_ns.load(std::memory_order_seq_cst) != 0;
  }

 private:
  // Shared with the timer, which may outlive the alarm.
  struct State {
    Mutex mutex;
    std::function<int64_t()> fn ABSL_GUARDED_BY(mutex);  // empty: the alarm is gone
    std::atomic<int64_t> at_ns{0};                       // of the next call; 0: none is scheduled
    std::atomic<std::thread::id> caller{};               // the thread of a call in progress
    bool gone ABSL_GUARDED_BY(mutex) = false;            // the call has destroyed the alarm
  };

  static void Schedule(TimerQueue& timers, const std::shared_ptr<State>& state, int64_t at_ns);
  // The timer of `at_ns` has fired.
  static void Ring(TimerQueue& timers, const std::shared_ptr<State>& state, int64_t at_ns);

  TimerQueue* const timers_;
  const std::shared_ptr<State> state_;
};

}  // namespace pto
