#include "runtime/engine/open_run.h"

#include <algorithm>
#include <utility>

#include "runtime/engine/run_linker.h"

namespace pto {

class OpenRun::SegmentObserver final : public RunObserver {
 public:
  SegmentObserver(std::shared_ptr<OpenRun> owner, uint32_t first_task)
      : owner_(std::move(owner)), first_task_(first_task) {}

  std::string name() const override { return owner_->options_.observer->name(); }
  void OnStarted(Run&) override {}
  void OnRecords(Run& run, size_t) override { Tell(run); }
  void OnFinished(Run& run) override {
    Tell(run);
    owner_->OnSegmentEnded(first_task_, run);
  }

 private:
  void Tell(Run& run) {
    for (const RecordBlock& block : run.TakeRecords()) {
      const absl::Span<TaskRecord> records(block.records.get(), block.count);
      for (TaskRecord& record : records) record.task += first_task_;
      owner_->options_.observer->OnRecords(records);
    }
  }

  const std::shared_ptr<OpenRun> owner_;
  const uint32_t first_task_;
};

std::shared_ptr<OpenRun> OpenRun::Make(Options options) {
  return std::shared_ptr<OpenRun>(new OpenRun(std::move(options)));
}

void OpenRun::Append(const GraphSegment& segment, std::shared_ptr<const RunSlots> slots) {
  RunSpec spec;
  spec.image = segment.image;
  spec.slots = std::move(slots);
  spec.record_level = options_.record_level;
  spec.task_timeout_ns = options_.task_timeout_ns;
  spec.wait_timeout_ns = options_.wait_timeout_ns;
  spec.priority = options_.priority;
  spec.account = options_.account;
  spec.observer = std::make_shared<SegmentObserver>(shared_from_this(), segment.first_task);
  const std::shared_ptr<Run> run = options_.engine->PrepareLinked(std::move(spec));
  {
    MutexLock lock(mutex_);
    if (stopped_) return;
    segments_.push_back({segment.first_task, run, false, false});
    next_task_ = segment.first_task + segment.image->task_count();
    live_tasks_ += segment.image->task_count();
    if (state_ == RunState::kQueued) state_ = RunState::kRunning;
  }
  for (const GraphSegment::Link& link : segment.links) {
    uint32_t before_task = 0;
    const std::shared_ptr<Run> before = FindRun(link.before, &before_task);
    if (before != nullptr) RunLinker::Link(run, link.task, *before, before_task);
  }
  options_.engine->Accept(run);
  bool stopped = false;
  RunState as = RunState::kCancelled;
  {
    MutexLock lock(mutex_);
    segments_.back().accepted = true;
    stopped = stopped_;
    as = stop_state_;
  }
  if (stopped) {
    options_.engine->Stop(*run, as, absl::CancelledError("the run was stopped"));
  } else {
    options_.engine->Begin(run);
  }
}

std::shared_ptr<Run> OpenRun::FindRun(uint32_t task, uint32_t* own) const {
  MutexLock lock(mutex_);
  auto it = std::upper_bound(
      segments_.begin(), segments_.end(), task,
      [](uint32_t number, const Segment& segment) { return number < segment.first_task; });
  if (it == segments_.begin()) return nullptr;
  --it;
  *own = task - it->first_task;
  return it->run;
}

void OpenRun::OnSegmentEnded(uint32_t first_task, Run& run) {
  std::shared_ptr<Run> last;  // destroyed without the lock
  bool ended = false;
  {
    MutexLock lock(mutex_);
    const auto it = std::lower_bound(
        segments_.begin(), segments_.end(), first_task,
        [](const Segment& segment, uint32_t number) { return segment.first_task < number; });
    it->ended = true;
    if (run.state() == RunState::kSucceeded) last = std::move(it->run);
    const Run::Counts counts = run.counts();
    counts_.done += counts.done;
    counts_.failed += counts.failed;
    counts_.skipped += counts.skipped;
    counts_.passed_over += counts.passed_over;
    for (absl::Status& error : run.errors()) {
      if (errors_.size() < kMaxErrors && !stopped_) errors_.push_back(std::move(error));
    }
    live_tasks_ -= run.image().task_count();
    while (!segments_.empty() && segments_.front().ended && segments_.front().run == nullptr) {
      segments_.pop_front();
    }
    ended = EndLocked();
  }
  if (ended) {
    options_.observer->OnFinished();
  } else {
    options_.observer->OnRoom();
  }
}

bool OpenRun::EndLocked() {
  if (!(closed_ || stopped_) || live_tasks_ > 0 || IsFinal(state_)) return false;
  if (stopped_) {
    state_ = stop_state_;
  } else {
    state_ = counts_.done == next_task_ ? RunState::kSucceeded : RunState::kFailed;
  }
  return true;
}

void OpenRun::Close() {
  bool ended = false;
  {
    MutexLock lock(mutex_);
    closed_ = true;
    ended = EndLocked();
  }
  if (ended) options_.observer->OnFinished();
}

void OpenRun::Stop(RunState as, absl::Status error) {
  std::vector<std::shared_ptr<Run>> runs;
  bool ended = false;
  {
    MutexLock lock(mutex_);
    if (stopped_ || IsFinal(state_)) return;
    // Why it was stopped is more than one error of many.
    if (errors_.size() >= kMaxErrors) errors_.pop_back();
    errors_.push_back(error);
    stopped_ = true;
    stop_state_ = as;
    for (const Segment& segment : segments_) {
      if (segment.accepted && !segment.ended) runs.push_back(segment.run);
    }
    ended = EndLocked();
  }
  for (const std::shared_ptr<Run>& run : runs) options_.engine->Stop(*run, as, error);
  if (ended) options_.observer->OnFinished();
}

RunState OpenRun::state() const {
  MutexLock lock(mutex_);
  return state_;
}

Run::Counts OpenRun::counts() const {
  MutexLock lock(mutex_);
  return counts_;
}

std::vector<absl::Status> OpenRun::errors() const {
  MutexLock lock(mutex_);
  return errors_;
}

uint64_t OpenRun::live_tasks() const {
  MutexLock lock(mutex_);
  return live_tasks_;
}

size_t OpenRun::kept_segments() const {
  MutexLock lock(mutex_);
  return segments_.size();
}

uint32_t OpenRun::ended_before() const {
  MutexLock lock(mutex_);
  return segments_.empty() ? next_task_ : segments_.front().first_task;
}

}  // namespace pto
