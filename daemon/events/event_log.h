#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "daemon/events/packed_tasks.h"
#include "daemon/model/run_record.h"
#include "runtime/base/memory_account.h"
#include "runtime/base/mutex.h"

namespace pto::daemon {

// A run has changed its state.
struct RunEvent {
  std::shared_ptr<const RunRecord> run;
  engine::RunState state = engine::RunState::kQueued;
};

// Ends of tasks of one run: `skip` + `count` tasks of the entry.
struct TaskBlock {
  std::shared_ptr<const RunRecord> run;
  PackedTasks tasks;
};

// Errors of a run beyond those that its record lists, in order of time.
struct RunErrors {
  // Few, so that an event is small.
  static constexpr size_t kMost = 16;

  std::shared_ptr<const RunRecord> run;
  std::shared_ptr<const std::vector<absl::Status>> errors;
};

// A run makes no progress.
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

// Events that were dropped.
struct Dropped {
  uint64_t last_sequence = 0;
};

// One entry of the log. It covers `count` sequence numbers from `sequence` on.
struct LogEntry {
  uint64_t sequence = 0;  // assigned by the log
  uint64_t count = 1;
  absl::Time time;
  std::variant<RunEvent, TaskBlock, RunErrors, RunStall, SessionEnded, Dropped> event;
  // For a task block: the number of its tasks that were read earlier.
  uint64_t skip = 0;
  uint64_t bytes = 0;  // that the log counts for it; assigned by the log

  uint64_t last_sequence() const { return sequence + count - 1; }
};

// Is notified when a log has grown. Called without locks held, from the thread that appended. Must
// be fast and must not block.
class EventWatcher {
 public:
  virtual ~EventWatcher() = default;
  // `urgent`: a run or the session has changed its state, which should be sent without delay.
  virtual void OnEvents(bool urgent) = 0;
  // The number of the last event that it has taken. Thread-safe.
  virtual uint64_t through() const { return std::numeric_limits<uint64_t>::max(); }
};

// The events of one session, numbered from 1 without gaps and limited in bytes. A watcher is a
// cursor kept by its owner; events exist once, here. When the log is full, the oldest task events
// and run errors are dropped if they take at least half of it, otherwise the oldest event of any
// kind. Readers get Dropped in place of dropped events. The log is also full if the account that it
// is charged to has no more room, but it always keeps kFloor. Thread-safe.
class EventLog {
 public:
  // What the log may take even if there is no room.
  static constexpr uint64_t kFloor = uint64_t{64} << 10;

  // Nothing is charged without an account.
  explicit EventLog(uint64_t max_bytes, std::shared_ptr<MemoryAccount> memory = nullptr)
      : max_bytes_(max_bytes), charge_(std::move(memory)) {}

  // Appends the entries atomically and in order. Returns the last sequence number.
  uint64_t Append(absl::Span<LogEntry> entries);
  uint64_t AppendRun(std::shared_ptr<const RunRecord> run, engine::RunState state, absl::Time time);
  uint64_t AppendTasks(const std::shared_ptr<const RunRecord>& run,
                       absl::Span<const engine::RecordBlock> blocks);
  uint64_t AppendSessionEnded(std::string why, absl::Time time);

  // Converts record blocks of a run to entries for Append. A block is sent as a whole, so its size
  // limits that of a batch.
  static void AddTasks(const std::shared_ptr<const RunRecord>& run,
                       absl::Span<const engine::RecordBlock> blocks,
                       std::vector<LogEntry>* entries);

  // Tells the watchers that there are events to fetch that are not in the log yet.
  void Nudge() { Tell(false); }

  // Entries after `after`, in order, up to about `max_events` events. Dropped comes first if some
  // of them were dropped.
  std::vector<LogEntry> Read(uint64_t after, uint64_t max_events) const;

  // Drops old events of about this size, but for kFloor. Returns the bytes that are free now.
  uint64_t Shed(uint64_t bytes);

  uint64_t last_sequence() const { return last_sequence_.load(std::memory_order_acquire); }
  uint64_t bytes() const;
  bool ended() const { return ended_.load(std::memory_order_acquire); }

  void AddWatcher(const std::shared_ptr<EventWatcher>& watcher);
  // Removes a watcher. It may be called once more while this returns.
  void RemoveWatcher(const EventWatcher* watcher);
  // The number of watchers, and the number of events that the slowest has not taken.
  struct Watchers {
    uint64_t count = 0;
    uint64_t largest_lag = 0;
  };
  Watchers watchers() const;
  // The number of events that all logs of the process have dropped because they were full.
  static uint64_t dropped_events() { return dropped_events_.load(std::memory_order_relaxed); }
  bool has_watchers() const { return watcher_count_.load(std::memory_order_acquire) > 0; }

 private:
  static uint64_t BytesOf(const LogEntry& entry);
  void Add(LogEntry&& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Charges what the log has grown by. Returns how large it may be.
  uint64_t Cover() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Trim(uint64_t most) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ForgetFirst() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Has the processor load what one of the next calls of ForgetFirst frees.
  void PrefetchNext() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Tell(bool urgent);

  static inline std::atomic<uint64_t> dropped_events_{0};
  const uint64_t max_bytes_;
  std::atomic<uint64_t> last_sequence_{0};
  std::atomic<bool> ended_{false};
  std::atomic<int> watcher_count_{0};

  mutable Mutex mutex_;
  std::deque<LogEntry> entries_ ABSL_GUARDED_BY(mutex_);
  uint64_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  HostCharge charge_ ABSL_GUARDED_BY(mutex_);        // at least `bytes_`
  uint64_t task_bytes_ ABSL_GUARDED_BY(mutex_) = 0;  // of these, task events
  // The last sequence number that is not in `entries_` any more.
  uint64_t forgotten_ ABSL_GUARDED_BY(mutex_) = 0;
  // The positions of task events in `entries_`, oldest first, counted from the first entry ever.
  std::deque<uint64_t> task_blocks_ ABSL_GUARDED_BY(mutex_);
  uint64_t first_entry_ ABSL_GUARDED_BY(mutex_) = 0;  // position of the front, likewise
  std::vector<std::weak_ptr<EventWatcher>> watchers_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace pto::daemon
