#include "daemon/run/streamed_run.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/run/registered_graph.h"
#include "runtime/base/error.h"
#include "runtime/base/status_macros.h"

namespace pto::daemon {
namespace {

// What segments of an open run that are kept may take together.
constexpr KeptGraph::Bounds kBounds = {uint64_t{16} << 20};

}  // namespace

StreamedRun::StreamedRun(Options&& options, Parts&& parts)
    : RunEntry(std::move(options)), parts_(std::move(parts)) {}

void StreamedRun::Prepare() {
  engine::OpenRun::Options options = parts_.run;
  options.observer = {shared_from_this(), this};
  run_ = engine::OpenRun::Make(std::move(options));
  // The whole has its turn from the beginning; it ends with the run.
  engine::Completions completions;
  if (Arrive()) Begun(completions);
}

void StreamedRun::Begin() {
  Tell();
  SetDeadlines();
}

void StreamedRun::SetDeadlines() {
  deadlines_.Arm(
      *parts_.timers, {run_->accepted_ns(), parts_.timeout_ns, parts_.queue_timeout_ns},
      parts_.run.account.get(),
      [weak = weak_from_this(), run = run_.get()] {
        const std::shared_ptr<RunEntry> late = weak.lock();
        return late == nullptr || run->started_ns() != 0;
      },
      [weak = weak_from_this()](const absl::Status& error) {
        if (const std::shared_ptr<RunEntry> late = weak.lock())
          late->Stop(engine::RunState::kFailed, error);
      });
}

// ---- segments

absl::Status StreamedRun::Append(engine::GraphSegment graph) {
  engine::Completions completions;
  const std::shared_ptr<RunOwner> owner = this->owner();
  // Then the run is being stopped.
  if (owner == nullptr) return absl::OkStatus();
  const uint32_t first_task = graph.first_task;
  Segment segment;
  PTO_ASSIGN_OR_RETURN(segment.charge, HostCharge::Take(owner->memory(), ImageBytes(*graph.image),
                                                        "a segment of an open run"));
  segment.tasks = graph.image->task_count();
  segment.turn = std::make_shared<SegmentTurn>(
      this, number(), first_task,
      [weak = std::weak_ptr<RunEntry>(weak_from_this())](engine::Completions& completions) {
        if (const auto self = std::static_pointer_cast<StreamedRun>(weak.lock())) {
          self->OnSegmentTurn(completions);
        }
      },
      [weak = std::weak_ptr<RunOwner>(owner)](RunTurn& turn) {
        if (const std::shared_ptr<RunOwner> alive = weak.lock()) alive->OnPassedLate(turn);
      });
  const std::shared_ptr<SegmentTurn> turn = segment.turn;
  PTO_ASSIGN_OR_RETURN(const std::shared_ptr<const BoundSlots> bound,
                       owner->EnterSegment(*graph.image, turn, shared_from_this()));
  // A segment that has its turn is accepted by the engine at once, and checked then.
  absl::Status refused;
  ChipLeases::Claim claim;
  if (turn->has_to_wait()) {
    absl::StatusOr<ChipLeases::Claim> made = owner->ClaimChips(*graph.image);
    refused = made.status();
    if (made.ok()) claim = *std::move(made);
    segment.claimed = made.ok();
  }
  segment.image = graph.image;
  segment.buffers = bound->buffers;
  segment.domains = bound->domains;
  segment.domain_ranks = bound->domain_ranks;
  parts_.budget->Take(segment.tasks);
  std::shared_ptr<const engine::RunSlots> slots(bound, &bound->slots);
  std::vector<uint64_t> named_scalars = bound->NamedScalars(*graph.image, {});
  bool taken = false;
  {
    MutexLock lock(segment_mutex_);
    Hold(segment.buffers);
    live_tasks_ += segment.tasks;
    segments_.emplace(first_task, std::move(segment));
    taken = !stopped_ && refused.ok();
    if (taken) {
      waiting_ = Waiting{std::move(graph), std::move(slots), std::move(named_scalars),
                         parts_.run.clock->NowNanos() - run_->accepted_ns(), std::move(claim)};
      busy_ = true;
    }
  }
  if (!taken) EndSegment(first_task, nullptr, completions);
  // Also one that was not taken keeps its place until its turn has come.
  ShowTurn(turn.get());
  if (turn->Arrive()) {
    OnSegmentTurn(completions);
    turn->Begun(completions);
  }
  return refused;
}

void StreamedRun::Hold(const std::vector<std::shared_ptr<SessionBuffer>>& buffers) {
  for (const std::shared_ptr<SessionBuffer>& buffer : buffers) {
    if (buffer_uses_[buffer.get()]++ == 0) buffer->in_use.fetch_add(1, std::memory_order_acq_rel);
  }
}

void StreamedRun::ShowTurn(const SegmentTurn* turn) {
  for (size_t i = 0; i < goes_after_.size(); ++i) {
    goes_after_[i].store(turn == nullptr ? 0 : turn->shown_before(i), std::memory_order_relaxed);
  }
  next_waits_for_.store(turn == nullptr ? RunTurn::kNoPart : turn->shown_part_before(),
                        std::memory_order_relaxed);
  next_waits_.store(turn != nullptr, std::memory_order_relaxed);
}

void StreamedRun::OnSegmentTurn(engine::Completions& completions) {
  ShowTurn(nullptr);
  absl::optional<Waiting> next;
  {
    MutexLock lock(segment_mutex_);
    next.swap(waiting_);
  }
  // Stopped meanwhile; then its segment has been ended.
  if (!next.has_value()) return;
  const uint32_t first_task = next->graph.first_task;
  // Before it can end, and the run with it.
  if (parts_.run.record_level == engine::RecordLevel::kAll) KeepSegment(*next);
  if (!run_->Append(next->graph, std::move(next->slots), completions,
                    std::move(next->named_scalars))) {
    EndSegment(first_task, nullptr, completions);
  }
  // Only now: the engine has accepted the segment, so leases see it there.
  next->claim.Drop();
  {
    // Only now: segments begin one after the other.
    MutexLock lock(segment_mutex_);
    busy_ = false;
  }
  TellRoom();
}

void StreamedRun::KeepSegment(const Waiting& segment) {
  const auto part = std::make_shared<GraphPart>();
  part->image = segment.graph.image;
  part->first_task = segment.graph.first_task;
  part->submitted_ns = segment.came_ns;
  part->links = segment.graph.links;
  GraphParts dropped;  // destroyed without the lock
  MutexLock lock(mutex_);
  if (!recorded()) dropped = Keep(part, kBounds);
}

void StreamedRun::EndSegment(uint32_t first_task, const engine::Run* run,
                             engine::Completions& completions) {
  Segment segment;
  {
    MutexLock lock(segment_mutex_);
    const auto it = segments_.find(first_task);
    if (it == segments_.end()) return;
    segment = std::move(it->second);
    segments_.erase(it);
    live_tasks_ -= segment.tasks;
    if (run != nullptr && failed_ranks_.empty() && run->state() != engine::RunState::kSucceeded) {
      failed_ranks_ = std::move(segment.domain_ranks);
    }
    for (const std::shared_ptr<SessionBuffer>& buffer : segment.buffers) {
      const auto use = buffer_uses_.find(buffer.get());
      if (--use->second > 0) continue;
      buffer_uses_.erase(use);
      buffer->in_use.fetch_sub(1, std::memory_order_acq_rel);
    }
  }
  if (segment.domains != nullptr) {
    if (run == nullptr) {
      segment.domains->Forget(segment.turn.get());
    } else {
      // Before the successors, which may use the same domains, can begin.
      DomainUses::Stop(segment.domains->Leave(segment.turn.get(), *run, name()), completions);
    }
  }
  if (const std::shared_ptr<RunOwner> owner = this->owner()) owner->LeaveSegment(*segment.turn);
  segment.turn->End(completions);
  parts_.budget->GiveBack(segment.tasks);
}

bool StreamedRun::AwaitRoom(std::function<void()> on_room) {
  std::function<void()> before;  // destroyed without the lock
  {
    MutexLock lock(segment_mutex_);
    if (stopped_) return true;
    before = std::exchange(on_room_, std::move(on_room));
    if (busy_) return false;
    if (live_tasks_ == 0) {
      on_room_ = nullptr;
      return true;
    }
  }
  // Before the check: a thread that makes room clears this afterwards.
  held_back_.store(true, std::memory_order_seq_cst);
  const bool room =
      parts_.budget->AwaitRoom(this, [weak = std::weak_ptr<RunEntry>(weak_from_this())] {
        if (const auto self = std::static_pointer_cast<StreamedRun>(weak.lock())) {
          self->TellRoom();
        }
      });
  if (!room) return false;
  held_back_.store(false, std::memory_order_seq_cst);
  MutexLock lock(segment_mutex_);
  // Gone when it was called just now: then that call counts.
  if (on_room_ == nullptr) return false;
  before = std::exchange(on_room_, nullptr);
  return true;
}

void StreamedRun::TellRoom() {
  held_back_.store(false, std::memory_order_seq_cst);
  std::function<void()> on_room;
  {
    MutexLock lock(segment_mutex_);
    on_room.swap(on_room_);
  }
  if (on_room != nullptr) on_room();
}

void StreamedRun::Close() { run_->Close(); }

void StreamedRun::Stop(engine::RunState as, const absl::Status& error,
                       engine::Completions& completions) {
  absl::optional<Waiting> dropped;
  {
    MutexLock lock(segment_mutex_);
    stopped_ = true;
    dropped.swap(waiting_);
  }
  if (dropped.has_value()) EndSegment(dropped->graph.first_task, nullptr, completions);
  run_->Stop(as, error, completions);
  TellRoom();
}

// ---- what becomes of it

void StreamedRun::OnStarted() {
  started_.store(true, std::memory_order_relaxed);
  TellNews();
}

void StreamedRun::OnRecords(size_t waiting) {
  if (waiting >= engine::Run::kRecordBatch) {
    TellNews();
  } else if (const std::shared_ptr<RunOwner> owner = this->owner()) {
    // A watcher comes for them when it likes.
    owner->log().Nudge();
  }
}

absl::Status StreamedRun::CheckSegment(uint32_t first_task) {
  std::shared_ptr<const engine::GraphImage> image;
  bool claimed = false;
  {
    MutexLock lock(segment_mutex_);
    const auto it = segments_.find(first_task);
    // It was stopped, and has ended.
    if (it == segments_.end()) return absl::OkStatus();
    image = it->second.image;
    claimed = it->second.claimed;
  }
  const std::shared_ptr<RunOwner> owner = this->owner();
  // Then the run is being stopped.
  if (owner == nullptr) return absl::OkStatus();
  return claimed ? owner->CheckHealth(*image) : owner->CheckChips(*image);
}

void StreamedRun::OnSegmentBegins(uint32_t first_task) {
  std::shared_ptr<SegmentTurn> turn;
  std::shared_ptr<const DomainUses> domains;
  {
    MutexLock lock(segment_mutex_);
    const auto it = segments_.find(first_task);
    if (it == segments_.end() || it->second.domains == nullptr) return;
    turn = it->second.turn;
    domains = it->second.domains;
  }
  domains->BeginUse(turn.get());
}

bool StreamedRun::BeginsLong(uint32_t first_task) {
  MutexLock lock(segment_mutex_);
  const auto it = segments_.find(first_task);
  return it != segments_.end() && it->second.domains != nullptr &&
         it->second.domains->begins_long();
}

void StreamedRun::OnSegmentEnded(uint32_t first_task, const engine::Run& run,
                                 engine::Completions& completions) {
  EndSegment(first_task, &run, completions);
  TellRoom();
}

void StreamedRun::RecordEnd(engine::Completions& completions) {
  absl::optional<Waiting> dropped;
  {
    MutexLock lock(segment_mutex_);
    stopped_ = true;
    dropped.swap(waiting_);
  }
  deadlines_.Disarm();
  parts_.budget->Forget(this);
  if (dropped.has_value()) EndSegment(dropped->graph.first_task, nullptr, completions);
  ReleaseRun();
  MutexLock tell_lock(tell_mutex_);
  RunRecord& record = mutable_record();
  if (const int64_t started = run_->started_ns(); started != 0) {
    record.queue_ns = started - run_->accepted_ns();
    record.run_ns = run_->ended_ns() - started;
  }
  record.total_ns = run_->ended_ns() - run_->accepted_ns();
  record.tasks_total = run_->tasks();
  record.counts = run_->counts();
  record.errors = run_->errors();
  {
    MutexLock lock(segment_mutex_);
    for (absl::Status& error : record.errors) error = NameRanks(error, failed_ranks_);
  }
  JournalEnd(run_->state());
  MutexLock lock(mutex_);
  MarkRecorded(run_->state());
}

void StreamedRun::TellEnd() {
  {
    MutexLock tell_lock(tell_mutex_);
    std::vector<LogEntry> news;
    CollectNews(&news);
    news.push_back(StateEvent(end_state(), TimeOf(run_->ended_ns())));
    AppendLast(std::move(news));
    MutexLock lock(mutex_);
    MarkEnded();
  }
  if (const std::shared_ptr<RunOwner> owner = this->owner()) owner->OnRunEnded(*this, true);
}

void StreamedRun::AnswerEnd() {
  AnswerWaiters();
  TellRoom();
}

void StreamedRun::OnFinished(engine::Completions& completions) { End(completions); }

RunStatus StreamedRun::Status() const {
  uint64_t sequence = 0;
  if (const std::shared_ptr<RunOwner> owner = this->owner()) {
    sequence = owner->log().last_sequence();
  }
  if (ended()) return EndStatus();
  RunStatus status;
  status.run = shared_record();
  status.open = true;
  status.tasks_total = run_->tasks();
  status.state = run_->state();
  status.counts = run_->counts();
  status.errors = run_->errors();
  if (const int64_t started = run_->started_ns(); started != 0) {
    status.queue_ns = started - run_->accepted_ns();
  }
  // A run is shown as ended only when its last events are in the log.
  if (engine::IsFinal(status.state)) status.state = engine::RunState::kRunning;
  status.as_of_sequence = sequence;
  return status;
}

void StreamedRun::Tell() { TellNews(); }

void StreamedRun::TellStall(RunStall stall, absl::Time time) {
  TellNews(StallEvent(std::move(stall), time));
}

void StreamedRun::CollectNews(std::vector<LogEntry>* news) {
  if (!told_queued_) {
    told_queued_ = true;
    news->push_back(StateEvent(engine::RunState::kQueued, record().create_time));
  }
  // The start before the records: a run whose records are here has started.
  const std::vector<engine::RecordBlock> blocks = run_->TakeRecords();
  const int64_t started = run_->started_ns();
  if (!told_started_ && started != 0) {
    told_started_ = true;
    if (!recorded()) mutable_record().queue_ns = started - run_->accepted_ns();
    news->push_back(StateEvent(engine::RunState::kRunning, TimeOf(started)));
  }
  EventLog::AddTasks(shared_record(), blocks, news);
  AddErrors(run_->TakeUnlistedErrors(), news);
}

void StreamedRun::TellNews(absl::optional<LogEntry> last) {
  MutexLock lock(tell_mutex_);
  // What is left is told by TellEnd.
  if (recorded()) return;
  std::vector<LogEntry> news;
  CollectNews(&news);
  if (last.has_value()) news.push_back(*std::move(last));
  if (news.empty()) return;
  if (const std::shared_ptr<RunOwner> owner = this->owner()) {
    owner->log().Append(absl::MakeSpan(news));
  }
}

}  // namespace pto::daemon
