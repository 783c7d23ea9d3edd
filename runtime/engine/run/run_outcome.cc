#include "runtime/engine/run/run_outcome.h"

#include <utility>

namespace pto::engine {

bool RunOutcome::Start(int64_t now_ns) {
  int64_t none = 0;
  if (!started_ns_.compare_exchange_strong(none, now_ns, std::memory_order_acq_rel)) return false;
  RunState queued = RunState::kQueued;
  state_.compare_exchange_strong(queued, RunState::kRunning, std::memory_order_acq_rel);
  return true;
}

RunState RunOutcome::End(uint64_t tasks, int64_t now_ns) {
  MutexLock lock(mutex_);
  RunState state = RunState::kFailed;
  if (done_.load(std::memory_order_relaxed) == tasks) {
    state = RunState::kSucceeded;
    errors_ = ErrorList();
  } else if (stop_.load(std::memory_order_relaxed)) {
    state = stop_state_;
  }
  ended_ns_.store(now_ns, std::memory_order_release);
  // Sequentially consistent, because Engine::Look depends on it.
  state_.store(state, std::memory_order_seq_cst);
  return state;
}

RunOutcome::Counts RunOutcome::counts() const {
  return {done_.load(std::memory_order_relaxed), failed_.load(std::memory_order_relaxed),
          skipped_.load(std::memory_order_relaxed), passed_over_.load(std::memory_order_relaxed),
          errors_unlisted_.load(std::memory_order_relaxed)};
}

void RunOutcome::AddError(absl::Status error) {
  MutexLock lock(mutex_);
  errors_.Add(std::move(error));
  errors_unlisted_.store(errors_.unlisted(), std::memory_order_relaxed);
}

std::vector<absl::Status> RunOutcome::errors() const {
  MutexLock lock(mutex_);
  return errors_.listed();
}

std::vector<absl::Status> RunOutcome::TakeUnlistedErrors() {
  if (errors_unlisted_.load(std::memory_order_relaxed) == 0) return {};
  MutexLock lock(mutex_);
  return errors_.TakeUnlisted();
}

void RunOutcome::Stop(RunState as, absl::Status error) {
  MutexLock lock(mutex_);
  if (stop_.load(std::memory_order_relaxed)) return;
  // The reason of the stop must always be listed.
  stop_error_ = errors_.AddListed(std::move(error));
  stop_state_ = as;
  stop_.store(true, std::memory_order_release);
  state_.store(RunState::kCancelling, std::memory_order_release);
}

absl::Status RunOutcome::stop_error() const {
  MutexLock lock(mutex_);
  const std::vector<absl::Status>& errors = errors_.listed();
  return stop_error_ < errors.size() ? errors[stop_error_] : absl::OkStatus();
}

void RunOutcome::SayWhere(absl::FunctionRef<absl::Status(const absl::Status&)> add) {
  MutexLock lock(mutex_);
  if (stop_error_ >= errors_.listed().size() || says_where_) return;
  says_where_ = true;
  absl::Status& error = errors_.at(stop_error_);
  error = add(error);
}

}  // namespace pto::engine
