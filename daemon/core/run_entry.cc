#include "daemon/core/run_entry.h"

#include <algorithm>

#include "daemon/core/session.h"

namespace pto {

RunEntry::RunEntry(std::weak_ptr<Session> session, std::shared_ptr<const RunIdentity> identity,
                   const Digest& digest, std::shared_ptr<RegisteredGraph> graph,
                   std::vector<std::shared_ptr<SessionBuffer>> buffers, const Clock& clock)
    : session_(std::move(session)),
      identity_(std::move(identity)),
      digest_(digest),
      graph_(std::move(graph)),
      buffers_(std::move(buffers)),
      clock_(clock) {}

void RunEntry::Attach(std::shared_ptr<Run> run) {
  MutexLock lock(mutex_);
  run_ = std::move(run);
}

RunStatus RunEntry::StatusOf(const Run& run) const {
  RunStatus status;
  status.identity = identity_;
  status.state = run.state();
  status.errors = run.errors();
  const int64_t started = run.started_ns();
  const int64_t ended = run.ended_ns();
  if (started != 0) status.queue_ns = started - run.accepted_ns();
  if (ended != 0) {
    status.total_ns = ended - run.accepted_ns();
    if (started != 0) status.run_ns = ended - started;
  }
  status.counts = run.counts();
  return status;
}

RunStatus RunEntry::Status() const {
  // The number first: what the counts hold is at least what the events up to it tell.
  uint64_t sequence = 0;
  if (const std::shared_ptr<Session> session = session_.lock()) {
    sequence = session->log().last_sequence();
  }
  std::shared_ptr<Run> run;
  {
    MutexLock lock(mutex_);
    if (final_ != nullptr) {
      RunStatus status = *final_;
      status.as_of_sequence = std::max(sequence, status.as_of_sequence);
      return status;
    }
    run = run_;
  }
  RunStatus status = StatusOf(*run);
  // The end is known to others only when it is in the log and the buffers are free.
  if (IsFinal(status.state)) status.state = RunState::kRunning;
  status.as_of_sequence = sequence;
  return status;
}

bool RunEntry::ended() const {
  MutexLock lock(mutex_);
  return final_ != nullptr;
}

std::shared_ptr<Run> RunEntry::run() const {
  MutexLock lock(mutex_);
  return run_;
}

uint64_t RunEntry::AddWaiter(Waiter waiter) {
  std::shared_ptr<const RunStatus> ended;
  {
    MutexLock lock(mutex_);
    if (final_ == nullptr) {
      const uint64_t id = next_waiter_++;
      waiters_.emplace_back(id, std::move(waiter));
      return id;
    }
    ended = final_;
  }
  waiter(*ended);
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

void RunEntry::Drain() {
  const std::shared_ptr<Run> run = this->run();
  if (run != nullptr) MoveRecords(*run);
}

void RunEntry::OnStarted(Run& run) {
  if (const std::shared_ptr<Session> session = session_.lock()) {
    RunStatus status = StatusOf(run);
    status.state = RunState::kRunning;
    session->log().AppendRun(std::move(status), clock_.WallTime());
  }
}

void RunEntry::OnRecords(Run& run, size_t waiting) {
  if (waiting >= Run::kRecordBatch) {
    MoveRecords(run);
  } else if (const std::shared_ptr<Session> session = session_.lock()) {
    // A watcher comes for them when it likes.
    session->log().Nudge();
  }
}

void RunEntry::MoveRecords(Run& run) {
  MutexLock lock(drain_mutex_);
  std::vector<TaskRecord> records = run.TakeRecords();
  if (records.empty()) return;
  if (const std::shared_ptr<Session> session = session_.lock()) {
    session->log().AppendTasks(identity_, std::move(records), clock_.WallTime());
  }
}

void RunEntry::OnFinished(Run& run) {
  MoveRecords(run);
  RunStatus status = StatusOf(run);
  for (const std::shared_ptr<SessionBuffer>& buffer : buffers_) {
    buffer->in_use.fetch_sub(1, std::memory_order_acq_rel);
  }
  // An entry stays readable for long; the memory that the run used must not stay with it.
  buffers_ = {};
  if (graph_ != nullptr) {
    graph_->last_run_ns.store(std::max<int64_t>(status.run_ns, 1), std::memory_order_relaxed);
  }
  const std::shared_ptr<Session> session = session_.lock();
  if (session != nullptr) {
    status.as_of_sequence = session->log().AppendRun(status, clock_.WallTime());
  }
  std::vector<std::pair<uint64_t, Waiter>> waiters;
  auto ended = std::make_shared<const RunStatus>(std::move(status));
  {
    MutexLock lock(mutex_);
    final_ = ended;
    // The image and what the engine kept go now; only the status stays.
    run_.reset();
    waiters.swap(waiters_);
  }
  if (session != nullptr) session->OnRunEnded(*this);
  for (auto& [id, waiter] : waiters) waiter(*ended);
}

}  // namespace pto
