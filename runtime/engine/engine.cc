#include "runtime/engine/engine.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/error.h"
#include "runtime/engine/block_runner.h"

namespace pto {
namespace {

// How many tasks follow each other on one core before others get their turn.
constexpr int kMaxChain = 64;

// A thread keeps no more scratch memory than for this many tasks.
constexpr size_t kMaxKeptScratch = 4096;

// More helpers than this would leave too few threads for what they are there for.
constexpr int32_t kMaxHelpers = 1;

}  // namespace

Engine::Engine(Options options)
    : chips_(std::move(options.chips)), clock_(*options.clock), timers_(options.timers) {
  for (const Chip& chip : chips_) {
    states_.push_back(std::make_unique<ChipState>(chip.spec.clusters));
  }
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
  parking_.Wake(executors_.size() + 1);
  for (std::thread& executor : executors_) executor.join();
}

std::shared_ptr<Run> Engine::Prepare(RunSpec spec) const {
  return std::make_shared<Run>(std::move(spec), clock_.NowNanos());
}

void Engine::Start(const std::shared_ptr<Run>& run, int64_t help_ns) {
  const GraphImage& image = run->image();
  AddActive(run);
  // The one more is this call's own hold: the run cannot end before all is in place.
  run->outstanding_.store(static_cast<int64_t>(image.roots().size()) + 1,
                          std::memory_order_release);
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

  // Kept for the thread's next run: a short one then allocates nothing here. Nothing that is
  // called from here starts another run.
  thread_local Worker worker;
  worker.helps = true;
  worker.ready.assign(image.roots().begin(), image.roots().end());
  for (const uint32_t task : worker.ready) {
    if (image.tasks()[task].block_num > 1) {
      run->counters_[task].store(image.tasks()[task].block_num, std::memory_order_relaxed);
    }
  }
  const bool helping =
      help_ns > 0 && helpers_.fetch_add(1, std::memory_order_acq_rel) < kMaxHelpers;
  if (helping) {
    // The first task goes straight from here to a core, past the queue.
    const int64_t until = clock_.NowNanos() + help_ns;
    const uint32_t first = worker.ready.back();
    const ImageTask& task = image.tasks()[first];
    const auto kind = static_cast<pto_core>(task.core);
    BlockTicket ticket{run.get(), first, 0, -1, kind, 0};
    if (task.block_num == 1 && states_[task.chip]->queue.TakeCore(kind, &ticket.core)) {
      worker.ready.pop_back();
      Push(worker, *run, false);
      RunChain(worker, ticket);
    } else {
      Push(worker, *run, true);
    }
    while (clock_.NowNanos() < until && TakeOf(*run, &ticket)) RunChain(worker, ticket);
    // What is left, of this run or of one that waited for a core used here, is the executors'.
    parking_.Wake(ready_tasks());
  } else {
    Push(worker, *run, false);
  }
  if (help_ns > 0) helpers_.fetch_sub(1, std::memory_order_acq_rel);
  if (worker.group.capacity() > kMaxKeptScratch) worker = Worker();
  DropOutstanding(*run);
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
  Worker worker;
  worker.helps = true;
  BlockTicket ticket;
  while (TakeOf(run, &ticket)) RunChain(worker, ticket);
  DropOutstanding(run);
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

bool Engine::RunOne() {
  thread_local Worker worker;
  BlockTicket ticket;
  if (!TakeAny(worker, &ticket)) return false;
  RunChain(worker, ticket);
  return true;
}

void Engine::ExecutorLoop() {
  Worker worker;
  BlockTicket ticket;
  while (true) {
    const uint64_t parking_ticket = parking_.Ticket();
    if (TakeAny(worker, &ticket)) {
      // Whoever queued a task for itself may have been given another one: pass the word on.
      if (parking_.has_sleepers() && ready_tasks() > 0) parking_.Wake(1);
      RunChain(worker, ticket);
      continue;
    }
    if (stopping_.load(std::memory_order_acquire)) return;
    parking_.Park(parking_ticket);
  }
}

bool Engine::TakeAny(Worker& worker, BlockTicket* ticket) {
  const auto count = static_cast<uint32_t>(states_.size());
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t chip = (worker.next_chip + i) % count;
    if (states_[chip]->queue.Take(nullptr, chip, ticket)) {
      worker.next_chip = (chip + 1) % count;
      return true;
    }
  }
  return false;
}

bool Engine::TakeOf(Run& run, BlockTicket* ticket) {
  for (const uint32_t chip : run.image().chips()) {
    if (states_[chip]->queue.Take(&run, chip, ticket)) return true;
  }
  return false;
}

void Engine::RunChain(Worker& worker, BlockTicket ticket) {
  for (int length = 1; RunBlock(worker, ticket, length < kMaxChain); ++length) {
  }
}

bool Engine::RunBlock(Worker& worker, BlockTicket& ticket, bool may_continue) {
  if (ticket.core < 0) {
    AbandonBlocks(worker, ticket);
    return false;
  }
  Run& run = *ticket.run;
  const ImageTask& task = run.image().tasks()[ticket.task];
  if (run.stopping()) {
    states_[task.chip]->queue.ReleaseCore(ticket.kind, ticket.core);
    ticket.abandoned = 1;
    AbandonBlocks(worker, ticket);
    return false;
  }
  int64_t start = clock_.NowNanos();
  if (run.started_ns() == 0) MarkStarted(run, start);
  absl::Status result = BlockRunner::Call(ticket);
  const int64_t end = clock_.NowNanos();
  if (run.stopping()) {
    // The kernel may have seen its cancel flag and returned early: what it says is no success.
    states_[task.chip]->queue.ReleaseCore(ticket.kind, ticket.core);
    ticket.abandoned = 1;
    AbandonBlocks(worker, ticket);
    return false;
  }
  bool failed = !result.ok();
  if (failed) run.AddError(std::move(result));

  if (task.block_num > 1) {
    int64_t none = 0;
    run.block_starts_[ticket.task].compare_exchange_strong(none, start, std::memory_order_relaxed);
    std::atomic<uint32_t>& counter = run.counters_[ticket.task];
    if (failed) counter.fetch_or(Run::kFailedBit, std::memory_order_relaxed);
    // Once this block is counted, another may be the last one: the run may end and be gone.
    const uint32_t chip = task.chip;
    const uint32_t before = counter.fetch_sub(1, std::memory_order_acq_rel);
    if ((before & ~Run::kFailedBit) != 1) {
      states_[chip]->queue.ReleaseCore(ticket.kind, ticket.core);
      return false;
    }
    failed = (before & Run::kFailedBit) != 0;
    start = run.block_starts_[ticket.task].load(std::memory_order_relaxed);
  }
  return EndTask(worker, ticket, failed, start, end, may_continue);
}

void Engine::AbandonBlocks(Worker&, const BlockTicket& ticket) {
  Run& run = *ticket.run;
  if (run.image().tasks()[ticket.task].block_num > 1) {
    const uint32_t before =
        run.counters_[ticket.task].fetch_sub(ticket.abandoned, std::memory_order_acq_rel);
    if ((before & ~Run::kFailedBit) != ticket.abandoned) return;
  }
  DropOutstanding(run);
}

void Engine::MarkStarted(Run& run, int64_t now) {
  int64_t none = 0;
  if (!run.started_ns_.compare_exchange_strong(none, now, std::memory_order_acq_rel)) return;
  RunState queued = RunState::kQueued;
  run.state_.compare_exchange_strong(queued, RunState::kRunning, std::memory_order_acq_rel);
  if (run.spec_.observer != nullptr) run.spec_.observer->OnStarted(run);
}

bool Engine::EndTask(Worker& worker, BlockTicket& ticket, bool failed, int64_t start, int64_t end,
                     bool may_continue) {
  Run& run = *ticket.run;
  const GraphImage& image = run.image();
  const ImageTask& task = image.tasks()[ticket.task];
  ChipState& chip = *states_[task.chip];
  chip.ended_tasks.fetch_add(1, std::memory_order_relaxed);
  (failed ? run.failed_ : run.done_).fetch_add(1, std::memory_order_relaxed);
  Record(run, ticket.task, failed ? TaskOutcome::kFailed : TaskOutcome::kDone, ticket.core, start,
         end);

  worker.ready.clear();
  if (!run.stopping()) Release(worker, run, ticket.task, failed);

  // One that can go on right here, on the core that is still warm.
  uint32_t follower = Flow::kNone;
  for (size_t i = worker.ready.size(); may_continue && i-- > 0;) {
    const ImageTask& candidate = image.tasks()[worker.ready[i]];
    if (candidate.chip == task.chip && candidate.core == task.core && candidate.block_num == 1) {
      follower = worker.ready[i];
      worker.ready.erase(worker.ready.begin() + static_cast<ptrdiff_t>(i));
      break;
    }
  }
  const auto released = static_cast<int64_t>(worker.ready.size()) + (follower != Flow::kNone);
  if (follower == Flow::kNone) chip.queue.ReleaseCore(ticket.kind, ticket.core);
  if (released == 0) {
    DropOutstanding(run);  // the run may be gone after this
    return false;
  }
  if (released > 1) run.outstanding_.fetch_add(released - 1, std::memory_order_acq_rel);
  Push(worker, run, follower == Flow::kNone && !worker.helps);
  if (follower == Flow::kNone) return false;
  ticket.task = follower;
  ticket.block = 0;
  return true;
}

void Engine::Release(Worker& worker, Run& run, uint32_t task, bool failed) {
  const GraphImage& image = run.image();
  // Tasks whose successors are to be told; all but the first were skipped.
  worker.pending.assign(1, task);
  while (!worker.pending.empty()) {
    const uint32_t ended = worker.pending.back();
    worker.pending.pop_back();
    for (const uint32_t successor : image.successors(ended)) {
      std::atomic<uint32_t>& counter = run.counters_[successor];
      if (failed) counter.fetch_or(Run::kFailedBit, std::memory_order_relaxed);
      const uint32_t before = counter.fetch_sub(1, std::memory_order_acq_rel);
      if ((before & ~Run::kFailedBit) != 1) continue;
      if ((before & Run::kFailedBit) == 0) {
        const uint32_t block_num = image.tasks()[successor].block_num;
        if (block_num > 1) counter.store(block_num, std::memory_order_relaxed);
        worker.ready.push_back(successor);
      } else {
        const int64_t now = clock_.NowNanos();
        run.skipped_.fetch_add(1, std::memory_order_relaxed);
        Record(run, successor, TaskOutcome::kSkipped, 0, now, now);
        // Only failure reaches a skipped task's successors, also when `task` itself was well:
        // one of its successors may have been poisoned from another side.
        worker.skipped.push_back(successor);
      }
    }
    if (worker.pending.empty() && !worker.skipped.empty()) {
      failed = true;
      worker.pending.swap(worker.skipped);
    }
  }
}

void Engine::Record(Run& run, uint32_t task, TaskOutcome outcome, int32_t core, int64_t start,
                    int64_t end) {
  const RecordLevel level = run.spec_.record_level;
  if (level == RecordLevel::kNone ||
      (level == RecordLevel::kFailed && outcome == TaskOutcome::kDone)) {
    return;
  }
  const TaskRecord record{task,    static_cast<uint32_t>(core), run.image().tasks()[task].chip,
                          outcome, start - run.accepted_ns(),   end - run.accepted_ns()};
  const size_t waiting = run.AddRecord(record);
  if (waiting != 0 && run.spec_.observer != nullptr) run.spec_.observer->OnRecords(run, waiting);
}

void Engine::Push(Worker& worker, Run& run, bool taking_one) {
  if (worker.ready.empty()) return;
  const GraphImage& image = run.image();
  uint64_t blocks = 0;
  for (const uint32_t task : worker.ready) blocks += image.tasks()[task].block_num;
  while (!worker.ready.empty()) {
    const uint32_t chip = image.tasks()[worker.ready.front()].chip;
    worker.group.clear();
    size_t others = 0;
    for (const uint32_t task : worker.ready) {
      if (image.tasks()[task].chip == chip) {
        worker.group.push_back(task);
      } else {
        worker.ready[others++] = task;
      }
    }
    worker.ready.resize(others);
    states_[chip]->queue.Push(run, chip, worker.group);
  }
  parking_.Wake(taking_one ? blocks - 1 : blocks);
}

void Engine::DropOutstanding(Run& run) {
  if (run.outstanding_.fetch_sub(1, std::memory_order_acq_rel) == 1) Finish(run);
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

uint64_t Engine::ready_tasks() const {
  uint64_t ready = 0;
  for (const auto& state : states_) ready += state->queue.ready();
  return ready;
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
  const ChipState& state = *states_[chip];
  return {state.queue.busy_cores(), state.queue.ready(),
          state.ended_tasks.load(std::memory_order_relaxed)};
}

}  // namespace pto
