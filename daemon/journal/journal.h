#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "daemon/journal/clock_check.h"
#include "daemon/journal/history.h"
#include "daemon/journal/id_files.h"
#include "daemon/journal/journal.pb.h"
#include "daemon/journal/segment.h"
#include "daemon/journal/storage.h"
#include "runtime/base/clock.h"
#include "runtime/base/mutex.h"

namespace pto::daemon {

// Remembers across restarts which runs were accepted and how they ended. Thread-safe.
//
// When a call returns, its record survives the end of the process: that costs one write(2). A
// separate thread syncs records to disk soon after, in batches. When the disk is full or fails, no
// run is accepted; ends of runs are kept in memory. So are all records that are not known to be on
// the disk. They are written into a new file, and when that is synced, runs are accepted again.
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
    // nullptr: `directory` itself.
    std::shared_ptr<Storage> storage;
  };

  // What of the disk's failures can be seen from outside.
  struct Counts {
    JournalDamage damage;   // that the start has found
    uint64_t failures = 0;  // how often the journal could not be written or synced
    uint64_t segments = 0;  // files
    uint64_t bytes = 0;     // in them
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
  absl::Status AddSession(const std::string& id, const std::string& owner);
  void EndSession(const std::string& id);

  // A run is about to be accepted. Returns the number to pass to EndRun. Error: JOURNAL_UNWRITABLE.
  absl::StatusOr<uint64_t> AddRun(journal::v1::RunRecord run);
  // A run has ended. Call it before anyone is told of the end.
  void EndRun(uint64_t number, journal::v1::RunRecord run);

  // `callback` is called with false when the journal cannot be written and with true when it can
  // again, from any thread. When this returns, the previous callback is not called any more.
  // nullptr: none.
  void OnWritable(std::function<void(bool)> callback);
  bool writable() const { return writable_.load(std::memory_order_acquire); }

  // Syncs all records to disk. Errors: PATH_UNUSABLE, JOURNAL_UNWRITABLE.
  absl::Status Sync();

  Counts counts();

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
    UsedRunIds ids;  // of runs whose last record is in it
  };
  // A run's last record.
  struct End {
    uint64_t run = 0;   // as AddRun returned it; 0 for one of a former boot
    uint64_t hash = 0;  // of its id; 0 when nobody can use it again
    absl::Time time;
    std::string bytes;
  };

  explicit Journal(Options options);

  // ---- at the start
  absl::Status WriteHistory();
  // Removes a file that was read at the start, or keeps it for inspection.
  void PutAside(const std::string& name, bool damaged, bool torn);
  void RemoveLeftovers(const std::vector<std::string>& names);

  // ---- appending
  absl::Status Append(absl::string_view bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status AppendEnd(const End& end) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The end is in the newest file.
  void NoteEnd(const End& end) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // There is something to sync.
  void MarkDirty() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::string BootRecord() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status BeginSegment() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AddSegment(std::shared_ptr<SegmentWriter> writer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  uint64_t UnsyncedBytes() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DropOldSegments() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Rewrites those records of the file that are still needed.
  absl::Status CarryOn(uint64_t segment) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Writes down a time that is believed, now and then.
  void NoteTime(absl::Duration every) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns JOURNAL_UNWRITABLE because of `cause`.
  absl::Status Fail(const absl::Status& cause) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status UnwritableError() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Reports the current state: another thread may have changed and reported it since the caller
  // changed it.
  void TellWritable();

  // ---- to the disk
  absl::Status SyncFiles() ABSL_EXCLUSIVE_LOCKS_REQUIRED(sync_mutex_);
  // Removes files, when their ids are in files of ids.
  void RemoveGone(std::vector<Segment> gone) ABSL_EXCLUSIVE_LOCKS_REQUIRED(sync_mutex_);
  // Writes what may not be on the disk, and what waits, into a new file and syncs it. On success
  // the journal is writable again.
  absl::Status Recover() ABSL_EXCLUSIVE_LOCKS_REQUIRED(sync_mutex_);
  absl::StatusOr<std::shared_ptr<SegmentWriter>> Rewrite(
      const std::string& name, const std::string& first,
      const std::vector<std::pair<uint64_t, std::shared_ptr<SegmentWriter>>>& old,
      const std::vector<std::string>& ends);
  void SyncLoop();

  const Options options_;
  const std::shared_ptr<Storage> storage_;
  const uint64_t segment_bytes_;
  JournalHistory history_;
  JournalDamage damage_;              // set by Open
  std::atomic<bool> writable_{true};  // written under mutex_
  std::atomic<uint64_t> failures_{0};

  Mutex callback_mutex_;  // held during the call
  std::function<void(bool)> on_writable_ ABSL_GUARDED_BY(callback_mutex_);

  // Held while something is synced, and taken before mutex_: a file is removed only when all
  // earlier records are on disk.
  Mutex sync_mutex_;
  IdFiles id_files_ ABSL_GUARDED_BY(sync_mutex_);
  bool ids_failed_ ABSL_GUARDED_BY(sync_mutex_) = false;

  Mutex mutex_;
  CondVar wake_;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  bool dirty_ ABSL_GUARDED_BY(mutex_) = false;
  std::string cause_ ABSL_GUARDED_BY(mutex_);  // while not writable
  uint64_t next_run_ ABSL_GUARDED_BY(mutex_) = 1;
  uint64_t next_segment_ ABSL_GUARDED_BY(mutex_) = 1;
  // The file that is written to, if any, and before it those that may not be on the disk.
  std::deque<std::pair<uint64_t, std::shared_ptr<SegmentWriter>>> writers_ ABSL_GUARDED_BY(mutex_);
  // A file was begun whose name may not be on the disk yet.
  bool begun_ ABSL_GUARDED_BY(mutex_) = false;
  // Files to remove once everything written since is on disk.
  std::vector<Segment> gone_ ABSL_GUARDED_BY(mutex_);
  std::deque<Segment> segments_ ABSL_GUARDED_BY(mutex_);  // oldest first; the last is written to
  absl::flat_hash_map<uint64_t, Kept> runs_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<std::string, Kept> sessions_ ABSL_GUARDED_BY(mutex_);
  std::deque<End> waiting_ ABSL_GUARDED_BY(mutex_);
  // Set by Open.
  absl::optional<ClockCheck> clock_check_ ABSL_GUARDED_BY(mutex_);
  absl::Time noted_time_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();

  std::thread sync_thread_;
};

}  // namespace pto::daemon
