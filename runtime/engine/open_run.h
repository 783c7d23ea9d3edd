#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "runtime/base/clock.h"
#include "runtime/base/mutex.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/run/account.h"
#include "runtime/engine/run/completions.h"
#include "runtime/engine/run/record_block.h"
#include "runtime/engine/run/run.h"
#include "runtime/graph/open_graph.h"

namespace pto::engine {

// Receives the progress of an open run. Called without locks held, by the same threads as a
// RunObserver. Must not block.
class OpenRunObserver {
 public:
  virtual ~OpenRunObserver() = default;
  virtual std::string name() const = 0;
  // As those of RunObserver; from any thread, without locks.
  virtual bool held_back() const { return false; }
  virtual bool next_waits() const { return false; }
  virtual uint32_t next_waits_for() const { return RunObserver::kNoTask; }
  virtual bool has_deadline() const { return false; }
  virtual uint64_t order_number() const { return 0; }
  virtual uint64_t goes_after(size_t /*i*/) const { return 0; }
  // The first task starts.
  virtual void OnStarted() {}
  // `waiting` records wait to be taken: the first one, or one batch more. A hint; none is lost
  // without it.
  virtual void OnRecords(size_t waiting) = 0;
  // The segment that begins with this task was accepted, so the engine shows it to all who ask, and
  // nothing of it has begun. An error fails the run instead.
  virtual absl::Status CheckSegment(uint32_t /*first_task*/) { return absl::OkStatus(); }
  // The segment that begins with this task begins next, unless it is stopped: then its end may be
  // told before this. Not for one that comes when the run has been stopped.
  virtual void OnSegmentBegins(uint32_t /*first_task*/) {}
  // Whether that may take long, so that another thread has to do it.
  virtual bool BeginsLong(uint32_t /*first_task*/) { return false; }
  // The segment that begins with this task has ended as `run`: there may be room for more. Only the
  // last step of CompletionStep: the other steps are for the open run as a whole.
  virtual void OnSegmentEnded(uint32_t first_task, const Run& run, Completions& completions) = 0;

  // ---- the run was closed or stopped, and OnSegmentEnded has returned for all its segments
  // As in RunObserver. A segment that waits to be appended may end with the run.
  virtual void RecordEnd(Completions& /*completions*/) {}
  virtual void TellEnd() {}
  virtual void AnswerEnd() {}
  virtual void OnFinished(Completions& completions) = 0;
};

// The execution of a graph that grows. Each segment of an OpenGraph is an engine's run of its
// own, which begins at once; its tasks wait for tasks of earlier segments by links (RunLinker).
// When a segment has ended well nothing of it is kept but its counts; those with failed tasks
// stay, so that later consumers are skipped. So memory depends on the tasks that have not ended,
// and on the segments that failed; who appends holds back when live_tasks() is too many, until
// OnSegmentEnded, and tells the OpenGraph by ForgetBefore(ended_before()) what it need not
// remember.
//
// A function that gets a completion queue adds the runs that end by it, and does not drain it: see
// Engine. Append, Close: one thread at a time. All else: thread-safe.
class OpenRun : public std::enable_shared_from_this<OpenRun> {
 public:
  struct Options {
    Engine* engine = nullptr;
    const Clock* clock = &Clock::Real();
    std::shared_ptr<OpenRunObserver> observer;  // until the run has ended
    RecordLevel record_level = RecordLevel::kAll;
    // As in RunSpec, for all segments. A limit for the whole run is its owner's, who stops it.
    int64_t task_timeout_ns = 0;
    int64_t wait_timeout_ns = 0;
    Priority priority = Priority::kNormal;
    std::shared_ptr<Account> account;
  };

  static std::shared_ptr<OpenRun> Make(Options options);

  // Begins a segment; `slots` are those of its image. Returns false, and does nothing, when the
  // run was stopped.
  // `named_scalars` as in RunSpec.
  bool Append(const GraphSegment& segment, std::shared_ptr<const RunSlots> slots,
              Completions& completions, std::vector<uint64_t> named_scalars = {});
  bool Append(const GraphSegment& segment, std::shared_ptr<const RunSlots> slots) {
    Completions completions;
    return Append(segment, std::move(slots), completions);
  }
  // There are no more segments: the run ends with its last task.
  void Close();
  // Stops all that has not ended; the run ends as `as` with `error`, unless it has ended.
  void Stop(RunState as, absl::Status error, Completions& completions);
  void Stop(RunState as, absl::Status error) {
    Completions completions;
    Stop(as, std::move(error), completions);
  }

  // kQueued before the first task starts, then kRunning, perhaps kCancelling, then how it ended.
  RunState state() const;
  Run::Counts counts() const;
  // The first error and up to 16 more, and why it was stopped.
  std::vector<absl::Status> errors() const;
  // Takes the errors beyond those of segments that have ended since the last time.
  std::vector<absl::Status> TakeUnlistedErrors();
  // Times of the clock; 0 while they have not come.
  int64_t accepted_ns() const { return accepted_ns_; }
  int64_t started_ns() const;
  int64_t ended_ns() const;
  // Tasks that were appended.
  uint32_t tasks() const;
  // Tasks that were appended and whose segments have not ended.
  uint64_t live_tasks() const;
  // Tasks of the segments that are kept because some of them failed.
  uint64_t failed_segment_tasks() const;
  // Segments that are kept.
  size_t kept_segments() const;
  // All tasks below this one have ended well.
  uint32_t ended_before() const;

  // Takes the records that have come since the last time, with the tasks' numbers in the whole
  // graph and times after the run's acceptance.
  std::vector<RecordBlock> TakeRecords();

 private:
  class SegmentObserver;
  // The run as a link of a completion queue.
  class End final : public Completion {
   public:
    explicit End(OpenRun& run) : run_(run) {}
    void Complete(CompletionStep step, Completions& completions) override {
      run_.Complete(step, completions);
    }

   private:
    OpenRun& run_;
  };
  struct Segment {
    std::shared_ptr<Run> run;
    bool accepted = false;
    bool ended = false;           // not well: else it is not kept
    size_t errors_taken = 0;      // of those that its run lists
    uint64_t unlisted_taken = 0;  // of the others
  };
  // A run that has records, unless it has ended.
  struct Recorded {
    uint32_t first_task = 0;
    std::weak_ptr<Run> run;
  };

  explicit OpenRun(Options options);
  // The run of the segment that has the task, and the task's number in it; nullptr when it has
  // ended well.
  std::shared_ptr<Run> FindRun(uint32_t task, uint32_t* own) const;
  void OnStarted(Run& run);
  void OnRecords(uint32_t first_task, Run& run, size_t waiting);
  void OnSegmentEnded(uint32_t first_task, Run& run, Completions& completions);
  // Moves what has come of the segment's records to the run's. As RecordBlocks::Add.
  size_t Gather(uint32_t first_task, Run& run);
  void AddCounts(const Run& run, Run::Counts* counts) const;
  // What has to be stopped, now that the run is.
  std::vector<std::shared_ptr<Run>> StopLocked(RunState as, const absl::Status& error)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Takes over what has gone wrong in a segment since the last time; of it, `stop` tells why the
  // run is stopped, unless it is OK.
  void TakeErrorsLocked(Segment& segment, const absl::Status& stop)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Those that are listed now, with those of segments that have not ended; counts those for which
  // there is no room.
  std::vector<absl::Status> ListErrorsLocked(uint64_t* left_out) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // How many errors of a segment are not listed and have not been taken.
  static uint64_t LeftBehind(const Segment& segment) {
    return segment.run->counts().errors_unlisted - segment.unlisted_taken;
  }
  // All segments that were stopped with the run tell the same, and perhaps which task it met where.
  bool IsStopErrorLocked(const absl::Status& error) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Takes over an error of a segment. Of those that tell why the run was stopped there is one: the
  // first that tells of a place takes the place of the one without.
  void TakeErrorLocked(absl::Status error) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Takes over what has gone wrong so far in segments that have not ended, so that it is told
  // before what comes now.
  void TakeAllErrorsLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether the run has ended by what happened just now.
  bool EndLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The run has ended.
  void Finish(Completions& completions);
  void Complete(CompletionStep step, Completions& completions);

  Options options_;  // the observer goes at the end
  // The same, for those who look without locks, at any time.
  const std::weak_ptr<OpenRunObserver> whole_;
  const std::string name_;
  const int64_t accepted_ns_;
  RecordBlocks records_;
  mutable Mutex mutex_;
  std::map<uint32_t, Segment> segments_ ABSL_GUARDED_BY(mutex_);  // by their first tasks
  std::vector<Recorded> recorded_ ABSL_GUARDED_BY(mutex_);
  uint32_t next_task_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t live_tasks_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t failed_segment_tasks_ ABSL_GUARDED_BY(mutex_) = 0;
  Run::Counts counts_ ABSL_GUARDED_BY(mutex_);  // of the segments that have ended
  ErrorList errors_ ABSL_GUARDED_BY(mutex_);
  int64_t started_ns_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t ended_ns_ ABSL_GUARDED_BY(mutex_) = 0;
  RunState state_ ABSL_GUARDED_BY(mutex_) = RunState::kQueued;
  RunState stop_state_ ABSL_GUARDED_BY(mutex_) = RunState::kCancelled;
  absl::Status stop_error_ ABSL_GUARDED_BY(mutex_);
  // Ends of segments that the observer is being told of.
  uint32_t telling_ ABSL_GUARDED_BY(mutex_) = 0;
  std::atomic<bool> closed_{false};  // written under mutex_
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  // The end of the run. Only for the thread whose completion queue it is in.
  End end_{*this};
  std::shared_ptr<OpenRun> self_;  // while it is in a queue
};

}  // namespace pto::engine
