#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "runtime/base/clock.h"
#include "runtime/base/mutex.h"
#include "runtime/base/timer.h"
#include "runtime/chip/chip.h"
#include "runtime/engine/queue/scheduler.h"
#include "runtime/engine/run/completions.h"
#include "runtime/engine/run/run.h"
#include "runtime/engine/signal/word_poller.h"
#include "runtime/engine/snapshot/engine_now.h"

namespace pto::engine {

class Crew;
class FiberPool;
class Lane;
class LanePort;
class Services;
class Worker;

// Runs graphs on the cores of the node's chips.
//
// Cores are tokens: a block of a task holds one while it runs. Executor threads run the blocks. An
// engine without executors runs them in RunOne, so that a test decides the order.
//
// A function that gets a completion queue only adds the runs that it ends. The overload without a
// queue also does everything that follows from their end. Thread-safe.
class Engine final : private RunEnder {
 public:
  struct Options {
    std::vector<std::shared_ptr<Chip>> chips;
    const Clock* clock = &Clock::Real();
    // Fires the deadlines of runs. Must outlive the engine.
    TimerQueue* timers = nullptr;
    uint32_t executors = 0;
    // Sees where and when blocks start; for tests. Must outlive the engine.
    PlacementTrace* trace = nullptr;
    // A lane that does not end a cancelled block within this time is killed.
    int64_t lane_grace_ns = 5'000'000'000;
    // What Crew does when kernels hold the executors. Only with timers, and with a patience above
    // 0.
    int64_t patience_ns = 0;
    uint32_t max_spares = 0;
    int64_t call_limit_ns = 0;
    // Threads are stuck, or are not any more. Must not block.
    std::function<void(bool stuck)> on_stuck = nullptr;
  };

  // The threads that run kernels, as of some moment ago.
  struct ThreadUse {
    uint32_t executors = 0;
    uint32_t spares = 0;   // hired while kernels hold executors
    uint32_t held = 0;     // of both: they are in the same call of a kernel for long
    uint32_t stopped = 0;  // held by runs that were told to stop
    bool stuck = false;    // no thread is left
  };

  struct ChipUse {
    uint32_t busy_cores = 0;
    uint64_t ready_tasks = 0;
    uint64_t ended_tasks = 0;
    uint64_t waiting_gangs = 0;  // of the ready tasks
  };

  explicit Engine(Options options);
  // Stops all runs, kills all lanes, and waits until the kernels have returned.
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Makes a run, which does not begin yet. `spec` must fit its image: for each slot of the image a
  // slot on the same chip that is large enough.
  std::shared_ptr<Run> Prepare(RunSpec spec) const;

  // The same for a run whose tasks depend on tasks of other runs, or those on its own. RunLinker
  // adds these dependencies before the run is accepted.
  std::shared_ptr<Run> PrepareLinked(RunSpec spec) const;

  // Accepts a run without beginning it: its deadlines count, and a stop ends it at once, also one
  // that came before this call. Begin must be called for it later, even if it was stopped.
  void Accept(const std::shared_ptr<Run>& run, Completions& completions);
  void Accept(const std::shared_ptr<Run>& run) {
    Completions completions;
    Accept(run, completions);
  }
  // Begins an accepted run, unless it was stopped. With `help_ns` > 0 the calling thread works on
  // the run itself for about that long: a short run then ends in this call, and no thread has to be
  // woken for it.
  void Begin(const std::shared_ptr<Run>& run, Completions& completions, int64_t help_ns = 0);
  void Begin(const std::shared_ptr<Run>& run, int64_t help_ns = 0) {
    Completions completions;
    Begin(run, completions, help_ns);
  }
  // Begins an accepted run when `prepare`, which may take long, has returned on a thread of its
  // own.
  void BeginAfter(std::shared_ptr<Run> run, std::function<void()> prepare);
  // Accept and Begin.
  void Start(const std::shared_ptr<Run>& run, int64_t help_ns = 0) {
    Accept(run);
    Begin(run, help_ns);
  }

  // Stops a run: tasks that have not started never start, and running kernels see their cancel
  // flag. The run ends as `as` (kCancelled or kFailed) with `error`, unless it has already ended. A
  // kernel that returns after this may have given up early, so its task does not count as done. A
  // run that has not been accepted yet ends when it is accepted.
  void Stop(Run& run, RunState as, absl::Status error, Completions& completions);
  void Stop(Run& run, RunState as, absl::Status error) {
    Completions completions;
    Stop(run, as, std::move(error), completions);
  }

  // Stops the runs for which `select` is true.
  void StopIf(const std::function<bool(const Run&)>& select, RunState as,
              const absl::Status& error);

  // Stops all runs, and each run that is accepted later. Later runs get the state and error of the
  // first call.
  void StopAll(RunState as, const absl::Status& error);

  // How many runs have not ended and `select` is true for.
  uint64_t CountIf(const std::function<bool(const Run&)>& select) const;

  // Adds a lane, which runs blocks in place of the executors. Kernels that are made with the result
  // (Kernel::OnLane) run on the lane. It lives as long as they or the result do, and must not use
  // the engine. The engine needs timers.
  std::shared_ptr<LanePort> AddLane(std::shared_ptr<Lane> lane);

  // Runs one block and what follows on its core, resumes a block that waited, or does something
  // that needs no core. Returns false when there is no work. Must always be called by the same
  // thread.
  bool RunOne();

  // Chooses one of `count` possible steps, counted from 0.
  using Chooser = std::function<size_t(size_t count)>;
  // Like RunOne, but `choose` decides which step: a block of a chip, a block that waited, an
  // errand, or a report of a lane. So the seed of a test defines the order of events.
  bool Step(const Chooser& choose);

  // Changes a signal (one word of device memory) and resumes those who waited for its new value.
  absl::Status Notify(void* address, pto_dtype dtype, pto_notify_op op, int64_t value);

  // Ends the waits for foreign words (SignalWord::foreign) whose condition holds now. Returns how
  // many such waits are left: while there are any, somebody must call this again and again.
  size_t LookAtForeignWords();

  // The state of all runs and cores. Takes no lock and never waits, even if a thread of the engine
  // is stuck; so its parts may be from slightly different moments. For one thread at a time.
  EngineNow Look();

  // How many kernels and tasks wait for signals, copies and barriers. Exact only while nothing
  // changes.
  size_t waiting() const;

  uint64_t active_runs() const { return active_count_.load(std::memory_order_acquire); }
  // Waits until no run is active or `timeout` has passed. Returns whether none is.
  bool WaitIdle(absl::Duration timeout);
  ChipUse chip_use(uint32_t chip) const;
  // Adds the time of cores that runs have now to the CoreTime of their accounts; that of others was
  // added when they returned them. Never waits, so what cores of a chip have may come later.
  void SettleCoreTime();
  // Returns at once, unless a thread hangs while it holds the lock of the chip's queue.
  void AwaitQueue(uint32_t chip) const { scheduler_.queue(chip).AwaitLock(); }
  const std::vector<std::shared_ptr<Chip>>& chips() const { return chips_; }
  // Without spare ones.
  uint32_t executors() const { return scheduler_.executors(); }
  // Whether kernels hold all threads and no spare is left, so that a new run would not start.
  bool threads_stuck() const;
  ThreadUse thread_use() const;
  // Two states that must not last: ready tasks with free cores wait although an executor sleeps,
  // and cores are idle because they are reserved.
  bool IsAsleepOver(uint32_t chip) const {
    return has_idle_executor() && scheduler_.queue(chip).WaitsForThread();
  }
  bool reserving(uint32_t chip) const { return scheduler_.queue(chip).reserving(); }
  // Whether an executor sleeps because it has found no work.
  bool has_idle_executor() const { return scheduler_.parking().has_sleepers(); }

 private:
  std::unique_ptr<Crew> MakeCrew(Options& options);
  // A call of the task has taken longer than its limit: stops the run.
  void EndLongCall(Run& run, uint32_t task, absl::string_view what);
  void SetDeadlines(const std::shared_ptr<Run>& run);
  void CompleteRun(Run& run, CompletionStep step, Completions& completions) override;
  // The parts of CompleteRun that are the engine's.
  void EndRun(Run& run);
  void ReleaseLinks(Run& run, Completions& completions);
  void Retire(Run& run);
  void BeginLinked(const std::shared_ptr<Run>& run, Completions& completions);
  void BeginAlone(Run& run, Completions& completions, int64_t help_ns);
  // Returns whether the run was stopped before.
  bool AddActive(const std::shared_ptr<Run>& run);
  // Stops a run that has not been accepted. Returns false when it has been.
  bool StopEarly(Run& run, RunState as, const absl::Status& error);
  // Takes back what a stopped run has queued, and ends the run if it has not begun. The caller
  // holds the run, and this drops the hold.
  void Withdraw(Run& run, Completions& completions);
  // Removes an ended run from the active ones. Returns a list of runs to Release: not those that
  // Look may be reading, which are kept for it.
  Run* RemoveActive(Run& run);
  // Takes the list of kept runs, unless Look is at work.
  Run* TakeKept();
  // Frees what the runs of a list used, and gives up the engine's share in them. A record of a run
  // may keep it for long, but not its memory.
  static void Release(Run* first);
  // ---- parts of Look
  // A run that Look reads. Does not own its slots: they must be free when the end of the run is
  // told.
  struct SeenRun {
    std::shared_ptr<Run> run;
    std::weak_ptr<const RunSlots> slots;
  };
  // The runs that have not ended.
  std::vector<SeenRun> CollectRuns(EngineNow* now);
  // Returns whether all that was seen belongs together.
  bool LookOnce(absl::Span<const SeenRun> runs, EngineNow* now) const;
  void LookAtTasks(Run& run, RunNow* seen) const;
  // Lists the tasks that are ready, that have ended, and that will be skipped.
  void ListTasks(Run& run, RunNow* seen) const;
  void LookAtWaits(Run& run, absl::Span<const WaitNote> notes, RunNow* seen) const;
  // Reads the words that are waited for, and finds their owners.
  static void LookAtWords(absl::Span<const SeenRun> runs, EngineNow* now);
  // Those for which `select` is true.
  std::vector<std::shared_ptr<Run>> ActiveIf(const std::function<bool(const Run&)>& select) const;

  const std::vector<std::shared_ptr<Chip>> chips_;
  const Clock& clock_;
  TimerQueue* const timers_;
  Scheduler scheduler_;
  const std::unique_ptr<Services> services_;
  // Looks at foreign words.
  WordPoller poller_{[this] { return LookAtForeignWords(); }};
  // The fibers of the thread that calls RunOne.
  const std::unique_ptr<FiberPool> step_fibers_;

  mutable Mutex mutex_;
  CondVar no_runs_;
  // Runs that have not ended, in no order: a list through the runs themselves.
  // Changed under the lock, read by Look without it.
  std::atomic<Run*> active_{nullptr};
  std::atomic<uint64_t> active_count_{0};
  // How StopAll stops runs that are accepted later.
  struct StopOrder {
    RunState as = RunState::kCancelled;
    absl::Status error;
  };
  absl::optional<StopOrder> stop_all_ ABSL_GUARDED_BY(mutex_);
  // Look walks along the list of runs. Runs that leave the list meanwhile are kept with what they
  // own, so that Look never reads freed memory: see RemoveActive and EndRun.
  std::atomic<bool> looking_{false};
  std::atomic<Run*> kept_{nullptr};

  // The time of beginning is noted for one of so many runs.
  static constexpr uint64_t kNoteOneOf = 16;
  std::atomic<uint64_t> begins_{0};
  // Whether a thread uses `helper_`.
  std::atomic<bool> helping_{false};
  int64_t call_limit_ns_ = 0;
  const std::unique_ptr<Crew> crew_;
  const std::unique_ptr<Worker> helper_;
};

}  // namespace pto::engine
