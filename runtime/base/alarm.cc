#include "runtime/base/alarm.h"

#include <utility>

namespace pto {

Alarm::Alarm(TimerQueue* timers, std::function<int64_t()> fn)
    : timers_(timers), state_(std::make_shared<State>()) {
  MutexLock lock(state_->mutex);
  state_->fn = std::move(fn);
}

Alarm::~Alarm() {
  if (state_->caller.load(std::memory_order_relaxed) == std::this_thread::get_id()) {
    // This thread has the lock. The function is still running.
    [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { state_->gone = true; }();
    return;
  }
  MutexLock lock(state_->mutex);
  state_->fn = nullptr;
}

void Alarm::Arm(int64_t at_ns) {
  int64_t none = 0;
  if (armed() || !state_->at_ns.compare_exchange_strong(none, at_ns, std::memory_order_acq_rel)) {
    return;
  }
  Schedule(*timers_, state_, at_ns);
}

void Alarm::Schedule(TimerQueue& timers, const std::shared_ptr<State>& state, int64_t at_ns) {
  timers.Schedule(at_ns, [&timers, state, at_ns] { Ring(timers, state, at_ns); });
}

void Alarm::Ring(TimerQueue& timers, const std::shared_ptr<State>& state, int64_t at_ns) {
  // From here on it can be armed again. This call may not see changes that come later. If the
  // timer is not the one that counts, an earlier one has replaced it.
  if (!state->at_ns.compare_exchange_strong(at_ns, 0, std::memory_order_seq_cst)) return;
  MutexLock lock(state->mutex);
  if (state->fn == nullptr) return;
  state->caller.store(std::this_thread::get_id(), std::memory_order_relaxed);
  const int64_t next = state->fn();
  state->caller.store(std::thread::id(), std::memory_order_relaxed);
  if (state->gone) {
    state->fn = nullptr;
    return;
  }
  if (next == 0) return;
  // It may have been armed meanwhile; the earlier time counts.
  int64_t armed = state->at_ns.load(std::memory_order_relaxed);
  do {
    if (armed != 0 && armed <= next) return;
  } while (!state->at_ns.compare_exchange_weak(armed, next, std::memory_order_acq_rel));
  Schedule(timers, state, next);
}

}  // namespace pto
