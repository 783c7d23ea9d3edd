#include "runtime/base/alarm.h"

#include <utility>

namespace pto {

Alarm::Alarm(TimerQueue* timers, std::function<int64_t()> fn)
    : timers_(timers), state_(std::make_shared<State>()) {
  MutexLock lock(state_->mutex);
  state_->fn = std::move(fn);
}

Alarm::~Alarm() {
  MutexLock lock(state_->mutex);
  state_->fn = nullptr;
}

void Alarm::Arm(int64_t at_ns) {
  if (armed() || state_->armed.exchange(true, std::memory_order_acq_rel)) return;
  Schedule(*timers_, state_, at_ns);
}

void Alarm::Schedule(TimerQueue& timers, const std::shared_ptr<State>& state, int64_t at_ns) {
  timers.Schedule(at_ns, [&timers, state] { Ring(timers, state); });
}

void Alarm::Ring(TimerQueue& timers, const std::shared_ptr<State>& state) {
  // From here on it can be armed again. This call may not see changes that come later.
  state->armed.store(false, std::memory_order_seq_cst);
  MutexLock lock(state->mutex);
  if (state->fn == nullptr) return;
  const int64_t next = state->fn();
  if (next == 0 || state->armed.exchange(true, std::memory_order_acq_rel)) return;
  Schedule(timers, state, next);
}

}  // namespace pto
