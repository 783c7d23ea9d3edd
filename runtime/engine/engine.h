#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
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
#include "runtime/engine/snapshot/engine_now.h"

namespace pto::engine {

class FiberLane;
class Lane;
class LanePort;
class Services;
class Worker;

// Runs graphs on the cores of the node's chips.
//
// Cores are tokens: a block of a task holds one while it runs. Blocks are run by executor threads.
// Without executors the callers of RunOne run them, so that a test decides what happens when.
//
// A function that gets a completion queue adds the runs that end by it, and does not drain it. The
// same functions without a queue return when all that follows has been done. Thread-safe.
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
  };

  struct ChipUse {
    uint32_t busy_cores = 0;
    uint64_t ready_tasks = 0;
    uint64_t ended_tasks = 0;
    uint64_t waiting_gangs =
        0;  // of the ready ones, those that need cores of several chips or at once
  };

  explicit Engine(Options options);
  // Stops all runs, kills all lanes, and waits until the kernels have returned.
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Makes a run that has not begun. `spec` must fit its image: a slot of sufficient size for
  // each of the image's, on the right chip.
  std::shared_ptr<Run> Prepare(RunSpec spec) const;

  // The same, for a run whose tasks wait for those of others, and others' for them. RunLinker
  // says for which, before it is accepted.
  std::shared_ptr<Run> PrepareLinked(RunSpec spec) const;

  // Takes a run on without beginning it: its deadlines count, and a stop ends it at once, also one
  // that came before this call. The caller must have Begin called sooner or later, also when the
  // run was stopped.
  void Accept(const std::shared_ptr<Run>& run, Completions& completions);
  void Accept(const std::shared_ptr<Run>& run) {
    Completions completions;
    Accept(run, completions);
  }
  // Begins a run that was accepted, unless it was stopped. With `help_ns` > 0 the calling thread
  // works on the run itself, for about that long: a short run then ends in here, and no thread had
  // to be woken for it.
  void Begin(const std::shared_ptr<Run>& run, Completions& completions, int64_t help_ns = 0);
  void Begin(const std::shared_ptr<Run>& run, int64_t help_ns = 0) {
    Completions completions;
    Begin(run, completions, help_ns);
  }
  // Both at once.
  void Start(const std::shared_ptr<Run>& run, int64_t help_ns = 0) {
    Accept(run);
    Begin(run, help_ns);
  }

  // Stops a run: what has not started never does, kernels see their cancel flag. It ends as
  // `as` (kCancelled or kFailed) with `error`, unless it has ended: a kernel that returns after
  // this may have given up early, so its task does not count as done. A run that has not been
  // accepted yet ends when it is.
  void Stop(Run& run, RunState as, absl::Status error, Completions& completions);
  void Stop(Run& run, RunState as, absl::Status error) {
    Completions completions;
    Stop(run, as, std::move(error), completions);
  }

  // Stops the runs for which `select` is true.
  void StopIf(const std::function<bool(const Run&)>& select, RunState as,
              const absl::Status& error);

  // Stops all runs, and each run that is accepted later: no stop is late for a run that is just
  // being accepted. The state and error of the first call hold for later runs.
  void StopAll(RunState as, const absl::Status& error);

  // How many of the runs that have not ended `select` is true for.
  uint64_t CountIf(const std::function<bool(const Run&)>& select) const;

  // Adds something that runs blocks in place of the engine's threads. Kernels that are made with
  // the result (Kernel::OnLane) run there. The lane lives as long as they, or the result, do; it
  // must not use the engine. The engine needs timers.
  std::shared_ptr<LanePort> AddLane(std::shared_ptr<Lane> lane);

  // Runs one block and what follows on it, goes on with one that waited, or does something that
  // needs no core. Returns false when there is nothing to run. Always called by the same thread.
  bool RunOne();

  // Gets how many things could happen next, and returns which of them shall, counted from 0.
  using Chooser = std::function<size_t(size_t count)>;
  // The same, but the caller chooses: a block of one of the chips, one of those that waited, one of
  // what needs no core, or one of what lanes have ended. For tests, so that a seed can stand for an
  // order of events.
  bool Step(const Chooser& choose);

  // Changes a signal, one word of device memory, and lets those go on that waited for it.
  absl::Status Notify(void* address, pto_dtype dtype, pto_notify_op op, int64_t value);

  // What there is now. Takes no lock and waits for nobody, whatever the engine's threads are doing
  // or are stuck in; so what it says of several things may be of several moments. For one thread at
  // a time.
  EngineNow Look();

  // Waits of kernels and tasks for signals, copies and barriers. Exact only under no change.
  size_t waiting() const;

  uint64_t active_runs() const { return active_count_.load(std::memory_order_acquire); }
  // Waits until no run is active or `timeout` has passed. Returns whether none is.
  bool WaitIdle(absl::Duration timeout);
  ChipUse chip_use(uint32_t chip) const;
  // Returns when the chip's queue has answered: at once unless a thread has stopped in it.
  void AwaitQueue(uint32_t chip) const { scheduler_.queue(chip).AwaitLock(); }
  const std::vector<std::shared_ptr<Chip>>& chips() const { return chips_; }
  uint32_t executors() const { return static_cast<uint32_t>(executors_.size()); }
  // What must not last: that tasks of a chip wait for nothing but a thread, while one sleeps; and
  // that cores of it stand idle for a reservation.
  bool IsAsleepOver(uint32_t chip) const {
    return has_idle_executor() && scheduler_.queue(chip).WaitsForThread();
  }
  bool reserving(uint32_t chip) const { return scheduler_.queue(chip).reserving(); }
  // Whether one of them sleeps because it has found nothing to do.
  bool has_idle_executor() const { return scheduler_.parking().has_sleepers(); }

 private:
  void ExecutorLoop(uint32_t number);
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
  // Returns what kept the run alive; or nullptr when Look may have the run, and keeps it.
  std::shared_ptr<Run> RemoveActive(Run& run);
  // Lets go of the runs that were kept for Look, unless it is at work.
  void ForgetKept();
  // Of a run that has ended and that Look cannot meet any more: an entry for it stays readable for
  // long, and the memory that it used must not stay with it.
  static void LetGo(Run& run) {
    run.spec_.slots.reset();
    run.spec_.observer.reset();
  }
  // ---- parts of Look
  // Memory that a run has let go of is to be free when its end is told, so it is not kept here.
  struct SeenRun {
    std::shared_ptr<Run> run;
    std::weak_ptr<const RunSlots> slots;
  };
  // The runs that have not ended.
  std::vector<SeenRun> CollectRuns(EngineNow* now);
  // Returns whether all that was seen belongs together.
  bool LookOnce(absl::Span<const SeenRun> runs, EngineNow* now) const;
  void LookAtTasks(Run& run, RunNow* seen) const;
  // Which tasks are ready, have ended, or are skipped when the others before them have ended.
  void ListTasks(Run& run, RunNow* seen) const;
  void LookAtWaits(Run& run, absl::Span<const WaitNote> notes, RunNow* seen) const;
  // What is in the words that are waited for, and who has them.
  static void LookAtWords(absl::Span<const SeenRun> runs, EngineNow* now);
  // Those for which `select` is true.
  std::vector<std::shared_ptr<Run>> ActiveIf(const std::function<bool(const Run&)>& select) const;

  const std::vector<std::shared_ptr<Chip>> chips_;
  const Clock& clock_;
  TimerQueue* const timers_;
  Scheduler scheduler_;
  const std::unique_ptr<Services> services_;
  // The fibers of the thread that calls RunOne.
  const std::unique_ptr<FiberLane> step_lane_;

  mutable Mutex mutex_;
  CondVar no_runs_;
  // Runs that have not ended, in no order: a list through the runs themselves.
  // Changed under the lock, read by Look without it.
  std::atomic<Run*> active_{nullptr};
  std::atomic<uint64_t> active_count_{0};
  // What StopAll wants of runs that are accepted later.
  struct StopOrder {
    RunState as = RunState::kCancelled;
    absl::Status error;
  };
  absl::optional<StopOrder> stop_all_ ABSL_GUARDED_BY(mutex_);
  // Look walks along the list of runs. Those that leave it meanwhile are kept, with what they own,
  // so that it never sees memory that is gone: see RemoveActive and EndRun.
  std::atomic<bool> looking_{false};
  std::atomic<Run*> kept_{nullptr};

  std::atomic<bool> stopping_{false};
  // Of how many runs the time of their beginning is noted for one.
  static constexpr uint64_t kNoteOneOf = 16;
  std::atomic<uint64_t> begins_{0};
  // Belongs to the one thread that helps.
  std::atomic<bool> helping_{false};
  const std::unique_ptr<Worker> helper_;
  std::vector<std::thread> executors_;
};

}  // namespace pto::engine
