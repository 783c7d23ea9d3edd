#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>

#include "runtime/base/mutex.h"
#include "runtime/base/timer.h"

namespace pto {

// A function that is called at a time, says when to call it next, and is idle otherwise. One timer
// at most, however often it is armed. Thread-safe.
class Alarm {
 public:
  // `fn` returns when to be called next, or 0 for not before it is armed again. It is called
  // without any lock of the timers held, never twice at a time, and never after the destructor.
  // Without timers it is never called.
  Alarm(TimerQueue* timers, std::function<int64_t()> fn);
  // Waits for a call that is being made.
  ~Alarm();
  Alarm(const Alarm&) = delete;
  Alarm& operator=(const Alarm&) = delete;

  // Calls the function at `at_ns` of the timers' clock, unless a call is to come anyway.
  void Arm(int64_t at_ns);
  // Whether that would do nothing.
  bool armed() const { return timers_ == nullptr || state_->armed.load(std::memory_order_seq_cst); }

 private:
  // Lives as long as the last timer that knows of it.
  struct State {
    Mutex mutex;
    std::function<int64_t()> fn ABSL_GUARDED_BY(mutex);  // empty: the alarm is gone
    std::atomic<bool> armed{false};
  };

  static void Schedule(TimerQueue& timers, const std::shared_ptr<State>& state, int64_t at_ns);
  static void Ring(TimerQueue& timers, const std::shared_ptr<State>& state);

  TimerQueue* const timers_;
  const std::shared_ptr<State> state_;
};

}  // namespace pto
