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

namespace pto {

// What becomes of a run: its state, when it started and ended, how many tasks ended how, what went
// wrong, and whether it was stopped. Thread-safe.
class RunOutcome {
 public:
  struct Counts {
    uint64_t done = 0;
    uint64_t failed = 0;
    uint64_t skipped = 0;
    uint64_t passed_over = 0;      // of those that are done
    uint64_t errors_unlisted = 0;  // beyond those that errors() has
  };

  // ---- state and times, which are 0 while they have not come
  RunState state(std::memory_order order = std::memory_order_acquire) const {
    return state_.load(order);
  }
  int64_t begun_ns() const { return begun_ns_.load(std::memory_order_acquire); }
  int64_t started_ns() const { return started_ns_.load(std::memory_order_acquire); }
  int64_t ended_ns() const { return ended_ns_.load(std::memory_order_acquire); }

  void NoteBegin(int64_t now_ns) { begun_ns_.store(now_ns, std::memory_order_release); }
  // The first task starts. Returns whether this was the first call.
  bool Start(int64_t now_ns);
  // The run has ended: it has succeeded if all its tasks are done. Returns the final state.
  RunState End(uint64_t tasks, int64_t now_ns);

  // ---- tasks that have ended
  Counts counts() const;
  void AddDone(uint64_t count) { done_.fetch_add(count, std::memory_order_relaxed); }
  void AddFailed() { failed_.fetch_add(1, std::memory_order_relaxed); }
  void AddSkipped() { skipped_.fetch_add(1, std::memory_order_relaxed); }
  void AddPassedOver() { passed_over_.fetch_add(1, std::memory_order_relaxed); }

  // ---- errors
  void AddError(absl::Status error);
  // The first error and up to 16 more in order of time, and why it was stopped.
  std::vector<absl::Status> errors() const;
  // Takes the errors beyond those that have come since the last time.
  std::vector<absl::Status> TakeUnlistedErrors();

  // ---- the stop
  // Nothing new starts from now on; the run ends as `as`. Only the first call counts.
  void Stop(RunState as, absl::Status error);
  bool stopping() const { return stop_.load(std::memory_order_acquire); }
  // What kernels see as their cancel flag.
  const std::atomic<bool>* stop_flag() const { return &stop_; }
  // The error that it was stopped with; OK when it was not.
  absl::Status stop_error() const;
  // Lets `add` say in that error where the stop met a task. Only the first call counts.
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
  // What the run ends as when it was stopped.
  RunState stop_state_ ABSL_GUARDED_BY(mutex_) = RunState::kCancelled;
  // Which of the errors says why, and whether it also says where it met a task.
  size_t stop_error_ ABSL_GUARDED_BY(mutex_) = SIZE_MAX;
  bool says_where_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace pto
