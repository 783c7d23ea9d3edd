#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "runtime/chip/device_memory.h"
#include "runtime/engine/run/account.h"
#include "runtime/engine/run/errand_flow.h"
#include "runtime/engine/run/long_tasks.h"
#include "runtime/engine/run/priority.h"
#include "runtime/engine/run/record_block.h"
#include "runtime/engine/run/run_deadlines.h"
#include "runtime/engine/run/run_life.h"
#include "runtime/engine/run/run_links.h"
#include "runtime/engine/run/run_outcome.h"
#include "runtime/engine/run/run_state.h"
#include "runtime/engine/run/run_tasks.h"
#include "runtime/graph/image.h"

namespace pto {

class Run;

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
// asked for it. All public methods are thread-safe, but for the parts at the end, which are for the
// engine: each of them says who may change it.
class Run : public std::enable_shared_from_this<Run> {
 public:
  using Counts = RunOutcome::Counts;

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
  RunState state() const { return outcome_.state(); }
  Counts counts() const { return outcome_.counts(); }
  // Times of the engine's clock; 0 while they have not come.
  int64_t accepted_ns() const { return accepted_ns_; }
  int64_t started_ns() const { return outcome_.started_ns(); }
  int64_t ended_ns() const { return outcome_.ended_ns(); }
  // When its turn came; known of some runs only, else 0.
  int64_t begun_ns() const { return outcome_.begun_ns(); }

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
  bool stop_requested() const { return outcome_.stopping(); }

  // The first error and up to 16 more in order of time, and why it was stopped. Empty while all is
  // well.
  std::vector<absl::Status> errors() const { return outcome_.errors(); }
  // Takes the errors beyond those that have come since the last time.
  std::vector<absl::Status> TakeUnlistedErrors() { return outcome_.TakeUnlistedErrors(); }
  // The one that it was stopped with; OK when it was not.
  absl::Status stop_error() const { return outcome_.stop_error(); }

  // This many records at once are worth a call of OnRecords.
  static constexpr size_t kRecordBatch = RecordBlocks::kMaxBlock;

  // Takes the records that have come since the last time, in order of the tasks' ends.
  std::vector<RecordBlock> TakeRecords() { return records_.Take(); }

  // ---- for the engine
  const RunSpec& spec() const { return spec_; }
  // Whether a task is more than calls of plain kernels, here where all may have a deadline.
  bool IsSlow(uint32_t task) const {
    return !spec_.image->tasks()[task].plain() || spec_.task_timeout_ns > 0;
  }
  // Whether its blocks run on fibers, which only executors have.
  bool NeedsFiber(uint32_t task) const {
    return (spec_.image->tasks()[task].traits & (kTaskWaits | kTaskBlocks)) == kTaskWaits;
  }
  bool stopping() const { return outcome_.stopping(); }

  RunLife& life() { return life_; }
  const RunLife& life() const { return life_; }
  RunOutcome& outcome() { return outcome_; }
  RunTasks& tasks() { return tasks_; }
  RunLinks& links() { return links_; }
  const RunLinks& links() const { return links_; }
  LongTasks& long_tasks() { return long_tasks_; }
  RecordBlocks& records() { return records_; }
  ErrandFlow& errands() { return errands_; }  // guarded by the ErrandQueue

 private:
  // Keeps its list of runs, and lets go of what a run uses when it ends.
  friend class Engine;

  RunSpec spec_;
  const int64_t accepted_ns_;
  RunOutcome outcome_;
  RunLife life_;
  RunTasks tasks_;
  RunLinks links_;
  ErrandFlow errands_;
  LongTasks long_tasks_;
  RecordBlocks records_;
  RunDeadlines deadlines_;

  // The engine's list of runs that have not ended; changed under the engine's lock, read by
  // Engine::Look without it. A run in it owns itself.
  std::shared_ptr<Run> self_;
  Run* previous_ = nullptr;
  std::atomic<Run*> next_{nullptr};
  Run* next_kept_ = nullptr;  // of those that ended under the eyes of Look
};

}  // namespace pto
