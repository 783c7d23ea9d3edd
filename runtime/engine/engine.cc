#include "runtime/engine/engine.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "runtime/base/error.h"
#include "runtime/engine/exec/crew.h"
#include "runtime/engine/exec/fiber_pool.h"
#include "runtime/engine/exec/joint_task.h"
#include "runtime/engine/exec/lane_calls.h"
#include "runtime/engine/exec/lane_gang.h"
#include "runtime/engine/exec/run_linker.h"
#include "runtime/engine/exec/services.h"
#include "runtime/engine/exec/worker.h"
#include "runtime/engine/run/task_data.h"

namespace pto::engine {
Engine::Engine(Options options)
    : chips_(std::move(options.chips)),
      clock_(*options.clock),
      timers_(options.timers),
      scheduler_(chips_, clock_, timers_, options.executors, options.trace),
      services_(std::make_unique<Services>(
          scheduler_, timers_,
          Services::LaneLimits{
              options.lane_grace_ns, options.call_limit_ns,
              [this](Run& run, uint32_t task) { EndLongCall(run, task, "has run"); }})),
      step_fibers_(std::make_unique<FiberPool>(scheduler_.parking())),
      call_limit_ns_(options.call_limit_ns),
      crew_(MakeCrew(options)),
      helper_(std::make_unique<Worker>(*services_, nullptr, nullptr, 0, &crew_->helper())) {
  scheduler_.SetOnPhased([this](Run& run, uint32_t task, std::vector<BlockPlace> places) {
    services_->errands().Push(*new JointTask(run, task, std::move(places)));
  });
  scheduler_.SetOnLane([this](Run& run, std::vector<BlockTicket> blocks) {
    services_->errands().Push(*new LaneGang(run, std::move(blocks)));
  });
  // An engine without executors has no threads at all: its owner looks.
  if (options.executors > 0) services_->waits().OnForeign([this] { poller_.Wake(); });
  services_->SetLaneCalls(std::make_unique<LaneCalls>(*services_));
  crew_->Start();
}

std::unique_ptr<Crew> Engine::MakeCrew(Options& options) {
  Crew::Options crew;
  crew.executors = options.executors;
  crew.max_spares = options.max_spares;
  crew.patience_ns = options.patience_ns;
  crew.call_limit_ns = options.call_limit_ns;
  crew.on_stuck = std::move(options.on_stuck);
  crew.find_runs = [this](absl::Span<const Run* const> wanted) {
    return ActiveIf([&](const Run& run) {
      return std::find(wanted.begin(), wanted.end(), &run) != wanted.end();
    });
  };
  crew.end_call = [this](Run& run, uint32_t task) { EndLongCall(run, task, "has held a thread"); };
  return std::make_unique<Crew>(*services_, timers_, std::move(crew));
}

Engine::~Engine() {
  StopIf([](const Run&) { return true; }, RunState::kCancelled,
         Error(reason::kRunCancelled, "the engine stops"));
  // Nobody may advance the clock any more, so there is no grace.
  services_->LoseLanes("the engine stops");
  while (true) {
    if (executors() == 0 && RunOne()) continue;
    MutexLock lock(mutex_);
    if (active_.load(std::memory_order_relaxed) == nullptr) break;
    // Without executors, what kernels on threads of their own leave behind is for this one.
    no_runs_.WaitFor(mutex_, std::chrono::milliseconds(executors() == 0 ? 1 : 1000));
  }
  poller_.Stop();
  crew_->Stop();
  Release(TakeKept());
}

std::shared_ptr<Run> Engine::Prepare(RunSpec spec) const {
  return std::make_shared<Run>(std::move(spec), clock_.NowNanos());
}

std::shared_ptr<Run> Engine::PrepareLinked(RunSpec spec) const {
  std::shared_ptr<Run> run = Prepare(std::move(spec));
  RunLinker::Open(*run);
  return run;
}

void Engine::Accept(const std::shared_ptr<Run>& run, Completions& completions) {
  // Before the run can end, as its end takes the timers back.
  if (timers_ != nullptr && (run->spec_.timeout_ns > 0 || run->spec_.queue_timeout_ns > 0)) {
    SetDeadlines(run);
  }
  if (AddActive(run) && run->life().Hold()) Withdraw(*run, completions);
}

void Engine::Begin(const std::shared_ptr<Run>& run, Completions& completions, int64_t help_ns) {
  if (!run->life().Begin()) return;
  // A sample of the runs is enough for the statistics, and reading the clock costs time.
  if (begins_.fetch_add(1, std::memory_order_relaxed) % kNoteOneOf == 0) {
    run->outcome().NoteBegin(clock_.NowNanos());
  }
  if (run->links().waiters != nullptr) {
    BeginLinked(run, completions);
  } else {
    BeginAlone(*run, completions, help_ns);
  }
  // A stop at the same time may not have seen what was queued here. Executors would drop it, but
  // they can be busy for long.
  if (run->stopping() && run->life().Hold()) Withdraw(*run, completions);
}

void Engine::BeginAfter(std::shared_ptr<Run> run, std::function<void()> prepare) {
  services_->pool().Run([this, run = std::move(run), prepare = std::move(prepare)] {
    Completions completions;
    prepare();
    Begin(run, completions);
  });
}

void Engine::BeginAlone(Run& run, Completions& completions, int64_t help_ns) {
  // One helper at a time: more would leave too few threads for what they are there for.
  if (help_ns > 0 && !helping_.exchange(true, std::memory_order_acq_rel)) {
    crew_->HelperRises();
    helper_->BeginWith(run, clock_.NowNanos() + help_ns, completions);
    crew_->helper().Rest();
    helping_.store(false, std::memory_order_release);
    // What is left, of this run or of one that waited for a core used here, is the executors'.
    scheduler_.parking().Wake(scheduler_.ready());
  } else {
    Worker(*services_, &completions).BeginRoots(run, false);
  }
  Scheduler::Drop(run, completions);
}

void Engine::SetDeadlines(const std::shared_ptr<Run>& run) {
  const std::weak_ptr<Run> weak = run;
  run->deadlines_.Arm(
      *timers_, {run->accepted_ns(), run->spec_.timeout_ns, run->spec_.queue_timeout_ns},
      run->account().get(),
      [weak] {
        const std::shared_ptr<Run> late = weak.lock();
        return late == nullptr || late->started_ns() != 0;
      },
      [this, weak](const absl::Status& error) {
        if (const std::shared_ptr<Run> late = weak.lock()) Stop(*late, RunState::kFailed, error);
      });
}

void Engine::BeginLinked(const std::shared_ptr<Run>& run, Completions& completions) {
  Worker(*services_, &completions).BeginTasks(*run, RunLinker::FreeRoots(*run), false);
  RunLinker(*services_, completions).BeginHeld(run);
  Scheduler::Drop(*run, completions);
}

void Engine::Stop(Run& run, RunState as, absl::Status error, Completions& completions) {
  if (!run.life().accepted() && StopEarly(run, as, error)) return;
  if (!run.life().Hold()) return;
  run.outcome().Stop(as, std::move(error));
  // Begin queues tasks, changes this counter and then looks for a stop. Whichever changes it second
  // sees what the other one did before.
  run.life().Synchronize();
  Withdraw(run, completions);
}

bool Engine::StopEarly(Run& run, RunState as, const absl::Status& error) {
  // AddActive takes the same lock, and so sees the note.
  MutexLock lock(mutex_);
  if (run.life().accepted()) return false;
  run.outcome().Stop(as, error);
  return true;
}

void Engine::Withdraw(Run& run, Completions& completions) {
  // Tasks in the queues are taken back here, however busy the executors are.
  Worker(*services_, &completions).Clear(run);
  // Cores that its blocks had been given are free.
  scheduler_.parking().Wake(scheduler_.ready());
  // A run that has not begun never will, and there is nothing else to wait for.
  if (run.life().Begin()) Scheduler::Drop(run, completions);
  Scheduler::Drop(run, completions);
}

std::vector<std::shared_ptr<Run>> Engine::ActiveIf(
    const std::function<bool(const Run&)>& select) const {
  std::vector<std::shared_ptr<Run>> selected;
  MutexLock lock(mutex_);
  for (const Run* run = active_.load(std::memory_order_relaxed); run != nullptr;
       run = run->next_.load(std::memory_order_relaxed)) {
    // One that has ended may be on its way out: who was told of its end does not find it here.
    if (!IsFinal(run->state()) && select(*run)) selected.push_back(run->self_);
  }
  return selected;
}

void Engine::StopIf(const std::function<bool(const Run&)>& select, RunState as,
                    const absl::Status& error) {
  for (const std::shared_ptr<Run>& run : ActiveIf(select)) Stop(*run, as, error);
}

void Engine::StopAll(RunState as, const absl::Status& error) {
  {
    MutexLock lock(mutex_);
    if (!stop_all_.has_value()) stop_all_ = StopOrder{as, error};
  }
  StopIf([](const Run&) { return true; }, as, error);
}

uint64_t Engine::CountIf(const std::function<bool(const Run&)>& select) const {
  return ActiveIf(select).size();
}

bool Engine::RunOne() {
  Completions completions;
  return Worker(*services_, &completions, step_fibers_.get()).RunAny(1, 1);
}

bool Engine::Step(const Chooser& choose) {
  Completions completions;
  Worker worker(*services_, &completions, step_fibers_.get());
  std::vector<uint32_t> chips;
  for (uint32_t chip = 0; chip < chips_.size(); ++chip) {
    if (scheduler_.queue(chip).ready() > 0) chips.push_back(chip);
  }
  while (true) {
    const size_t fibers = step_fibers_->runnable();
    const size_t errands = services_->errands().size();
    const size_t news = services_->lane_news().size();
    const size_t count = chips.size() + fibers + errands + news;
    if (count == 0) return false;
    size_t chosen = choose(count);
    if (chosen < fibers) return worker.RunFiber(chosen);
    chosen -= fibers;
    if (chosen < errands) return worker.RunErrand(chosen);
    chosen -= errands;
    if (chosen < news) return worker.EndPost(chosen);
    chosen -= news;
    if (worker.RunBlockOf(chips[chosen])) return true;
    // There is no core for it.
    chips.erase(chips.begin() + static_cast<ptrdiff_t>(chosen));
  }
}

std::shared_ptr<LanePort> Engine::AddLane(std::shared_ptr<Lane> lane) {
  return services_->AddLane(std::move(lane));
}

absl::Status Engine::Notify(void* address, pto_dtype dtype, pto_notify_op op, int64_t value) {
  const SignalWord signal{address, static_cast<uint32_t>(dtype)};
  if (!signal.valid()) {
    return Error(reason::kArgumentInvalid, "a signal is an aligned word of type I32 or I64");
  }
  if (!IsNotifyOp(op)) {
    return Error(reason::kArgumentInvalid, absl::StrCat("there is no notify op ", op));
  }
  services_->waits().Notify(signal, op, value);
  return absl::OkStatus();
}

size_t Engine::LookAtForeignWords() { return services_->waits().LookAtForeign(); }

size_t Engine::waiting() const { return services_->waits().size(); }

bool Engine::threads_stuck() const { return crew_->stuck(); }

Engine::ThreadUse Engine::thread_use() const {
  const Crew::Use use = crew_->use();
  return {use.executors, use.spares, use.held, use.stopped, crew_->stuck()};
}

void Engine::EndLongCall(Run& run, uint32_t task, absl::string_view what) {
  // The run and its observer stay until the error has been told.
  if (!run.life().Hold()) return;
  const std::string limit = absl::FormatDuration(absl::Nanoseconds(call_limit_ns_));
  Completions completions;
  Stop(
      run, RunState::kFailed,
      TaskData::TaskError(reason::kTaskDeadline, run, task,
                          absl::StrCat("its kernel ", what, " for ", limit,
                                       ", the limit of tasks that have no time limit of their own"))
          .With("timeout", limit),
      completions);
  Scheduler::Drop(run, completions);
}

bool Engine::AddActive(const std::shared_ptr<Run>& run) {
  MutexLock lock(mutex_);
  if (stop_all_.has_value()) run->outcome().Stop(stop_all_->as, stop_all_->error);
  // This count belongs to the thread that sets `begun_`, so the run cannot end before all is in
  // place. From then on it can be stopped, also by threads that have not found it in the list: its
  // end waits for this lock.
  if (run->links().waiters == nullptr) run->life().Open();
  run->self_ = run;
  run->ender_ = this;
  Run* const first = active_.load(std::memory_order_relaxed);
  run->next_.store(first, std::memory_order_relaxed);
  if (first != nullptr) first->previous_ = run.get();
  active_.store(run.get(), std::memory_order_release);
  active_count_.fetch_add(1, std::memory_order_relaxed);
  run->life().Accept();
  return run->stopping();
}

Run* Engine::RemoveActive(Run& run) {
  MutexLock lock(mutex_);
  Run* const next = run.next_.load(std::memory_order_relaxed);
  (run.previous_ != nullptr ? run.previous_->next_ : active_)
      .store(next, std::memory_order_release);
  if (next != nullptr) next->previous_ = run.previous_;
  // Between the change of the list and the look at the flag. Look sets the flag, reads this count
  // and then the list: so either it sees the list without the run, or it is seen here.
  active_count_.fetch_sub(1, std::memory_order_seq_cst);
  if (active_.load(std::memory_order_relaxed) == nullptr) no_runs_.NotifyAll();
  Run* kept = kept_.load(std::memory_order_relaxed);
  if (!looking_.load(std::memory_order_seq_cst)) {
    run.next_kept_ = kept == nullptr ? nullptr : TakeKept();
    return &run;
  }
  do {
    run.next_kept_ = kept;
  } while (!kept_.compare_exchange_weak(kept, &run, std::memory_order_acq_rel));
  // Look may just have ended without seeing this run.
  return TakeKept();
}

void Engine::CompleteRun(Run& run, CompletionStep step, Completions& completions) {
  RunObserver* const observer = run.spec_.observer.get();
  switch (step) {
    case CompletionStep::kJournal:
      EndRun(run);
      if (observer != nullptr) observer->RecordEnd(run);
      completions.Add(CompletionStep::kEvents, run.end_);
      return;
    case CompletionStep::kEvents:
      if (observer != nullptr) observer->TellEnd(run);
      completions.Add(CompletionStep::kResponses, run.end_);
      return;
    case CompletionStep::kResponses:
      if (observer != nullptr) observer->AnswerEnd(run);
      completions.Add(CompletionStep::kSuccessors, run.end_);
      return;
    case CompletionStep::kSuccessors:
      break;
  }
  if (std::exchange(run.told_, true)) {
    Retire(run);
    return;
  }
  ReleaseLinks(run, completions);
  if (observer != nullptr) observer->OnFinished(run, completions);
  // Once more, behind its successors: while they are being begun, the engine is not idle.
  completions.Add(CompletionStep::kSuccessors, run.end_);
}

void Engine::EndRun(Run& run) {
  const TimerQueue::Id task_timer = run.long_tasks().Clear();
  run.outcome().End(run.image().task_count(), clock_.NowNanos());
  run.deadlines_.Disarm();
  if (task_timer != 0) timers_->Cancel(task_timer);
  services_->EndPosts(run);
  // Look sets its flag and then reads the state: it uses what the run owns only while that is not
  // final. If it may be doing so, Retire or Look releases that.
  run.ends_during_look_ = looking_.load(std::memory_order_seq_cst);
  if (!run.ends_during_look_) run.spec_.slots.reset();
}

void Engine::ReleaseLinks(Run& run, Completions& completions) {
  // Tasks of other runs must not wait for ever for tasks that never ran.
  if (run.links().waiters != nullptr && run.state() != RunState::kSucceeded) {
    RunLinker(*services_, completions).ReleaseRest(run);
  }
}

void Engine::Retire(Run& run) {
  if (!run.ends_during_look_) run.spec_.observer.reset();
  // Last, so that an engine without active runs has told all observers. It may be destroyed as soon
  // as the run is removed: nothing of it is used after that.
  Release(RemoveActive(run));
}

bool Engine::WaitIdle(absl::Duration timeout) {
  const auto until = std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(timeout);
  MutexLock lock(mutex_);
  while (active_.load(std::memory_order_relaxed) != nullptr) {
    const auto left = until - std::chrono::steady_clock::now();
    if (left <= std::chrono::nanoseconds(0)) return false;
    no_runs_.WaitFor(mutex_, left);
  }
  return true;
}

void Engine::SettleCoreTime() {
  for (size_t chip = 0; chip < chips_.size(); ++chip) {
    scheduler_.queue(static_cast<uint32_t>(chip)).SettleCoreTime();
  }
}

Engine::ChipUse Engine::chip_use(uint32_t chip) const {
  const ReadyQueue& queue = scheduler_.queue(chip);
  return {queue.busy_cores(), scheduler_.waiting(chip), scheduler_.ended(chip),
          scheduler_.waiting_gangs(chip)};
}

}  // namespace pto::engine
