#include "daemon/events/event_log.h"

#include <algorithm>
#include <utility>

#include "runtime/base/prefetch.h"

namespace pto::daemon {
namespace {

// The log is charged in steps of this size, so that an event costs no atomic operation.
constexpr uint64_t kStep = uint64_t{16} << 10;

// The approximate size of a run's record and its entry.
constexpr uint64_t kRecordBytes = 512;

uint64_t BytesOf(const std::vector<absl::Status>& errors) {
  uint64_t bytes = 0;
  for (const absl::Status& error : errors) bytes += 256 + error.ToString().size();
  return bytes;
}

// The entry that contains `sequence`, or the first one after it.
std::deque<LogEntry>::const_iterator FindEntry(const std::deque<LogEntry>& entries,
                                               uint64_t sequence) {
  return std::partition_point(entries.begin(), entries.end(), [sequence](const LogEntry& entry) {
    return entry.last_sequence() < sequence;
  });
}

}  // namespace

uint64_t EventLog::BytesOf(const LogEntry& entry) {
  uint64_t bytes = sizeof(LogEntry);
  if (const auto* run = std::get_if<RunEvent>(&entry.event)) {
    // A record is allocated with its first event, and its errors with its last.
    if (run->state == engine::RunState::kQueued) {
      bytes += kRecordBytes;
      for (const auto& [key, value] : run->run->labels) bytes += 96 + key.size() + value.size();
    }
    if (engine::IsFinal(run->state)) bytes += pto::daemon::BytesOf(run->run->errors);
  } else if (const auto* tasks = std::get_if<TaskBlock>(&entry.event)) {
    bytes += 64 + tasks->tasks.bytes();
  } else if (const auto* errors = std::get_if<RunErrors>(&entry.event)) {
    bytes += pto::daemon::BytesOf(*errors->errors);
  } else if (const auto* stall = std::get_if<RunStall>(&entry.event)) {
    bytes += stall->summary.size();
  }
  return bytes;
}

void EventLog::Add(LogEntry&& entry) {
  entry.sequence = last_sequence_.load(std::memory_order_relaxed) + 1;
  const uint64_t last = entry.last_sequence();
  entry.bytes = BytesOf(entry);
  if (std::holds_alternative<TaskBlock>(entry.event) ||
      std::holds_alternative<RunErrors>(entry.event)) {
    task_blocks_.push_back(first_entry_ + entries_.size());
    task_bytes_ += entry.bytes;
  }
  bytes_ += entry.bytes;
  entries_.push_back(std::move(entry));
  last_sequence_.store(last, std::memory_order_release);
  Trim(Cover());
  // An entry alone can be larger than the floor.
  if (bytes_ > charge_.bytes()) charge_.ForceResize(bytes_);
}

uint64_t EventLog::Cover() {
  if (bytes_ <= charge_.bytes()) return max_bytes_;
  const uint64_t wanted = (bytes_ + kStep - 1) / kStep * kStep;
  if (charge_.TryResize(wanted)) return max_bytes_;
  charge_.ForceResize(std::max(charge_.bytes(), std::min(wanted, kFloor)));
  return std::min(max_bytes_, charge_.bytes());
}

uint64_t EventLog::Shed(uint64_t bytes) {
  MutexLock lock(mutex_);
  if (bytes_ <= kFloor) return 0;
  const uint64_t before = charge_.bytes();
  // Whole steps are given back.
  const uint64_t after = (before - std::min(bytes, before)) / kStep * kStep;
  Trim(std::max(kFloor, std::min(after, bytes_)));
  const uint64_t kept = (bytes_ + kStep - 1) / kStep * kStep;
  if (kept >= before) return 0;
  charge_.ForceResize(kept);
  return before - kept;
}

void EventLog::Trim(uint64_t most) {
  while (bytes_ > most && entries_.size() > 1) {
    // Task events are numerous and less important, so they are dropped first. But a log full of old
    // runs must not drop all task events of a new run.
    if (2 * task_bytes_ >= bytes_) {
      LogEntry& oldest = entries_[task_blocks_.front() - first_entry_];
      const uint64_t bytes = oldest.bytes;
      task_blocks_.pop_front();
      task_bytes_ -= bytes;
      dropped_events_.fetch_add(oldest.count, std::memory_order_relaxed);
      oldest.event = Dropped{oldest.last_sequence()};
      oldest.bytes = BytesOf(oldest);
      bytes_ -= bytes - oldest.bytes;
    } else {
      ForgetFirst();
    }
    while (entries_.size() > 1 && std::holds_alternative<Dropped>(entries_.front().event)) {
      ForgetFirst();
    }
  }
}

void EventLog::ForgetFirst() {
  const LogEntry& first = entries_.front();
  const uint64_t bytes = first.bytes;
  if (!task_blocks_.empty() && task_blocks_.front() == first_entry_) {
    task_blocks_.pop_front();
    task_bytes_ -= bytes;
  }
  // Events that were dropped earlier are already counted.
  if (!std::holds_alternative<Dropped>(first.event)) {
    dropped_events_.fetch_add(first.count, std::memory_order_relaxed);
  }
  forgotten_ = first.last_sequence();
  bytes_ -= bytes;
  entries_.pop_front();
  ++first_entry_;
  PrefetchNext();
}

void EventLog::PrefetchNext() const {
  // A run often has three events.
  constexpr size_t kRunAhead = 3, kEntryAhead = 9;
  if (entries_.size() <= kEntryAhead) return;
  Prefetch(&entries_[kEntryAhead], sizeof(LogEntry));
  const auto* run = std::get_if<RunEvent>(&entries_[kRunAhead].event);
  // The last event of a run mostly takes the run with it.
  if (run != nullptr && engine::IsFinal(run->state)) Prefetch(run->run.get(), sizeof(RunRecord));
}

uint64_t EventLog::Append(absl::Span<LogEntry> entries) {
  if (entries.empty()) return last_sequence();
  bool urgent = false;
  uint64_t last = 0;
  {
    MutexLock lock(mutex_);
    for (LogEntry& entry : entries) {
      urgent |= !std::holds_alternative<TaskBlock>(entry.event);
      const bool end = std::holds_alternative<SessionEnded>(entry.event);
      Add(std::move(entry));
      // Set it last: a reader that sees the end of the log can read all of it.
      if (end) ended_.store(true, std::memory_order_release);
    }
    last = last_sequence_.load(std::memory_order_relaxed);
  }
  Tell(urgent);
  return last;
}

uint64_t EventLog::AppendRun(std::shared_ptr<const RunRecord> run, engine::RunState state,
                             absl::Time time) {
  LogEntry entry;
  entry.time = time;
  entry.event = RunEvent{std::move(run), state};
  return Append(absl::MakeSpan(&entry, 1));
}

void EventLog::AddTasks(const std::shared_ptr<const RunRecord>& run,
                        absl::Span<const engine::RecordBlock> blocks,
                        std::vector<LogEntry>* entries) {
  for (const engine::RecordBlock& block : blocks) {
    LogEntry entry;
    entry.time = run->create_time + absl::Nanoseconds(block.records[block.count - 1].end_ns);
    entry.count = block.count;
    entry.event = TaskBlock{run, PackedTasks({block.records.get(), block.count})};
    entries->push_back(std::move(entry));
  }
}

uint64_t EventLog::AppendTasks(const std::shared_ptr<const RunRecord>& run,
                               absl::Span<const engine::RecordBlock> blocks) {
  std::vector<LogEntry> entries;
  AddTasks(run, blocks, &entries);
  return Append(absl::MakeSpan(entries));
}

uint64_t EventLog::AppendSessionEnded(std::string why, absl::Time time) {
  LogEntry entry;
  entry.time = time;
  entry.event = SessionEnded{std::move(why)};
  return Append(absl::MakeSpan(&entry, 1));
}

std::vector<LogEntry> EventLog::Read(uint64_t after, uint64_t max_events) const {
  std::vector<LogEntry> out;
  if (after >= last_sequence()) return out;
  MutexLock lock(mutex_);
  if (after < forgotten_) {
    LogEntry entry;
    entry.sequence = after + 1;
    entry.count = forgotten_ - after;
    entry.event = Dropped{forgotten_};
    out.push_back(std::move(entry));
    after = forgotten_;
  }
  uint64_t events = 0;
  for (auto it = FindEntry(entries_, after + 1); it != entries_.end() && events < max_events;
       ++it) {
    LogEntry entry = *it;
    if (entry.sequence <= after) {
      entry.skip = after + 1 - entry.sequence;
      entry.sequence += entry.skip;
      entry.count -= entry.skip;
    }
    const bool gap = std::holds_alternative<Dropped>(entry.event);
    if (gap && !out.empty() && std::holds_alternative<Dropped>(out.back().event)) {
      out.back().count += entry.count;
      out.back().event = entry.event;
      continue;
    }
    events += gap ? 1 : entry.count;
    out.push_back(std::move(entry));
  }
  return out;
}

uint64_t EventLog::bytes() const {
  MutexLock lock(mutex_);
  return bytes_;
}

void EventLog::AddWatcher(const std::shared_ptr<EventWatcher>& watcher) {
  MutexLock lock(mutex_);
  watchers_.push_back(watcher);
  watcher_count_.store(static_cast<int>(watchers_.size()), std::memory_order_release);
}

void EventLog::RemoveWatcher(const EventWatcher* watcher) {
  MutexLock lock(mutex_);
  watchers_.erase(std::remove_if(watchers_.begin(), watchers_.end(),
                                 [watcher](const std::weak_ptr<EventWatcher>& weak) {
                                   const std::shared_ptr<EventWatcher> held = weak.lock();
                                   return held == nullptr || held.get() == watcher;
                                 }),
                  watchers_.end());
  watcher_count_.store(static_cast<int>(watchers_.size()), std::memory_order_release);
}

void EventLog::Tell(bool urgent) {
  if (!has_watchers()) return;
  std::vector<std::shared_ptr<EventWatcher>> told;
  {
    MutexLock lock(mutex_);
    for (const std::weak_ptr<EventWatcher>& weak : watchers_) {
      if (std::shared_ptr<EventWatcher> watcher = weak.lock()) told.push_back(std::move(watcher));
    }
  }
  for (const std::shared_ptr<EventWatcher>& watcher : told) watcher->OnEvents(urgent);
}

EventLog::Watchers EventLog::watchers() const {
  std::vector<std::shared_ptr<EventWatcher>> present;
  {
    MutexLock lock(mutex_);
    for (const std::weak_ptr<EventWatcher>& watcher : watchers_) {
      if (std::shared_ptr<EventWatcher> alive = watcher.lock()) present.push_back(std::move(alive));
    }
  }
  const uint64_t last = last_sequence();
  Watchers watchers;
  watchers.count = present.size();
  for (const std::shared_ptr<EventWatcher>& watcher : present) {
    watchers.largest_lag =
        std::max(watchers.largest_lag, last - std::min(last, watcher->through()));
  }
  return watchers;
}

}  // namespace pto::daemon
