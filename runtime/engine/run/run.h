#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/fixed_array.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "runtime/base/mutex.h"
#include "runtime/base/timer.h"
#include "runtime/chip/device_memory.h"
#include "runtime/engine/run/account.h"
#include "runtime/engine/run/errand_flow.h"
#include "runtime/engine/run/error_list.h"
#include "runtime/engine/run/flow.h"
#include "runtime/engine/run/long_tasks.h"
#include "runtime/engine/run/priority.h"
#include "runtime/engine/run/record_block.h"
#include "runtime/engine/run/task_counters.h"
#include "runtime/graph/image.h"

namespace pto {

class Run;
class TaskLinks;

enum class RunState { kQueued = 1, kRunning, kCancelling, kSucceeded, kFailed, kCancelled };
inline bool IsFinal(RunState state) { return state >= RunState::kSucceeded; }

// Which ends of tasks a run keeps records of.
enum class RecordLevel { kNone, kFailed, kAll };

// Is told what becomes of a run. Called from engine threads, without locks held, and never
// after OnFinished has returned. Must not block.
class RunObserver {
 public:
  virtual ~RunObserver() = default;
  // What the run is called in messages and logs. From any thread, without locks.
  virtual std::string name() const = 0;
  // Whether tasks may still come that belong to the same whole: see OpenRun. Likewise.
  virtual bool open() const { return false; }
  // Whether such tasks cannot come as long as too many are there that have not ended. Likewise.
  virtual bool held_back() const { return false; }
  // Whether tasks of that whole have come that wait for their turn: no more are taken meanwhile.
  // And the first task of the part of the same whole that they wait for, if they do. Likewise.
  static constexpr uint32_t kNoTask = 0xffffffff;
  virtual bool next_waits() const { return false; }
  virtual uint32_t next_waits_for() const { return kNoTask; }
  // Whether somebody stops that whole when its time is up. Likewise.
  virtual bool has_deadline() const { return false; }
  // The number of the run's first task in that whole. Likewise.
  virtual uint32_t first_task() const { return 0; }
  // For those who put runs in order: the run's number among those of its account, 0 when it has
  // none, and the numbers of those that go first, each before this one begins or, of a whole, what
  // comes next of it; 0 is none, and some may have ended. Likewise.
  static constexpr size_t kShownBefore = 4;
  virtual uint64_t order_number() const { return 0; }
  virtual uint64_t goes_after(size_t /*i*/) const { return 0; }
  // The first task starts.
  virtual void OnStarted(Run& run) = 0;
  // `waiting` records wait to be taken: the first one, or one batch more. A hint; none is lost
  // without it.
  virtual void OnRecords(Run& run, size_t waiting) = 0;
  // The run has ended; state, counts, errors and records are final.
  virtual void OnFinished(Run& run) = 0;
};

// Memory of one slot of an image, and where in it the slot begins.
struct RunSlot {
  std::shared_ptr<MemoryBlock> memory;
  uint64_t offset_bytes = 0;
  // What the memory is called, for those who explain; lives as long as the slots. May be empty.
  absl::string_view name = {};
};
using RunSlots = std::vector<RunSlot>;

// What to execute. Everything in it lives at least as long as the run.
struct RunSpec {
  std::shared_ptr<const GraphImage> image;
  // One for each of the image's; launches share what did not change. May be nullptr when the
  // image has none.
  std::shared_ptr<const RunSlots> slots;
  // Values of the image's named scalars; empty means the image's own.
  std::vector<uint64_t> named_scalars;
  RecordLevel record_level = RecordLevel::kAll;
  // From acceptance to the end; 0 means no limit.
  int64_t timeout_ns = 0;
  // From acceptance to the start of the first task; 0 means no limit.
  int64_t queue_timeout_ns = 0;
  // From the start of a task to its end, for tasks without a time of their own; 0: no limit.
  int64_t task_timeout_ns = 0;
  // For waits without a time of their own; 0 means no limit.
  int64_t wait_timeout_ns = 0;
  Priority priority = Priority::kNormal;
  // Whose share of the chips it uses; nullptr: one that all such runs share.
  std::shared_ptr<Account> account;
  std::shared_ptr<RunObserver> observer;
};

// One execution of a graph. Made by Engine::Prepare, then shared between the engine and whoever
// asked for it. All public methods are thread-safe.
class Run : public std::enable_shared_from_this<Run> {
 public:
  struct Counts {
    uint64_t done = 0;
    uint64_t failed = 0;
    uint64_t skipped = 0;
    uint64_t passed_over = 0;      // of those that are done
    uint64_t errors_unlisted = 0;  // beyond those that errors() has
  };

  Run(RunSpec spec, int64_t accepted_ns);
  ~Run();
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  // Only while it is running.
  std::string name() const { return spec_.observer == nullptr ? "" : spec_.observer->name(); }
  const GraphImage& image() const { return *spec_.image; }
  // For who looks at the image longer than the run is there.
  const std::shared_ptr<const GraphImage>& shared_image() const { return spec_.image; }
  RecordLevel record_level() const { return spec_.record_level; }
  RunState state() const { return state_.load(std::memory_order_acquire); }
  Counts counts() const;
  // Times of the engine's clock; 0 while they have not come.
  int64_t accepted_ns() const { return accepted_ns_; }
  int64_t started_ns() const { return started_ns_.load(std::memory_order_acquire); }
  int64_t ended_ns() const { return ended_ns_.load(std::memory_order_acquire); }
  // When its turn came; known of some runs only, else 0.
  int64_t begun_ns() const { return begun_ns_.load(std::memory_order_acquire); }

  Priority priority() const { return spec_.priority; }
  // Its limits, as in RunSpec; and whether it is stopped when a time has come, as far as that is
  // known now.
  int64_t task_timeout_ns() const { return spec_.task_timeout_ns; }
  int64_t wait_timeout_ns() const { return spec_.wait_timeout_ns; }
  bool has_deadline() const {
    return spec_.timeout_ns > 0 || (spec_.queue_timeout_ns > 0 && started_ns() == 0);
  }
  // Bits of a scalar of the image, as this run has it: see GraphImage::scalar_refs.
  uint64_t scalar(uint32_t ref) const {
    return ref < spec_.named_scalars.size() ? spec_.named_scalars[ref]
                                            : spec_.image->scalar_values()[ref];
  }
  const std::shared_ptr<Account>& account() const { return spec_.account; }

  // Whether it was stopped before its end.
  bool stop_requested() const { return stopping(); }

  // The first error and up to 16 more in order of time, and why it was stopped. Empty while all is
  // well.
  std::vector<absl::Status> errors() const;
  // Takes the errors beyond those that have come since the last time.
  std::vector<absl::Status> TakeUnlistedErrors();
  // The one that it was stopped with; OK when it was not.
  absl::Status stop_error() const;

  // This many records at once are worth a call of OnRecords.
  static constexpr size_t kRecordBatch = RecordBlocks::kMaxBlock;

  // Takes the records that have come since the last time, in order of the tasks' ends.
  std::vector<RecordBlock> TakeRecords() { return records_.Take(); }

 private:
  friend class AsyncCopy;
  friend class BlockRunner;
  friend class Condition;
  friend class Engine;
  friend class ErrandQueue;
  friend class JointTask;
  friend class KernelApi;
  friend class PlainCalls;
  friend class ReadyQueue;
  friend class RunLinker;
  friend class Scheduler;
  friend class Services;
  friend class StopNote;
  friend class TaskData;
  friend class TaskWaiter;
  friend class Worker;

  // The counter of a task counts first the dependencies that it has met (MetDependencies), and then
  // the calls and the conditions that are left; of a plain task of one call only while it has
  // conditions. Of the latter, the highest bit says that one of them has failed.
  static constexpr uint32_t kFailedBit = 1u << 31;

  Flow& flow(uint32_t chip, pto_core kind) {
    return flows_[spec_.image->place_of_chip(chip) * 3 + static_cast<uint32_t>(kind) - 1];
  }
  // Whether a task is more than calls of plain kernels, here where all may have a deadline.
  bool IsSlow(uint32_t task) const {
    return !spec_.image->tasks()[task].plain() || spec_.task_timeout_ns > 0;
  }
  // Whether its blocks run on fibers, which only executors have.
  bool NeedsFiber(uint32_t task) const {
    return (spec_.image->tasks()[task].traits & (kTaskWaits | kTaskBlocks)) == kTaskWaits;
  }
  MetDependencies met(uint32_t task) {
    return MetDependencies(counters_[task], spec_.image->tasks()[task].dependencies);
  }
  bool stopping() const { return stop_.load(std::memory_order_acquire); }
  void AddError(absl::Status error);
  // Keeps the run from ending until it is taken back from `outstanding_`. Fails when it has.
  bool Hold();

  RunSpec spec_;
  const int64_t accepted_ns_;
  std::atomic<RunState> state_{RunState::kQueued};
  std::atomic<int64_t> started_ns_{0};
  std::atomic<int64_t> ended_ns_{0};
  std::atomic<int64_t> begun_ns_{0};
  // Tasks that are ready or running. The run ends when there are none.
  std::atomic<int64_t> outstanding_{0};
  std::atomic<uint64_t> done_{0};
  std::atomic<uint64_t> failed_{0};
  std::atomic<uint64_t> skipped_{0};
  std::atomic<uint64_t> passed_over_{0};
  std::atomic<uint64_t> errors_unlisted_{0};  // written under mutex_
  // Set once: nothing new starts. What kernels see as their cancel flag.
  std::atomic<bool> stop_{false};
  // Set once, by its beginning or by the stop of a run that has not begun.
  std::atomic<bool> begun_{false};
  // Set once, under the engine's lock: the run is in the engine's list, and can end.
  std::atomic<bool> accepted_{false};
  // Of those in `outstanding_`: gangs that wait for their cores, and tasks of other runs that are
  // waited for.
  std::atomic<int64_t> gangs_waiting_{0};
  std::atomic<int64_t> links_waiting_{0};

  // The engine's list of runs that have not ended; changed under the engine's lock, read by
  // Engine::Look without it. A run in it owns itself.
  std::shared_ptr<Run> self_;
  Run* previous_ = nullptr;
  std::atomic<Run*> next_{nullptr};
  Run* next_kept_ = nullptr;  // of those that ended under the eyes of Look

  // Who waits for its tasks outside of it; nullptr for most runs, where nobody can.
  std::unique_ptr<TaskLinks> links_;
  // Tasks that wait for tasks of earlier runs, which had not ended when this one was accepted: for
  // those who explain. Not changed after that; the earlier run is only to be compared.
  struct LinkBefore {
    uint32_t task = 0;
    uint32_t before_task = 0;
    const Run* before = nullptr;
  };
  std::vector<LinkBefore> links_before_;
  // Roots that wait for tasks of other runs, rising. Their counters count the beginning too.
  std::vector<uint32_t> held_roots_;

  TaskCounters counters_;
  // When the first block of a task started; only for graphs with tasks of several blocks.
  std::unique_ptr<std::atomic<int64_t>[]> block_starts_;
  // Ready tasks wait in lists that run through this array. A few need no memory of their own.
  absl::FixedArray<ReadyLink, 4> next_ready_;
  // Three for each chip of the image, in its order.
  absl::FixedArray<Flow, 3> flows_;

  ErrandFlow errands_;

  mutable Mutex mutex_;
  ErrorList errors_ ABSL_GUARDED_BY(mutex_);
  // What the run ends as when it was stopped.
  RunState stop_state_ ABSL_GUARDED_BY(mutex_) = RunState::kCancelled;
  // Which of the errors says why, and whether it also says where it met a task.
  size_t stop_error_ ABSL_GUARDED_BY(mutex_) = SIZE_MAX;
  bool says_where_ ABSL_GUARDED_BY(mutex_) = false;
  TimerQueue::Id deadline_timer_ ABSL_GUARDED_BY(mutex_) = 0;
  TimerQueue::Id queue_timer_ ABSL_GUARDED_BY(mutex_) = 0;

  LongTasks long_tasks_;

  RecordBlocks records_;
};

}  // namespace pto
