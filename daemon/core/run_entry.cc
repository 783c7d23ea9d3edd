#include "daemon/core/run_entry.h"

#include <algorithm>

#include "daemon/core/session.h"

namespace pto {
namespace {

LogEntry StateEvent(std::shared_ptr<const RunRecord> run, RunState state, absl::Time time) {
  LogEntry entry;
  entry.time = time;
  entry.event = RunEvent{std::move(run), state};
  return entry;
}

}  // namespace

RunEntry::RunEntry(Options options) : options_(std::move(options)) {}

void RunEntry::Attach(std::shared_ptr<Run> run) {
  MutexLock lock(mutex_);
  run_ = std::move(run);
}

void RunEntry::HoldNews() {
  MutexLock lock(mutex_);
  holding_.store(true, std::memory_order_seq_cst);
}

void RunEntry::ReleaseNews() {
  bool ended = false;
  {
    MutexLock lock(mutex_);
    if (!holding_.load(std::memory_order_relaxed)) return;
    holding_.store(false, std::memory_order_seq_cst);
    ended = this->ended();
  }
  if (ended) {
    Settle();
  } else {
    Tell();
  }
}

RunStatus RunEntry::Status() const {
  // The number first: what the counts hold is at least what the events up to it tell.
  uint64_t sequence = 0;
  if (const std::shared_ptr<Session> session = options_.session.lock()) {
    sequence = session->log().last_sequence();
  }
  if (ended()) return StatusAt(shared_record(), end_state_, std::max(sequence, end_sequence()));
  const std::shared_ptr<Run> run = this->run();
  // It ended just now.
  if (run == nullptr) return StatusAt(shared_record(), end_state_, end_sequence());
  RunStatus status;
  status.run = shared_record();
  status.state = run->state();
  status.counts = run->counts();
  status.errors = run->errors();
  if (const int64_t started = run->started_ns(); started != 0) {
    status.queue_ns = started - run->accepted_ns();
  }
  // The end is known to others only when it is in the log and the buffers are free.
  if (IsFinal(status.state)) {
    status.state = run->stop_requested() ? RunState::kCancelling : RunState::kRunning;
  }
  status.as_of_sequence = sequence;
  return status;
}

std::shared_ptr<Run> RunEntry::run() const {
  MutexLock lock(mutex_);
  return run_;
}

uint64_t RunEntry::AddWaiter(Waiter waiter) {
  {
    MutexLock lock(mutex_);
    if (!ended()) {
      const uint64_t id = next_waiter_++;
      waiters_.emplace_back(id, std::move(waiter));
      return id;
    }
  }
  waiter(StatusAt(shared_record(), end_state_, end_sequence()));
  return 0;
}

bool RunEntry::RemoveWaiter(uint64_t id) {
  Waiter dropped;  // destroyed without the lock
  MutexLock lock(mutex_);
  auto it = std::find_if(waiters_.begin(), waiters_.end(),
                         [id](const auto& waiter) { return waiter.first == id; });
  if (it == waiters_.end()) return false;
  dropped = std::move(it->second);
  waiters_.erase(it);
  return true;
}

void RunEntry::Tell() {
  if (const std::shared_ptr<Run> run = this->run()) TellNews(*run);
}

void RunEntry::CollectNews(Run& run, std::vector<LogEntry>* news) {
  std::shared_ptr<const RunRecord> record = shared_record();
  if (!told_queued_) {
    told_queued_ = true;
    news->push_back(StateEvent(record, RunState::kQueued, options_.record.create_time));
  }
  // The start before the records: a run whose records are here has started.
  std::vector<RecordBlock> blocks = run.TakeRecords();
  const int64_t started = run.started_ns();
  if (!told_started_ && started != 0) {
    told_started_ = true;
    if (!ended()) options_.record.queue_ns = started - run.accepted_ns();
    news->push_back(StateEvent(record, RunState::kRunning, TimeOf(run, started)));
  }
  EventLog::AddTasks(record, std::move(blocks), news);
}

void RunEntry::TellNews(Run& run) {
  MutexLock lock(tell_mutex_);
  // The end has told everything.
  if (ended()) return;
  std::vector<LogEntry> news;
  CollectNews(run, &news);
  if (news.empty()) return;
  if (const std::shared_ptr<Session> session = options_.session.lock()) {
    session->log().Append(absl::MakeSpan(news));
  }
}

void RunEntry::OnStarted(Run& run) {
  if (!holding_.load(std::memory_order_seq_cst)) TellNews(run);
}

void RunEntry::OnRecords(Run& run, size_t waiting) {
  if (holding_.load(std::memory_order_seq_cst)) return;
  if (waiting >= Run::kRecordBatch) {
    TellNews(run);
  } else if (const std::shared_ptr<Session> session = options_.session.lock()) {
    // A watcher comes for them when it likes.
    session->log().Nudge();
  }
}

void RunEntry::OnFinished(Run& run) {
  if (options_.slots != nullptr) {
    for (const std::shared_ptr<SessionBuffer>& buffer : options_.slots->buffers) {
      buffer->in_use.fetch_sub(1, std::memory_order_acq_rel);
    }
  }
  // Before anybody knows of the end, so that whoever does sees a domain that is revoked by it.
  DomainUses::Revoked revoked;
  if (options_.domains != nullptr) revoked = options_.domains->Leave(number(), run, name());
  // An entry stays readable for long; the memory that the run used must not stay with it.
  options_.slots.reset();
  const std::shared_ptr<RegisteredGraph> graph = std::move(options_.graph);
  std::vector<std::pair<uint64_t, Waiter>> waiters;
  bool settle = false;
  {
    MutexLock tell_lock(tell_mutex_);
    RunRecord& record = options_.record;
    if (const int64_t started = run.started_ns(); started != 0) {
      record.queue_ns = started - run.accepted_ns();
      record.run_ns = run.ended_ns() - started;
    }
    record.total_ns = run.ended_ns() - run.accepted_ns();
    record.counts = run.counts();
    record.errors = run.errors();
    end_state_ = run.state();
    if (graph != nullptr && run.started_ns() != 0) {
      graph->last_run_ns.store(std::max<int64_t>(record.run_ns, 1), std::memory_order_relaxed);
    }
    MutexLock lock(mutex_);
    ended_.store(true, std::memory_order_release);
    waiters.swap(waiters_);
    settle = !holding_.load(std::memory_order_relaxed) || !waiters.empty();
  }
  if (settle) Settle();
  if (!waiters.empty()) {
    const RunStatus status = StatusAt(shared_record(), end_state_, end_sequence());
    for (auto& [id, waiter] : waiters) waiter(status);
  }
  // Before those that waited for this one could begin.
  if (options_.domains != nullptr) options_.domains->Stop(revoked);
  // Last, so that the end of a run that waited for this one is told after this one's.
  End();
}

void RunEntry::OnTurn() {
  const std::shared_ptr<Run> run = this->run();
  if (run == nullptr) return;
  BeginUse();
  options_.engine->Begin(run);
}

void RunEntry::OnPassedLate() {
  // Without its session nobody looks at the buffers' queues any more.
  if (const std::shared_ptr<Session> session = options_.session.lock()) {
    session->OnPassedLate(*this);
  }
}

void RunEntry::Settle() {
  const std::shared_ptr<Session> session = options_.session.lock();
  std::shared_ptr<Run> last;  // destroyed without the locks
  {
    MutexLock tell_lock(tell_mutex_);
    if (settled_) return;
    settled_ = true;
    {
      // The image and what the engine kept go now; only the record stays.
      MutexLock lock(mutex_);
      last = std::move(run_);
    }
    std::vector<LogEntry> news;
    news.reserve(4);
    CollectNews(*last, &news);
    news.push_back(StateEvent(shared_record(), end_state_, TimeOf(*last, last->ended_ns())));
    if (session != nullptr) {
      end_sequence_.store(session->log().Append(absl::MakeSpan(news)), std::memory_order_release);
    }
  }
  if (session != nullptr) session->OnRunEnded(*this);
}

}  // namespace pto
