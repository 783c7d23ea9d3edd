#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "runtime/base/mutex.h"
#include "runtime/engine/account.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/run.h"
#include "runtime/graph/open_graph.h"

namespace pto {

// Is told what becomes of an open run. Called from engine threads, without locks held; must not
// block.
class OpenRunObserver {
 public:
  virtual ~OpenRunObserver() = default;
  virtual std::string name() const = 0;
  // Ends of tasks, with their numbers in the whole graph.
  virtual void OnRecords(absl::Span<const TaskRecord> records) = 0;
  // A segment has ended: there may be room for more tasks.
  virtual void OnRoom() = 0;
  // The run was closed or stopped, and all its tasks have ended.
  virtual void OnFinished() = 0;
};

// The execution of a graph that grows. Each segment of an OpenGraph is an engine's run of its
// own, which begins at once; its tasks wait for tasks of earlier segments by links (RunLinker).
// When a segment has ended well nothing of it is kept but its counts; those with failed tasks
// stay, so that later consumers are skipped. So memory depends on the tasks that have not ended;
// who appends holds back when live_tasks() is too many, until OnRoom, and tells the OpenGraph by
// ForgetBefore(ended_before()) what it need not remember.
//
// Append, Close: one thread at a time, the one that fills the OpenGraph. All else: thread-safe.
class OpenRun : public std::enable_shared_from_this<OpenRun> {
 public:
  struct Options {
    Engine* engine = nullptr;
    std::shared_ptr<OpenRunObserver> observer;
    RecordLevel record_level = RecordLevel::kAll;
    // As in RunSpec, for all segments. A limit for the whole run is its owner's, who stops it.
    int64_t task_timeout_ns = 0;
    int64_t wait_timeout_ns = 0;
    Priority priority = Priority::kNormal;
    std::shared_ptr<Account> account;
  };

  static std::shared_ptr<OpenRun> Make(Options options);

  // Begins a segment; `slots` are those of its image. Does nothing when the run was stopped.
  void Append(const GraphSegment& segment, std::shared_ptr<const RunSlots> slots);
  // There are no more segments: the run ends with its last task.
  void Close();
  // Stops all that has not ended; the run ends as `as` with `error`, unless it has ended.
  void Stop(RunState as, absl::Status error);

  // kQueued before the first segment, then kRunning, then how it ended.
  RunState state() const;
  Run::Counts counts() const;
  // The first error and up to 16 more.
  std::vector<absl::Status> errors() const;
  // Tasks that were appended and whose segments have not ended.
  uint64_t live_tasks() const;
  // Segments that are kept.
  size_t kept_segments() const;
  // All tasks below this one have ended well.
  uint32_t ended_before() const;

 private:
  static constexpr size_t kMaxErrors = 17;
  class SegmentObserver;
  struct Segment {
    uint32_t first_task = 0;
    std::shared_ptr<Run> run;  // nullptr when it has ended well
    bool accepted = false;
    bool ended = false;
  };

  explicit OpenRun(Options options) : options_(std::move(options)) {}
  // The run of the segment that has the task, and the task's number in it; nullptr when it has
  // ended well.
  std::shared_ptr<Run> FindRun(uint32_t task, uint32_t* own) const;
  void OnSegmentEnded(uint32_t first_task, Run& run);
  // Whether the run has ended by what happened just now.
  bool EndLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Options options_;
  mutable Mutex mutex_;
  std::deque<Segment> segments_ ABSL_GUARDED_BY(mutex_);  // oldest first
  uint32_t next_task_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t live_tasks_ ABSL_GUARDED_BY(mutex_) = 0;
  Run::Counts counts_ ABSL_GUARDED_BY(mutex_);
  std::vector<absl::Status> errors_ ABSL_GUARDED_BY(mutex_);
  RunState state_ ABSL_GUARDED_BY(mutex_) = RunState::kQueued;
  RunState stop_state_ ABSL_GUARDED_BY(mutex_) = RunState::kCancelled;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace pto
