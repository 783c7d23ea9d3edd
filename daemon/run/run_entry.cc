#include "daemon/run/run_entry.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>

#include "daemon/journal/journal.h"
#include "daemon/journal/run_codec.h"
#include "daemon/model/run_stats.h"

namespace pto::daemon {

LogEntry RunEntry::StateEvent(engine::RunState state, absl::Time time) const {
  LogEntry entry;
  entry.time = time;
  entry.event = RunEvent{shared_record(), state};
  return entry;
}

LogEntry RunEntry::StallEvent(RunStall stall, absl::Time time) const {
  stall.run = shared_record();
  LogEntry entry;
  entry.time = time;
  entry.event = std::move(stall);
  return entry;
}

void RunEntry::AddErrors(std::vector<absl::Status> errors, std::vector<LogEntry>* news) const {
  if (errors.empty()) return;
  const std::shared_ptr<RunOwner> owner = this->owner();
  // Nobody is left to tell.
  if (owner == nullptr) return;
  for (size_t begin = 0; begin < errors.size(); begin += RunErrors::kMost) {
    const auto first = errors.begin() + static_cast<ptrdiff_t>(begin);
    const size_t count = std::min(RunErrors::kMost, errors.size() - begin);
    LogEntry& entry = news->emplace_back();
    entry.time = owner->WallTime();
    entry.event = RunErrors{shared_record(), std::make_shared<const std::vector<absl::Status>>(
                                                 std::make_move_iterator(first),
                                                 std::make_move_iterator(first + count))};
  }
}

RunStatus RunEntry::FinalStatus() const {
  return StatusAt(shared_record(), end_state_, end_sequence_.load(std::memory_order_acquire));
}

RunStatus RunEntry::EndStatus() const {
  RunStatus status = FinalStatus();
  if (const std::shared_ptr<RunOwner> owner = this->owner()) {
    status.as_of_sequence = std::max(status.as_of_sequence, owner->log().last_sequence());
  }
  return status;
}

void RunEntry::ReleaseRun() {
  options_.run_charge = QuotaCharge();
  options_.task_charge = QuotaCharge();
  options_.memory_charge = HostCharge();
  if (const std::shared_ptr<RunOwner> owner = this->owner()) owner->ReleaseRun();
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
  waiter(FinalStatus());
  return 0;
}

bool RunEntry::RemoveWaiter(uint64_t id) {
  Waiter dropped;  // destroyed without the lock
  MutexLock lock(mutex_);
  const auto it =
      std::lower_bound(waiters_.begin(), waiters_.end(), id,
                       [](const auto& waiter, uint64_t wanted) { return waiter.first < wanted; });
  if (it == waiters_.end() || it->first != id || it->second == nullptr) return false;
  dropped = std::exchange(it->second, nullptr);
  // Many may be removed at once, so their places are given up together.
  if (++removed_waiters_ > waiters_.size() / 2) {
    waiters_.erase(std::remove_if(waiters_.begin(), waiters_.end(),
                                  [](const auto& waiter) { return waiter.second == nullptr; }),
                   waiters_.end());
    removed_waiters_ = 0;
  }
  return true;
}

void RunEntry::JournalEnd(engine::RunState state) {
  if (options_.journal == nullptr) return;
  options_.journal->EndRun(
      options_.journal_number,
      ToJournal(options_.record, options_.number, options_.own_number, options_.digest, state));
}

void RunEntry::MarkRecorded(engine::RunState state) {
  // A run of a former boot, which never had a session here, was counted there.
  const std::weak_ptr<RunOwner> none;
  const bool is_former = !options_.owner.owner_before(none) && !none.owner_before(options_.owner);
  if (!is_former) {
    const RunRecord& record = options_.record;
    metrics::RunStats::Process().OnEnded(static_cast<size_t>(state), record.queue_ns, record.run_ns,
                                         record.counts.failed, record.counts.skipped);
  }
  end_state_ = state;
  recorded_.store(true, std::memory_order_release);
}

bool RunEntry::MarkEnded() {
  ended_.store(true, std::memory_order_release);
  return waiters_.size() > removed_waiters_;
}

void RunEntry::AnswerWaiters() {
  std::vector<std::pair<uint64_t, Waiter>> waiters;
  {
    MutexLock lock(mutex_);
    waiters.swap(waiters_);
    removed_waiters_ = 0;
  }
  if (waiters.empty()) return;
  const RunStatus status = FinalStatus();
  for (const auto& [id, waiter] : waiters) {
    if (waiter != nullptr) waiter(status);
  }
}

GraphParts RunEntry::graph_parts() const {
  MutexLock lock(mutex_);
  return kept_ == nullptr ? GraphParts() : kept_->parts();
}

GraphParts RunEntry::Keep(std::shared_ptr<const GraphPart> part, KeptGraph::Bounds bounds) {
  if (kept_ == nullptr) kept_ = std::make_unique<KeptGraph>(bounds, options_.memory);
  GraphParts dropped = kept_->Add(std::move(part));
  kept_bytes_.store(kept_->bytes(), std::memory_order_relaxed);
  return dropped;
}

std::unique_ptr<KeptGraph> RunEntry::TakeKeptGraph() {
  MutexLock lock(mutex_);
  kept_bytes_.store(0, std::memory_order_relaxed);
  return std::move(kept_);
}

void RunEntry::AppendLast(std::vector<LogEntry> news) {
  if (const std::shared_ptr<RunOwner> owner = this->owner()) {
    end_sequence_.store(owner->log().Append(absl::MakeSpan(news)), std::memory_order_release);
  }
}

}  // namespace pto::daemon
