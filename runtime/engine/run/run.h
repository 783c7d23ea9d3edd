#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "runtime/chip/allocation.h"
#include "runtime/engine/run/account.h"
#include "runtime/engine/run/completions.h"
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

namespace pto::engine {

class Run;

// The tasks whose ends a run records.
enum class RecordLevel { kNone, kFailed, kAll };

// Receives the progress of a run. Called without locks held, by the thread that works on the run or
// that drains the completion queue where the run has ended. Not called after OnFinished has
// returned. Must not block.
class RunObserver {
 public:
  virtual ~RunObserver() = default;
  // The run's name in messages and logs. The const methods here may be called by any thread and
  // take no locks.
  virtual std::string name() const = 0;
  // Whether more tasks may be added to the open run that this run is a segment of: see OpenRun.
  virtual bool open() const { return false; }
  // Whether new tasks are held back because too many have not ended.
  virtual bool held_back() const { return false; }
  // Whether the open run has tasks that wait for their turn, so that no more are accepted; and the
  // first task of the segment of the same open run that they wait for, if any.
  static constexpr uint32_t kNoTask = 0xffffffff;
  virtual bool next_waits() const { return false; }
  virtual uint32_t next_waits_for() const { return kNoTask; }
  // Whether the open run is stopped at a deadline.
  virtual bool has_deadline() const { return false; }
  // The number of the run's first task in the open run.
  virtual uint32_t first_task() const { return 0; }
  // The order of runs: the run's number among those of its account, 0 if it has none, and the
  // numbers of the runs that must end before this run begins, or before the next segment of an open
  // run. 0 means none, and some may have ended.
  static constexpr size_t kShownBefore = 4;
  virtual uint64_t order_number() const { return 0; }
  virtual uint64_t goes_after(size_t /*i*/) const { return 0; }
  // The first task starts.
  virtual void OnStarted(Run& run) = 0;
  // `waiting` records can be taken: the first one, or another batch. Only a hint; records are not
  // lost if it is ignored.
  virtual void OnRecords(Run& run, size_t waiting) = 0;

  // ---- the run has ended: state, counts, errors and records are final
  // Called once each, in this order: the steps of CompletionStep. What follows from the end is only
  // added to `completions`.
  virtual void RecordEnd(Run& /*run*/) {}
  virtual void TellEnd(Run& /*run*/) {}
  virtual void AnswerEnd(Run& /*run*/) {}
  virtual void OnFinished(Run& run, Completions& completions) = 0;
};

// Ends runs: the engine.
class RunEnder {
 public:
  // Does one step of the end of a run.
  virtual void CompleteRun(Run& run, CompletionStep step, Completions& completions) = 0;

 protected:
  ~RunEnder() = default;
};

// The memory of one slot of an image, and the slot's offset in it.
struct RunSlot {
  std::shared_ptr<HostAllocation> memory;
  uint64_t offset_bytes = 0;
  // The name of the memory, for explanations. Lives as long as the slots. May be empty.
  absl::string_view name = {};
};
using RunSlots = std::vector<RunSlot>;

// What to execute. Everything it refers to must outlive the run.
struct RunSpec {
  std::shared_ptr<const GraphImage> image;
  // One for each slot of the image; launches share them if nothing changed. May be nullptr if the
  // image has no slots.
  std::shared_ptr<const RunSlots> slots;
  // Values of the image's named scalars. Empty: the image's own values.
  std::vector<uint64_t> named_scalars;
  RecordLevel record_level = RecordLevel::kAll;
  // From acceptance to the end; 0: no limit.
  int64_t timeout_ns = 0;
  // From acceptance to the start of the first task; 0: no limit.
  int64_t queue_timeout_ns = 0;
  // From the start of a task to its end, for tasks without their own limit; 0: no limit.
  int64_t task_timeout_ns = 0;
  // For waits without their own limit; 0: no limit.
  int64_t wait_timeout_ns = 0;
  Priority priority = Priority::kNormal;
  // The account whose share it uses; nullptr: one share for all such runs.
  std::shared_ptr<Account> account;
  std::shared_ptr<RunObserver> observer;
};

// One execution of a graph. Created by Engine::Prepare and shared by the engine and its caller. All
// public methods are thread-safe except the parts at the end, which are for the engine: each of
// them says who may change it.
class Run : public std::enable_shared_from_this<Run> {
 public:
  using Counts = RunOutcome::Counts;

  Run(RunSpec spec, int64_t accepted_ns);
  ~Run();
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  // Only while the run has not ended.
  std::string name() const { return spec_.observer == nullptr ? "" : spec_.observer->name(); }
  const GraphImage& image() const { return *spec_.image; }
  // For users that need the image longer than the run.
  const std::shared_ptr<const GraphImage>& shared_image() const { return spec_.image; }
  RecordLevel record_level() const { return spec_.record_level; }
  RunState state() const { return outcome_.state(); }
  Counts counts() const { return outcome_.counts(); }
  // Times of the engine's clock; 0 until they are known.
  int64_t accepted_ns() const { return accepted_ns_; }
  int64_t started_ns() const { return outcome_.started_ns(); }
  int64_t ended_ns() const { return outcome_.ended_ns(); }
  // When its turn came. Measured for some runs only, otherwise 0.
  int64_t begun_ns() const { return outcome_.begun_ns(); }

  Priority priority() const { return spec_.priority; }
  // Its limits, as in RunSpec, and whether a deadline is armed that may still stop it.
  int64_t task_timeout_ns() const { return spec_.task_timeout_ns; }
  int64_t wait_timeout_ns() const { return spec_.wait_timeout_ns; }
  bool has_deadline() const {
    return spec_.timeout_ns > 0 || (spec_.queue_timeout_ns > 0 && started_ns() == 0);
  }
  // The bits of a scalar in this run: see GraphImage::scalar_refs.
  uint64_t scalar(uint32_t ref) const {
    return ref < spec_.named_scalars.size() ? spec_.named_scalars[ref]
                                            : spec_.image->scalar_values()[ref];
  }
  const std::shared_ptr<Account>& account() const { return spec_.account; }

  // Whether it was stopped before its end.
  bool stop_requested() const { return outcome_.stopping(); }

  // The first error and up to 16 more, ordered by time, and the reason of the stop. Empty if there
  // are none.
  std::vector<absl::Status> errors() const { return outcome_.errors(); }
  // Takes the unlisted errors since the last call.
  std::vector<absl::Status> TakeUnlistedErrors() { return outcome_.TakeUnlistedErrors(); }
  // The error of the stop; OK if the run was not stopped.
  absl::Status stop_error() const { return outcome_.stop_error(); }

  // OnRecords is called for batches of this size.
  static constexpr size_t kRecordBatch = RecordBlocks::kMaxBlock;

  // Takes the records since the last call, in order of the tasks' ends.
  std::vector<RecordBlock> TakeRecords() { return records_.Take(); }

  // ---- for the engine
  const RunSpec& spec() const { return spec_; }
  // Whether a task is more than calls of plain kernels: it waits, blocks or has a deadline.
  bool IsSlow(uint32_t task) const {
    return !spec_.image->tasks()[task].plain() || spec_.task_timeout_ns > 0;
  }
  // Whether its blocks run on fibers, which only engine threads have.
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
  // For the thread that has dropped the last count of life().
  Completion& end() { return end_; }

 private:
  // Links runs in its list, and releases what a run uses when it ends.
  friend class Engine;

  // The run as a link of a completion queue.
  class End final : public Completion {
   public:
    explicit End(Run& run) : run_(run) {}
    void Complete(CompletionStep step, Completions& completions) override {
      run_.ender_->CompleteRun(run_, step, completions);
    }

   private:
    Run& run_;
  };

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

  // The engine's list of runs that have not ended. Changed under the engine's lock, read by
  // Engine::Look without it. A run in the list owns itself.
  std::shared_ptr<Run> self_;
  Run* previous_ = nullptr;
  std::atomic<Run*> next_{nullptr};
  Run* next_kept_ = nullptr;  // list of runs that ended during a Look

  // The end of the run. Only for the thread whose completion queue it is in.
  End end_{*this};
  RunEnder* ender_ = nullptr;  // set when the run is accepted
  bool ends_during_look_ = false;
  bool told_ = false;  // its observer knows all
};

}  // namespace pto::engine
