#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "daemon/events/packed_tasks.h"
#include "daemon/model/run_record.h"
#include "runtime/base/mutex.h"

namespace pto {

// A run has come into a state.
struct RunEvent {
  std::shared_ptr<const RunRecord> run;
  RunState state = RunState::kQueued;
};

// Ends of tasks of one run: as many as the entry's `skip` and `count` together.
struct TaskBlock {
  std::shared_ptr<const RunRecord> run;
  PackedTasks tasks;
};

// What went wrong in a run beyond what its record lists: some of it, in order of time.
struct RunErrors {
  // A few, so that an event stays small.
  static constexpr size_t kMost = 16;

  std::shared_ptr<const RunRecord> run;
  std::shared_ptr<const std::vector<absl::Status>> errors;
};

// A run does not go on.
struct RunStall {
  std::shared_ptr<const RunRecord> run;
  int verdict = 0;  // as pto.v1.ExplainRunResponse.Verdict
  absl::Duration idle;
  std::string summary;
};

// The session itself has ended.
struct SessionEnded {
  std::string why;
};

// Events that are no longer held.
struct Dropped {
  uint64_t last_sequence = 0;
};

// One entry of the log. It covers `count` sequence numbers from `sequence` on.
struct LogEntry {
  uint64_t sequence = 0;  // given by the log
  uint64_t count = 1;
  absl::Time time;
  std::variant<RunEvent, TaskBlock, RunErrors, RunStall, SessionEnded, Dropped> event;
  // For a task block: so many of its tasks were read earlier.
  uint64_t skip = 0;

  uint64_t last_sequence() const { return sequence + count - 1; }
};

// Is told that a log has grown. Called without locks held, from the thread that appended; must
// be quick and must not block.
class EventWatcher {
 public:
  virtual ~EventWatcher() = default;
  // `urgent`: a run or the session changed its state, which should not wait for company.
  virtual void OnEvents(bool urgent) = 0;
  // Number of the last event that it has taken. Any thread may ask.
  virtual uint64_t through() const { return std::numeric_limits<uint64_t>::max(); }
};

// The events of one session: numbered from 1 without gaps, bounded in bytes. A watcher is a
// cursor that someone else keeps; events exist once, here. When the log is full the oldest events
// of tasks, and of what went wrong in them, go first while they take half of it, else the oldest
// event of any kind; what went is reported to those who read from before. Thread-safe.
class EventLog {
 public:
  explicit EventLog(uint64_t max_bytes) : max_bytes_(max_bytes) {}

  // Takes what is to be told next, in order, at once. Returns the last sequence number that it
  // gave out.
  uint64_t Append(absl::Span<LogEntry> entries);
  uint64_t AppendRun(std::shared_ptr<const RunRecord> run, RunState state, absl::Time time);
  uint64_t AppendTasks(const std::shared_ptr<const RunRecord>& run,
                       absl::Span<const RecordBlock> blocks);
  uint64_t AppendSessionEnded(std::string why, absl::Time time);

  // Makes entries of blocks of a run, for Append. A block is sent whole, so its size bounds that
  // of a batch.
  static void AddTasks(const std::shared_ptr<const RunRecord>& run,
                       absl::Span<const RecordBlock> blocks, std::vector<LogEntry>* entries);

  // Tells the watchers that there is something to be had that is not in the log yet.
  void Nudge() { Tell(false); }

  // Entries after `after`, in order, up to about `max_events` events. What is no longer held
  // comes as Dropped, first.
  std::vector<LogEntry> Read(uint64_t after, uint64_t max_events) const;

  uint64_t last_sequence() const { return last_sequence_.load(std::memory_order_acquire); }
  uint64_t bytes() const;
  bool ended() const { return ended_.load(std::memory_order_acquire); }

  void AddWatcher(const std::shared_ptr<EventWatcher>& watcher);
  // Forgets a watcher; it may still be called once more while this returns.
  void RemoveWatcher(const EventWatcher* watcher);
  // How many there are, and how many events the slowest of them has not taken.
  struct Watchers {
    uint64_t count = 0;
    uint64_t largest_lag = 0;
  };
  Watchers watchers() const;
  // Events that all logs of the process together have dropped because they were full.
  static uint64_t dropped_events() { return dropped_events_.load(std::memory_order_relaxed); }
  bool has_watchers() const { return watcher_count_.load(std::memory_order_acquire) > 0; }

 private:
  static uint64_t BytesOf(const LogEntry& entry);
  void Add(LogEntry entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Trim() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ForgetFirst() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Tell(bool urgent);

  static inline std::atomic<uint64_t> dropped_events_{0};
  const uint64_t max_bytes_;
  std::atomic<uint64_t> last_sequence_{0};
  std::atomic<bool> ended_{false};
  std::atomic<int> watcher_count_{0};

  mutable Mutex mutex_;
  std::deque<LogEntry> entries_ ABSL_GUARDED_BY(mutex_);
  uint64_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t task_bytes_ ABSL_GUARDED_BY(mutex_) = 0;  // of them, in those of tasks
  // Numbers up to this one are no longer in `entries_`.
  uint64_t forgotten_ ABSL_GUARDED_BY(mutex_) = 0;
  // Where in `entries_` those of tasks are, oldest first; counted from the first entry ever.
  std::deque<uint64_t> task_blocks_ ABSL_GUARDED_BY(mutex_);
  uint64_t first_entry_ ABSL_GUARDED_BY(mutex_) = 0;  // of `entries_`, counted so
  std::vector<std::weak_ptr<EventWatcher>> watchers_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace pto
