#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "runtime/base/mutex.h"
#include "runtime/engine/run/error_list.h"
#include "runtime/engine/run/run_state.h"

namespace pto::engine {

// The outcome of a run: state, start and end, how many tasks ended how, errors, and whether it was
// stopped. Thread-safe.
class RunOutcome {
 public:
  struct Counts {
    uint64_t done = 0;
    uint64_t failed = 0;
    uint64_t skipped = 0;
    uint64_t passed_over = 0;      // included in `done`
    uint64_t errors_unlisted = 0;  // not in errors()
  };

  // ---- state and times; a time is 0 until it is known
  RunState state(std::memory_order order = std::memory_order_acquire) const {
    return state_.load(order);
  }
  int64_t begun_ns() const { return begun_ns_.load(std::memory_order_acquire); }
  int64_t started_ns() const { return started_ns_.load(std::memory_order_acquire); }
  int64_t ended_ns() const { return ended_ns_.load(std::memory_order_acquire); }

  void NoteBegin(int64_t now_ns) { begun_ns_.store(now_ns, std::memory_order_release); }
  // The first task starts. Returns true for the first call.
  bool Start(int64_t now_ns);
  // The run has ended. It has succeeded if all tasks are done. Returns the final state.
  RunState End(uint64_t tasks, int64_t now_ns);

  // ---- tasks that have ended
  Counts counts() const;
  void AddDone(uint64_t count) { done_.fetch_add(count, std::memory_order_relaxed); }
  void AddFailed() { failed_.fetch_add(1, std::memory_order_relaxed); }
  void AddSkipped() { skipped_.fetch_add(1, std::memory_order_relaxed); }
  void AddPassedOver() { passed_over_.fetch_add(1, std::memory_order_relaxed); }

  // ---- errors
  void AddError(absl::Status error);
  // The first error and up to 16 more, ordered by time, and the reason of the stop.
  std::vector<absl::Status> errors() const;
  // Takes the unlisted errors since the last call.
  std::vector<absl::Status> TakeUnlistedErrors();

  // ---- the stop
  // No new task starts from now on; the run ends as `as`. Only the first call has an effect.
  void Stop(RunState as, absl::Status error);
  bool stopping() const { return stop_.load(std::memory_order_acquire); }
  // The cancel flag that kernels see.
  const std::atomic<bool>* stop_flag() const { return &stop_; }
  // The error of the stop; OK if the run was not stopped.
  absl::Status stop_error() const;
  // Lets `add` extend that error with the place where the stop met a task. Only the first call has
  // an effect.
  void SayWhere(absl::FunctionRef<absl::Status(const absl::Status&)> add);

 private:
  std::atomic<RunState> state_{RunState::kQueued};
  std::atomic<int64_t> started_ns_{0};
  std::atomic<int64_t> ended_ns_{0};
  std::atomic<int64_t> begun_ns_{0};
  std::atomic<uint64_t> done_{0};
  std::atomic<uint64_t> failed_{0};
  std::atomic<uint64_t> skipped_{0};
  std::atomic<uint64_t> passed_over_{0};
  std::atomic<uint64_t> errors_unlisted_{0};  // written under mutex_
  std::atomic<bool> stop_{false};             // set once

  mutable Mutex mutex_;
  ErrorList errors_ ABSL_GUARDED_BY(mutex_);
  // The final state of a stopped run.
  RunState stop_state_ ABSL_GUARDED_BY(mutex_) = RunState::kCancelled;
  // The index of the stop's error, and whether that error was extended by SayWhere.
  size_t stop_error_ ABSL_GUARDED_BY(mutex_) = SIZE_MAX;
  bool says_where_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace pto::engine
