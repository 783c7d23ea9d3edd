#include "daemon/run/image_run.h"

#include <algorithm>
#include <utility>

#include "daemon/model/run_stats.h"
#include "daemon/run/run_table.h"

namespace pto::daemon {

static_assert(RunTurn::kShownBefore == engine::RunObserver::kShownBefore);

namespace {

// What images of runs that have ended may take: each alone, and all of a session together
// (RunTable). As much as a large graph does.
constexpr KeptGraph::Bounds kBounds = {RunTable::kMaxKeptBytes};

std::shared_ptr<const GraphPart> WholeOf(const engine::Run& run) {
  const auto whole = std::make_shared<GraphPart>();
  whole->image = run.shared_image();
  return whole;
}

}  // namespace

ImageRun::ImageRun(Options&& options, Parts&& parts)
    : RunEntry(std::move(options)), parts_(std::move(parts)) {}

void ImageRun::Attach(std::shared_ptr<engine::Run> run) {
  MutexLock lock(mutex_);
  run_ = std::move(run);
}

void ImageRun::SetQuiet(bool quiet) {
  // In this order: what other threads do not tell because the run is quiet is told here.
  quiet_.store(quiet, std::memory_order_seq_cst);
  if (!quiet && !recorded()) Tell();
}

RunStatus ImageRun::Status() const {
  // The number first: what the counts hold is at least what the events up to it tell.
  uint64_t sequence = 0;
  if (const std::shared_ptr<RunOwner> owner = this->owner()) {
    sequence = owner->log().last_sequence();
  }
  if (ended()) return EndStatus();
  const std::shared_ptr<engine::Run> run = this->run();
  if (run == nullptr) return FinalStatus();  // It ended just now.
  RunStatus status;
  status.run = shared_record();
  status.tasks_total = record().tasks_total;
  status.state = run->state();
  status.counts = run->counts();
  status.errors = run->errors();
  if (const int64_t started = run->started_ns(); started != 0) {
    status.queue_ns = started - run->accepted_ns();
  }
  // A run is shown as ended only when its last events are in the log.
  if (engine::IsFinal(status.state)) {
    status.state =
        run->stop_requested() ? engine::RunState::kCancelling : engine::RunState::kRunning;
  }
  status.as_of_sequence = sequence;
  return status;
}

void ImageRun::Stop(engine::RunState as, const absl::Status& error,
                    engine::Completions& completions) {
  if (const std::shared_ptr<engine::Run> run = this->run()) {
    parts_.engine->Stop(*run, as, error, completions);
  }
}

std::shared_ptr<engine::Run> ImageRun::run() const {
  MutexLock lock(mutex_);
  return run_;
}

GraphParts ImageRun::graph_parts() const {
  if (const std::shared_ptr<engine::Run> run = this->run()) return {WholeOf(*run)};
  return RunEntry::graph_parts();
}

void ImageRun::Tell() {
  if (const std::shared_ptr<engine::Run> run = this->run()) TellNews(*run);
}

void ImageRun::TellStall(RunStall stall, absl::Time time) {
  if (const std::shared_ptr<engine::Run> run = this->run()) {
    TellNews(*run, StallEvent(std::move(stall), time));
  }
}

void ImageRun::CollectNews(engine::Run& run, std::vector<LogEntry>* news) {
  if (!told_queued_) {
    told_queued_ = true;
    news->push_back(StateEvent(engine::RunState::kQueued, record().create_time));
  }
  // The start before the records: a run whose records are here has started.
  const std::vector<engine::RecordBlock> blocks = run.TakeRecords();
  const int64_t started = run.started_ns();
  if (!told_started_ && started != 0) {
    told_started_ = true;
    if (!recorded()) mutable_record().queue_ns = started - run.accepted_ns();
    news->push_back(StateEvent(engine::RunState::kRunning, TimeOf(run, started)));
  }
  EventLog::AddTasks(shared_record(), blocks, news);
  AddErrors(run.TakeUnlistedErrors(), news);
}

void ImageRun::TellNews(engine::Run& run, absl::optional<LogEntry> last) {
  MutexLock lock(tell_mutex_);
  // What is left is told by TellEnd.
  if (recorded()) return;
  std::vector<LogEntry> news;
  CollectNews(run, &news);
  if (last.has_value()) news.push_back(*std::move(last));
  if (news.empty()) return;
  if (const std::shared_ptr<RunOwner> owner = this->owner()) {
    owner->log().Append(absl::MakeSpan(news));
  }
}

void ImageRun::OnStarted(engine::Run& run) {
  if (!quiet_.load(std::memory_order_seq_cst)) TellNews(run);
}

void ImageRun::OnRecords(engine::Run& run, size_t waiting) {
  if (quiet_.load(std::memory_order_seq_cst)) return;
  if (waiting >= engine::Run::kRecordBatch) {
    TellNews(run);
  } else if (const std::shared_ptr<RunOwner> owner = this->owner()) {
    // A watcher comes for them when it likes.
    owner->log().Nudge();
  }
}

void ImageRun::RecordEnd(engine::Run& run) {
  if (parts_.slots != nullptr) {
    for (const std::shared_ptr<SessionBuffer>& buffer : parts_.slots->buffers) {
      buffer->in_use.fetch_sub(1, std::memory_order_acq_rel);
    }
  }
  std::vector<DomainRanks> ranks;
  if (parts_.slots != nullptr) ranks = parts_.slots->domain_ranks;
  if (parts_.domains != nullptr) revoked_ = parts_.domains->Leave(this, run, name());
  // An entry stays readable for long; the memory that the run used must not stay with it.
  parts_.slots.reset();
  const std::shared_ptr<RegisteredGraph> graph = std::move(parts_.graph);
  keeps_image_ = (graph == nullptr || graph->image.get() != &run.image()) &&
                 run.record_level() == engine::RecordLevel::kAll;
  ReleaseRun();
  MutexLock tell_lock(tell_mutex_);
  RunRecord& record = mutable_record();
  if (const int64_t started = run.started_ns(); started != 0) {
    record.queue_ns = started - run.accepted_ns();
    record.run_ns = run.ended_ns() - started;
    if (const int64_t begun = run.begun_ns(); begun != 0) {
      metrics::RunStats::Process().OnDispatched(started - begun);
    }
  }
  record.total_ns = run.ended_ns() - run.accepted_ns();
  record.counts = run.counts();
  record.errors = run.errors();
  if (!ranks.empty()) {
    for (absl::Status& error : record.errors) error = NameRanks(error, ranks);
  }
  if (graph != nullptr && run.started_ns() != 0) {
    graph->last_run_ns.store(std::max<int64_t>(record.run_ns, 1), std::memory_order_relaxed);
  }
  JournalEnd(run.state());
  MutexLock lock(mutex_);
  MarkRecorded(run.state());
}

void ImageRun::TellEnd(engine::Run& run) {
  std::shared_ptr<engine::Run> last;  // destroyed without the locks
  GraphParts dropped;                 // likewise
  {
    MutexLock tell_lock(tell_mutex_);
    std::vector<LogEntry> news;
    news.reserve(4);
    CollectNews(run, &news);
    news.push_back(StateEvent(end_state(), TimeOf(run, run.ended_ns())));
    AppendLast(std::move(news));
    // What the engine kept goes now; only the record stays, and perhaps the image.
    MutexLock lock(mutex_);
    last = std::move(run_);
    if (keeps_image_) dropped = Keep(WholeOf(run), kBounds);
    answers_ = MarkEnded();
  }
  if (const std::shared_ptr<RunOwner> owner = this->owner()) owner->OnRunEnded(*this, !answers_);
}

void ImageRun::AnswerEnd(engine::Run&) {
  if (!answers_) return;
  AnswerWaiters();
  if (const std::shared_ptr<RunOwner> owner = this->owner()) owner->LeaveTurn(*this);
}

void ImageRun::OnFinished(engine::Run&, engine::Completions& completions) {
  // Before the successors, which may use the same domains, can begin.
  DomainUses::Stop(std::exchange(revoked_, {}), completions);
  End(completions);
}

void ImageRun::BeginLater() {
  const std::shared_ptr<engine::Run> run = this->run();
  if (run == nullptr) return;
  const std::shared_ptr<RunEntry> self = shared_from_this();
  parts_.engine->BeginAfter(run, [this, self, run] {
    if (!run->stop_requested()) BeginUse();
  });
}

void ImageRun::OnTurn(engine::Completions& completions) {
  const std::shared_ptr<engine::Run> run = this->run();
  if (run == nullptr) return;
  if (begins_long()) return BeginLater();
  if (!run->stop_requested()) BeginUse();
  parts_.engine->Begin(run, completions);
}

void ImageRun::OnPassedLate() {
  // Without its session nobody looks at the buffers' queues any more.
  if (const std::shared_ptr<RunOwner> owner = this->owner()) owner->OnPassedLate(*this);
}

}  // namespace pto::daemon
