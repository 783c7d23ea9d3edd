#include "runtime/engine/engine.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/error.h"
#include "runtime/engine/worker.h"

namespace pto {
Engine::Engine(Options options)
    : chips_(std::move(options.chips)),
      clock_(*options.clock),
      timers_(options.timers),
      scheduler_(chips_, clock_, options.executors, options.trace,
                 [this](Run& run) { Finish(run); }),
      helper_(std::make_unique<Worker>(scheduler_)) {
  for (uint32_t i = 0; i < options.executors; ++i) {
    executors_.emplace_back([this, i] {
      pthread_setname_np(pthread_self(), absl::StrCat("executor-", i).substr(0, 15).c_str());
      ExecutorLoop();
    });
  }
}

Engine::~Engine() {
  StopIf([](const Run&) { return true; }, RunState::kCancelled,
         Error(reason::kRunCancelled, "the engine stops"));
  if (executors_.empty()) {
    while (RunOne()) {
    }
  }
  {
    MutexLock lock(mutex_);
    while (active_ != nullptr) no_runs_.Wait(mutex_);
  }
  stopping_.store(true, std::memory_order_release);
  scheduler_.parking().Wake(executors_.size() + 1);
  for (std::thread& executor : executors_) executor.join();
}

std::shared_ptr<Run> Engine::Prepare(RunSpec spec) const {
  return std::make_shared<Run>(std::move(spec), clock_.NowNanos());
}

void Engine::Accept(const std::shared_ptr<Run>& run) {
  AddActive(run);
  // Belongs to whoever sets `begun_`: the run cannot end before all is in place.
  run->outstanding_.store(1, std::memory_order_release);
  if (run->spec_.timeout_ns > 0 && timers_ != nullptr) {
    const int64_t timeout = run->spec_.timeout_ns;
    const TimerQueue::Id id = timers_->Schedule(
        run->accepted_ns() + timeout, [this, weak = std::weak_ptr<Run>(run), timeout] {
          if (std::shared_ptr<Run> late = weak.lock()) {
            Stop(*late, RunState::kFailed,
                 Error(reason::kRunDeadline,
                       absl::StrCat("the run's time of ",
                                    absl::FormatDuration(absl::Nanoseconds(timeout)), " is up"))
                     .With("timeout", absl::FormatDuration(absl::Nanoseconds(timeout))));
          }
        });
    MutexLock lock(run->mutex_);
    run->deadline_timer_ = id;
  }
}

void Engine::Begin(const std::shared_ptr<Run>& run, int64_t help_ns) {
  if (run->begun_.exchange(true, std::memory_order_acq_rel)) return;
  const GraphImage& image = run->image();
  for (const uint32_t task : image.roots()) {
    if (!image.tasks()[task].one_call()) {
      run->counters_[task].store(image.calls(task), std::memory_order_relaxed);
    }
  }
  // One helper at a time: more would leave too few threads for what they are there for.
  if (help_ns > 0 && !helping_.exchange(true, std::memory_order_acq_rel)) {
    helper_->BeginWith(*run, clock_.NowNanos() + help_ns);
    helping_.store(false, std::memory_order_release);
    // What is left, of this run or of one that waited for a core used here, is the executors'.
    scheduler_.parking().Wake(scheduler_.ready());
  } else {
    run->outstanding_.fetch_add(static_cast<int64_t>(image.roots().size()),
                                std::memory_order_acq_rel);
    std::vector<uint32_t> scratch;
    scheduler_.Push(*run, image.roots(), false, &scratch);
  }
  scheduler_.Drop(*run);
}

void Engine::Stop(Run& run, RunState as, absl::Status error) {
  if (!run.Hold()) return;
  {
    MutexLock lock(run.mutex_);
    if (!run.stop_.load(std::memory_order_relaxed)) {
      if (run.errors_.size() < Run::kMaxErrors) run.errors_.push_back(std::move(error));
      run.stop_state_ = as;
      run.stop_.store(true, std::memory_order_release);
      run.state_.store(RunState::kCancelling, std::memory_order_release);
    }
  }
  // Tasks in the queues are taken back here, however busy the executors are.
  Worker(scheduler_).Clear(run);
  // Cores that its blocks had been given are free.
  scheduler_.parking().Wake(scheduler_.ready());
  // A run that has not begun never will, and there is nothing else to wait for.
  if (!run.begun_.exchange(true, std::memory_order_acq_rel)) scheduler_.Drop(run);
  scheduler_.Drop(run);
}

std::vector<std::shared_ptr<Run>> Engine::ActiveIf(
    const std::function<bool(const Run&)>& select) const {
  std::vector<std::shared_ptr<Run>> selected;
  MutexLock lock(mutex_);
  for (const Run* run = active_; run != nullptr; run = run->next_) {
    if (select(*run)) selected.push_back(run->self_);
  }
  return selected;
}

void Engine::StopIf(const std::function<bool(const Run&)>& select, RunState as,
                    const absl::Status& error) {
  for (const std::shared_ptr<Run>& run : ActiveIf(select)) Stop(*run, as, error);
}

uint64_t Engine::CountIf(const std::function<bool(const Run&)>& select) const {
  return ActiveIf(select).size();
}

bool Engine::RunOne() { return Worker(scheduler_).RunAny(1); }

void Engine::ExecutorLoop() {
  Worker worker(scheduler_);
  while (true) {
    const uint64_t parking_ticket = scheduler_.parking().Ticket();
    if (worker.RunAny()) continue;
    if (stopping_.load(std::memory_order_acquire)) return;
    scheduler_.parking().Park(parking_ticket);
  }
}

void Engine::AddActive(const std::shared_ptr<Run>& run) {
  MutexLock lock(mutex_);
  run->self_ = run;
  run->next_ = active_;
  if (active_ != nullptr) active_->previous_ = run.get();
  active_ = run.get();
  active_count_.fetch_add(1, std::memory_order_relaxed);
}

std::shared_ptr<Run> Engine::RemoveActive(Run& run) {
  MutexLock lock(mutex_);
  (run.previous_ != nullptr ? run.previous_->next_ : active_) = run.next_;
  if (run.next_ != nullptr) run.next_->previous_ = run.previous_;
  active_count_.fetch_sub(1, std::memory_order_relaxed);
  if (active_ == nullptr) no_runs_.NotifyAll();
  return std::move(run.self_);
}

void Engine::Finish(Run& run) {
  TimerQueue::Id timer = 0;
  RunState state = RunState::kFailed;
  {
    MutexLock lock(run.mutex_);
    timer = run.deadline_timer_;
    if (run.done_.load(std::memory_order_relaxed) == run.image().task_count()) {
      state = RunState::kSucceeded;
      run.errors_.clear();
    } else if (run.stop_.load(std::memory_order_relaxed)) {
      state = run.stop_state_;
    }
    run.ended_ns_.store(clock_.NowNanos(), std::memory_order_release);
    run.state_.store(state, std::memory_order_release);
  }
  if (timer != 0) timers_->Cancel(timer);
  run.spec_.slots.reset();
  if (run.spec_.observer != nullptr) run.spec_.observer->OnFinished(run);
  run.spec_.observer.reset();
  // Last, so that whoever waits for no active runs knows that all observers have been told.
  RemoveActive(run);
}

bool Engine::WaitIdle(absl::Duration timeout) {
  const auto until = std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(timeout);
  MutexLock lock(mutex_);
  while (active_ != nullptr) {
    const auto left = until - std::chrono::steady_clock::now();
    if (left <= std::chrono::nanoseconds(0)) return false;
    no_runs_.WaitFor(mutex_, left);
  }
  return true;
}

Engine::ChipUse Engine::chip_use(uint32_t chip) const {
  const ReadyQueue& queue = scheduler_.queue(chip);
  return {queue.busy_cores(), scheduler_.waiting(chip), scheduler_.ended(chip)};
}

}  // namespace pto
