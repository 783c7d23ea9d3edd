#include "runtime/engine/open_run.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/types/span.h"
#include "runtime/base/error.h"
#include "runtime/base/failpoint.h"
#include "runtime/engine/exec/run_linker.h"

namespace pto::engine {

class OpenRun::SegmentObserver final : public RunObserver {
 public:
  SegmentObserver(std::shared_ptr<OpenRun> owner, uint32_t first_task)
      : owner_(std::move(owner)), first_task_(first_task) {}

  std::string name() const override { return owner_->name_; }
  bool open() const override { return !owner_->closed_.load(std::memory_order_relaxed); }
  bool held_back() const override {
    const std::shared_ptr<OpenRunObserver> whole = owner_->whole_.lock();
    return whole != nullptr && whole->held_back();
  }
  bool next_waits() const override {
    const std::shared_ptr<OpenRunObserver> whole = owner_->whole_.lock();
    return whole != nullptr && whole->next_waits();
  }
  uint32_t next_waits_for() const override {
    const std::shared_ptr<OpenRunObserver> whole = owner_->whole_.lock();
    return whole == nullptr ? kNoTask : whole->next_waits_for();
  }
  bool has_deadline() const override {
    const std::shared_ptr<OpenRunObserver> whole = owner_->whole_.lock();
    return whole != nullptr && whole->has_deadline();
  }
  uint32_t first_task() const override { return first_task_; }
  uint64_t order_number() const override {
    const std::shared_ptr<OpenRunObserver> whole = owner_->whole_.lock();
    return whole == nullptr ? 0 : whole->order_number();
  }
  uint64_t goes_after(size_t i) const override {
    const std::shared_ptr<OpenRunObserver> whole = owner_->whole_.lock();
    return whole == nullptr ? 0 : whole->goes_after(i);
  }
  void OnStarted(Run& run) override { owner_->OnStarted(run); }
  void OnRecords(Run& run, size_t waiting) override {
    owner_->OnRecords(first_task_, run, waiting);
  }
  void OnFinished(Run& run, Completions& completions) override {
    owner_->OnSegmentEnded(first_task_, run, completions);
  }

 private:
  const std::shared_ptr<OpenRun> owner_;
  const uint32_t first_task_;
};

OpenRun::OpenRun(Options options)
    : options_(std::move(options)),
      whole_(options_.observer),
      name_(options_.observer->name()),
      accepted_ns_(options_.clock->NowNanos()) {}

std::shared_ptr<OpenRun> OpenRun::Make(Options options) {
  return std::shared_ptr<OpenRun>(new OpenRun(std::move(options)));
}

bool OpenRun::Append(const GraphSegment& segment, std::shared_ptr<const RunSlots> slots,
                     Completions& completions, std::vector<uint64_t> named_scalars) {
  RunSpec spec;
  spec.image = segment.image;
  spec.slots = std::move(slots);
  spec.named_scalars = std::move(named_scalars);
  spec.record_level = options_.record_level;
  spec.task_timeout_ns = options_.task_timeout_ns;
  spec.wait_timeout_ns = options_.wait_timeout_ns;
  spec.priority = options_.priority;
  spec.account = options_.account;
  spec.observer = std::make_shared<SegmentObserver>(shared_from_this(), segment.first_task);
  const std::shared_ptr<Run> run = options_.engine->PrepareLinked(std::move(spec));
  {
    MutexLock lock(mutex_);
    if (stopped_) return false;
    segments_[segment.first_task].run = run;
    next_task_ = segment.first_task + segment.image->task_count();
    live_tasks_ += segment.image->task_count();
  }
  for (const GraphSegment::Link& link : segment.links) {
    uint32_t before_task = 0;
    const std::shared_ptr<Run> before = FindRun(link.before, &before_task);
    if (before != nullptr) RunLinker::Link(run, link.task, *before, before_task);
  }
  // The end of the run lets go of its observer.
  const std::shared_ptr<OpenRunObserver> observer = options_.observer;
  (void)PTO_FAILPOINT("open_run.accept");
  options_.engine->Accept(run, completions);
  bool stopped = false;
  RunState as = RunState::kCancelled;
  absl::Status error;
  {
    // Once it is accepted it can be stopped, and then the whole run may have ended.
    MutexLock lock(mutex_);
    const auto accepted = segments_.find(segment.first_task);
    if (accepted != segments_.end()) accepted->second.accepted = true;
    stopped = stopped_;
    as = stop_state_;
    error = stop_error_;
  }
  if (stopped) {
    // The stop of the run has not seen this segment, which has touched nothing.
    options_.engine->Stop(*run, as, std::move(error), completions);
    return true;
  }
  if (absl::Status usable = observer->CheckSegment(segment.first_task); !usable.ok()) {
    // The end of the segment stops the rest of the run.
    options_.engine->Stop(*run, RunState::kFailed, std::move(usable), completions);
    return true;
  }
  // From here on a stop ends the segment by itself, and then it does not begin any more. A segment
  // that was stopped before uses nothing.
  const auto prepare = [observer, run, first_task = segment.first_task] {
    if (!run->stop_requested()) observer->OnSegmentBegins(first_task);
  };
  if (observer->BeginsLong(segment.first_task)) {
    options_.engine->BeginAfter(run, prepare);
    return true;
  }
  prepare();
  options_.engine->Begin(run, completions);
  return true;
}

std::shared_ptr<Run> OpenRun::FindRun(uint32_t task, uint32_t* own) const {
  MutexLock lock(mutex_);
  auto it = segments_.upper_bound(task);
  if (it == segments_.begin()) return nullptr;
  --it;
  *own = task - it->first;
  // Those between two that are kept have ended well.
  return *own < it->second.run->image().task_count() ? it->second.run : nullptr;
}

void OpenRun::OnStarted(Run& run) {
  {
    MutexLock lock(mutex_);
    if (started_ns_ != 0) return;
    started_ns_ = run.started_ns();
    if (state_ == RunState::kQueued) state_ = RunState::kRunning;
  }
  options_.observer->OnStarted();
}

size_t OpenRun::Gather(uint32_t first_task, Run& run) {
  const int64_t later = run.accepted_ns() - accepted_ns_;
  size_t waiting = 0;
  for (const RecordBlock& block : run.TakeRecords()) {
    const absl::Span<TaskRecord> records(block.records.get(), block.count);
    for (TaskRecord& record : records) {
      record.task += first_task;
      record.start_ns += later;
      record.end_ns += later;
    }
    waiting = std::max(waiting, records_.Add(records));
  }
  return waiting;
}

void OpenRun::OnRecords(uint32_t first_task, Run& run, size_t waiting) {
  if (waiting >= Run::kRecordBatch) {
    waiting = Gather(first_task, run);
  } else {
    MutexLock lock(mutex_);
    // The observer was told of the first one, and takes all of them together.
    if (!recorded_.empty()) waiting = 0;
    recorded_.push_back({first_task, run.weak_from_this()});
  }
  if (waiting != 0) options_.observer->OnRecords(waiting);
}

std::vector<RecordBlock> OpenRun::TakeRecords() {
  std::vector<Recorded> recorded;
  {
    MutexLock lock(mutex_);
    recorded.swap(recorded_);
  }
  for (const Recorded& segment : recorded) {
    if (const std::shared_ptr<Run> run = segment.run.lock()) Gather(segment.first_task, *run);
  }
  return records_.Take();
}

void OpenRun::AddCounts(const Run& run, Run::Counts* counts) const {
  const Run::Counts more = run.counts();
  counts->done += more.done;
  counts->failed += more.failed;
  counts->skipped += more.skipped;
  counts->passed_over += more.passed_over;
}

void OpenRun::OnSegmentEnded(uint32_t first_task, Run& run, Completions& completions) {
  const size_t waiting = Gather(first_task, run);
  if (waiting != 0) options_.observer->OnRecords(waiting);
  std::shared_ptr<Run> last;  // destroyed without the lock
  std::vector<std::shared_ptr<Run>> others;
  const absl::Status error = run.stop_error();
  bool ended = false;
  {
    MutexLock lock(mutex_);
    const auto it = segments_.find(first_task);
    AddCounts(run, &counts_);
    live_tasks_ -= run.image().task_count();
    if (run.state() == RunState::kSucceeded) {
      last = std::move(it->second.run);
      segments_.erase(it);
    } else {
      it->second.ended = true;
      failed_segment_tasks_ += run.image().task_count();
      // A stop of one segment, as by the reset of a chip, is meant for the whole run.
      const bool stops = run.stop_requested() && !stopped_;
      if (stops) TakeAllErrorsLocked();
      TakeErrorsLocked(it->second, stops ? error : absl::OkStatus());
      counts_.errors_unlisted += LeftBehind(it->second);
      if (stops) others = StopLocked(run.state(), error);
    }
    ++telling_;
  }
  for (const std::shared_ptr<Run>& other : others) {
    options_.engine->Stop(*other, run.state(), error, completions);
  }
  options_.observer->OnSegmentEnded(first_task, run, completions);
  {
    MutexLock lock(mutex_);
    --telling_;
    ended = EndLocked();
  }
  if (ended) Finish(completions);
}

bool OpenRun::EndLocked() {
  if (!(closed_ || stopped_) || live_tasks_ > 0 || telling_ > 0 || IsFinal(state_)) return false;
  if (stopped_) {
    state_ = stop_state_;
  } else {
    state_ = counts_.done == next_task_ ? RunState::kSucceeded : RunState::kFailed;
  }
  ended_ns_ = options_.clock->NowNanos();
  return true;
}

void OpenRun::Finish(Completions& completions) {
  std::map<uint32_t, Segment> failed;  // destroyed without the lock
  {
    MutexLock lock(mutex_);
    failed.swap(segments_);
  }
  self_ = shared_from_this();
  completions.Add(CompletionStep::kJournal, end_);
}

void OpenRun::Complete(CompletionStep step, Completions& completions) {
  switch (step) {
    case CompletionStep::kJournal:
      options_.observer->RecordEnd(completions);
      completions.Add(CompletionStep::kEvents, end_);
      return;
    case CompletionStep::kEvents:
      options_.observer->TellEnd();
      completions.Add(CompletionStep::kResponses, end_);
      return;
    case CompletionStep::kResponses:
      options_.observer->AnswerEnd();
      completions.Add(CompletionStep::kSuccessors, end_);
      return;
    case CompletionStep::kSuccessors:
      break;
  }
  const std::shared_ptr<OpenRun> self = std::move(self_);
  options_.observer->OnFinished(completions);
  options_.observer.reset();
}

void OpenRun::Close() {
  Completions completions;
  bool ended = false;
  {
    MutexLock lock(mutex_);
    closed_ = true;
    ended = EndLocked();
  }
  if (ended) Finish(completions);
}

void OpenRun::TakeErrorsLocked(Segment& segment, const absl::Status& stop) {
  std::vector<absl::Status> listed = segment.run->errors();
  for (size_t i = segment.errors_taken; i < listed.size(); ++i) {
    if (!stop.ok() && listed[i] == stop) {
      errors_.AddListed(std::move(listed[i]));
    } else {
      TakeErrorLocked(std::move(listed[i]));
    }
  }
  segment.errors_taken = listed.size();
  for (absl::Status& error : segment.run->TakeUnlistedErrors()) {
    TakeErrorLocked(std::move(error));
    ++segment.unlisted_taken;
  }
}

bool OpenRun::IsStopErrorLocked(const absl::Status& error) const {
  return stopped_ && error.code() == stop_error_.code() &&
         ReasonOf(error) == ReasonOf(stop_error_) &&
         absl::StartsWith(error.message(), stop_error_.message());
}

void OpenRun::TakeErrorLocked(absl::Status error) {
  if (!IsStopErrorLocked(error)) return errors_.Add(std::move(error));
  const std::vector<absl::Status>& listed = errors_.listed();
  const auto without_place = std::find(listed.begin(), listed.end(), stop_error_);
  if (without_place == listed.end()) return;
  errors_.at(static_cast<size_t>(without_place - listed.begin())) = std::move(error);
}

void OpenRun::TakeAllErrorsLocked() {
  for (auto& [first, segment] : segments_) {
    if (!segment.accepted || segment.ended) continue;
    // One that is being stopped may still say where that met it.
    if (!segment.run->stop_requested()) TakeErrorsLocked(segment, absl::OkStatus());
  }
}

std::vector<std::shared_ptr<Run>> OpenRun::StopLocked(RunState as, const absl::Status& error) {
  std::vector<std::shared_ptr<Run>> runs;
  stopped_ = true;
  stop_state_ = as;
  stop_error_ = error;
  state_ = RunState::kCancelling;
  for (const auto& [first, segment] : segments_) {
    if (segment.accepted && !segment.ended) runs.push_back(segment.run);
  }
  return runs;
}

void OpenRun::Stop(RunState as, absl::Status error, Completions& completions) {
  std::vector<std::shared_ptr<Run>> runs;
  bool ended = false;
  {
    MutexLock lock(mutex_);
    if (stopped_ || IsFinal(state_)) return;
    TakeAllErrorsLocked();
    // Why it was stopped is more than one error of many.
    errors_.AddListed(error);
    runs = StopLocked(as, error);
    ended = EndLocked();
  }
  for (const std::shared_ptr<Run>& run : runs) options_.engine->Stop(*run, as, error, completions);
  if (ended) Finish(completions);
}

RunState OpenRun::state() const {
  MutexLock lock(mutex_);
  return state_;
}

Run::Counts OpenRun::counts() const {
  MutexLock lock(mutex_);
  Run::Counts counts = counts_;
  counts.errors_unlisted += errors_.unlisted();
  for (const auto& [first, segment] : segments_) {
    if (segment.ended) continue;
    AddCounts(*segment.run, &counts);
    counts.errors_unlisted += LeftBehind(segment);
  }
  ListErrorsLocked(&counts.errors_unlisted);
  return counts;
}

std::vector<absl::Status> OpenRun::ListErrorsLocked(uint64_t* left_out) const {
  std::vector<absl::Status> errors = errors_.listed();
  for (const auto& [first, segment] : segments_) {
    // Most have none, and there may be very many.
    if (segment.ended || segment.run->counts().failed == 0) continue;
    const std::vector<absl::Status> more = segment.run->errors();
    for (size_t i = segment.errors_taken; i < more.size(); ++i) {
      if (IsStopErrorLocked(more[i])) continue;
      if (errors.size() < ErrorList::kListed) {
        errors.push_back(more[i]);
      } else {
        ++*left_out;
      }
    }
  }
  return errors;
}

std::vector<absl::Status> OpenRun::errors() const {
  MutexLock lock(mutex_);
  uint64_t left_out = 0;
  return ListErrorsLocked(&left_out);
}

std::vector<absl::Status> OpenRun::TakeUnlistedErrors() {
  MutexLock lock(mutex_);
  return errors_.TakeUnlisted();
}

int64_t OpenRun::started_ns() const {
  MutexLock lock(mutex_);
  return started_ns_;
}

int64_t OpenRun::ended_ns() const {
  MutexLock lock(mutex_);
  return ended_ns_;
}

uint32_t OpenRun::tasks() const {
  MutexLock lock(mutex_);
  return next_task_;
}

uint64_t OpenRun::live_tasks() const {
  MutexLock lock(mutex_);
  return live_tasks_;
}

uint64_t OpenRun::failed_segment_tasks() const {
  MutexLock lock(mutex_);
  return failed_segment_tasks_;
}

size_t OpenRun::kept_segments() const {
  MutexLock lock(mutex_);
  return segments_.size();
}

uint32_t OpenRun::ended_before() const {
  MutexLock lock(mutex_);
  return segments_.empty() ? next_task_ : segments_.begin()->first;
}

}  // namespace pto::engine
