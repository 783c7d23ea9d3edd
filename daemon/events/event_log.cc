#include "daemon/events/event_log.h"

#include <algorithm>
#include <utility>

namespace pto {
namespace {

// A block is sent whole, so this bounds the size of a batch too.
constexpr size_t kMaxBlockRecords = 1024;

// Place of the entry that holds `sequence`, or of the first one after it.
std::deque<LogEntry>::const_iterator FindEntry(const std::deque<LogEntry>& entries,
                                               uint64_t sequence) {
  return std::partition_point(entries.begin(), entries.end(), [sequence](const LogEntry& entry) {
    return entry.last_sequence() < sequence;
  });
}

}  // namespace

uint64_t EventLog::BytesOf(const LogEntry& entry) {
  uint64_t bytes = sizeof(LogEntry);
  if (const auto* run = std::get_if<std::shared_ptr<const RunStatus>>(&entry.event)) {
    bytes += sizeof(RunStatus) + 64;
    for (const absl::Status& error : (*run)->errors) bytes += 256 + error.message().size();
  } else if (const auto* tasks = std::get_if<std::shared_ptr<const TaskBlock>>(&entry.event)) {
    bytes += sizeof(TaskBlock) + 64 + (*tasks)->records.size() * sizeof(TaskRecord);
  }
  return bytes;
}

uint64_t EventLog::Append(LogEntry entry) {
  entry.sequence = last_sequence_.load(std::memory_order_relaxed) + 1;
  const uint64_t last = entry.last_sequence();
  const uint64_t bytes = BytesOf(entry);
  if (std::holds_alternative<std::shared_ptr<const TaskBlock>>(entry.event)) {
    task_blocks_.push_back(entry.sequence);
    task_bytes_ += bytes;
  }
  bytes_ += bytes;
  entries_.push_back(std::move(entry));
  last_sequence_.store(last, std::memory_order_release);
  Trim();
  return last;
}

void EventLog::Trim() {
  while (bytes_ > max_bytes_ && entries_.size() > 1) {
    // Task events are many and small news, so they go first; but a log full of old runs must
    // not push out every task event of a new one.
    if (2 * task_bytes_ >= bytes_) {
      const auto at = FindEntry(entries_, task_blocks_.front()) - entries_.cbegin();
      LogEntry& oldest = entries_[static_cast<size_t>(at)];
      const uint64_t bytes = BytesOf(oldest);
      task_blocks_.pop_front();
      task_bytes_ -= bytes;
      oldest.event = Dropped{oldest.last_sequence()};
      bytes_ -= bytes - BytesOf(oldest);
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
  const uint64_t bytes = BytesOf(first);
  if (!task_blocks_.empty() && task_blocks_.front() == first.sequence) {
    task_blocks_.pop_front();
    task_bytes_ -= bytes;
  }
  forgotten_ = first.last_sequence();
  bytes_ -= bytes;
  entries_.pop_front();
}

uint64_t EventLog::AppendRun(RunStatus status, absl::Time time) {
  uint64_t last = 0;
  {
    MutexLock lock(mutex_);
    status.as_of_sequence = last_sequence_.load(std::memory_order_relaxed) + 1;
    LogEntry entry;
    entry.time = time;
    entry.event = std::make_shared<const RunStatus>(std::move(status));
    last = Append(std::move(entry));
  }
  Tell(true);
  return last;
}

uint64_t EventLog::AppendTasks(const std::shared_ptr<const RunIdentity>& run,
                               std::vector<TaskRecord> records, absl::Time time) {
  if (records.empty()) return last_sequence();
  uint64_t last = 0;
  {
    MutexLock lock(mutex_);
    for (size_t first = 0; first < records.size(); first += kMaxBlockRecords) {
      auto block = std::make_shared<TaskBlock>();
      block->run = run;
      if (records.size() <= kMaxBlockRecords) {
        block->records = std::move(records);
        records.clear();
      } else {
        const size_t end = std::min(records.size(), first + kMaxBlockRecords);
        block->records.assign(records.begin() + static_cast<ptrdiff_t>(first),
                              records.begin() + static_cast<ptrdiff_t>(end));
      }
      LogEntry entry;
      entry.time = time;
      entry.count = block->records.size();
      entry.event = std::shared_ptr<const TaskBlock>(std::move(block));
      last = Append(std::move(entry));
    }
  }
  Tell(false);
  return last;
}

uint64_t EventLog::AppendSessionEnded(std::string why, absl::Time time) {
  uint64_t last = 0;
  {
    MutexLock lock(mutex_);
    LogEntry entry;
    entry.time = time;
    entry.event = std::make_shared<const SessionEnded>(SessionEnded{std::move(why)});
    last = Append(std::move(entry));
    ended_.store(true, std::memory_order_release);
  }
  Tell(true);
  return last;
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

}  // namespace pto
