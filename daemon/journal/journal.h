#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "daemon/journal/history.h"
#include "daemon/journal/journal.pb.h"
#include "daemon/journal/segment.h"
#include "runtime/base/clock.h"
#include "runtime/base/mutex.h"

namespace pto::daemon {

// Remembers across restarts which runs were accepted and how they ended. Thread-safe.
//
// When a call returns, its record survives the end of the process: that costs one write(2). A
// separate thread syncs records to disk soon after, in batches. When the disk is full, no run is
// accepted; ends of runs are kept in memory and written when there is space again.
class Journal {
 public:
  struct Options {
    std::string directory;
    std::string boot_id;
    JournalRetention retention;
    // The maximum time before a record is synced to disk.
    absl::Duration sync_interval = absl::Milliseconds(100);
    // The interval of retries when nothing can be written.
    absl::Duration retry_interval = absl::Seconds(1);
    const Clock* clock = &Clock::Real();
  };

  // Reads the existing files, rewrites their contents and removes them. Only this process may use
  // the directory. Errors: PATH_UNUSABLE, JOURNAL_NEWER.
  static absl::StatusOr<std::unique_ptr<Journal>> Open(Options options);
  // Syncs everything to disk, as far as it can be written.
  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  // What earlier boots have recorded. Call it once.
  JournalHistory TakeHistory() { return std::move(history_); }

  // A session is about to be created, or has ended. Error: JOURNAL_UNWRITABLE.
  absl::Status AddSession(const std::string& id);
  void EndSession(const std::string& id);

  // A run is about to be accepted. Returns the number to pass to EndRun. Error: JOURNAL_UNWRITABLE.
  absl::StatusOr<uint64_t> AddRun(const journal::v1::RunRecord& run);
  // A run has ended. Call it before anyone is told of the end.
  void EndRun(uint64_t number, const journal::v1::RunRecord& run);

  // `callback` is called with false when the journal cannot be written and with true when it can
  // again, from any thread. When this returns, the previous callback is not called any more.
  // nullptr: none.
  void OnWritable(std::function<void(bool)> callback);
  bool writable() const { return writable_.load(std::memory_order_acquire); }

  // Syncs all records to disk.
  absl::Status Sync();

 private:
  // What is written once more when its file goes.
  struct Kept {
    uint64_t segment = 0;
    std::string bytes;
  };
  struct Segment {
    uint64_t number = 0;
    uint64_t bytes = 0;
    uint64_t ended_runs = 0;
    absl::Time newest;
  };
  // A run's last record.
  struct End {
    uint64_t run = 0;  // as AddRun returned it; 0 for one of a former boot
    absl::Time time;
    std::string bytes;
  };

  explicit Journal(Options options);

  absl::Status WriteHistory();
  absl::Status Append(absl::string_view bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status AppendEnd(const End& end) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // There is something to sync.
  void MarkDirty() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status BeginSegment() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DropOldSegments() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Rewrites those records of the file that are still needed.
  absl::Status CarryOn(uint64_t segment) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Removes a file, or renames it if it is corrupt.
  void RemoveSegment(uint64_t number) const;
  // Returns JOURNAL_UNWRITABLE because of `cause`.
  absl::Status Fail(const absl::Status& cause) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status UnwritableError() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Writes what waits; on success the journal is writable again.
  void TryAgain();
  // Reports the current state: another thread may have changed and reported it since the caller
  // changed it.
  void TellWritable();
  void SyncLoop();

  const Options options_;
  const uint64_t segment_bytes_;
  JournalHistory history_;
  std::vector<uint64_t> broken_;      // files of former boots; set by Open
  std::atomic<bool> writable_{true};  // written under mutex_

  Mutex callback_mutex_;  // held during the call
  std::function<void(bool)> on_writable_ ABSL_GUARDED_BY(callback_mutex_);

  // Held during Sync and taken before mutex_: a file is removed only when all earlier records are
  // on disk.
  Mutex sync_mutex_;

  Mutex mutex_;
  CondVar wake_;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  bool dirty_ ABSL_GUARDED_BY(mutex_) = false;
  std::string cause_ ABSL_GUARDED_BY(mutex_);  // while not writable
  // The current file was begun for a retry, and nothing has been written to it yet.
  bool fresh_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t next_run_ ABSL_GUARDED_BY(mutex_) = 1;
  uint64_t next_segment_ ABSL_GUARDED_BY(mutex_) = 1;
  std::unique_ptr<SegmentWriter> writer_ ABSL_GUARDED_BY(mutex_);
  // Earlier files that may not be on disk yet.
  std::vector<std::unique_ptr<SegmentWriter>> full_ ABSL_GUARDED_BY(mutex_);
  // A file was begun whose directory entry may not be on disk yet.
  bool begun_ ABSL_GUARDED_BY(mutex_) = false;
  // Files to remove once everything written since is on disk.
  std::vector<uint64_t> gone_ ABSL_GUARDED_BY(mutex_);
  std::deque<Segment> segments_ ABSL_GUARDED_BY(mutex_);  // oldest first; the last is written to
  absl::flat_hash_map<uint64_t, Kept> runs_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<std::string, Kept> sessions_ ABSL_GUARDED_BY(mutex_);
  std::deque<End> waiting_ ABSL_GUARDED_BY(mutex_);

  std::thread sync_thread_;
};

}  // namespace pto::daemon
