// The part of the journal that opens it and appends to it; journal_sync.cc has what goes to the
// disk.
#include "daemon/journal/journal.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "daemon/journal/run_ids.h"
#include "runtime/base/error.h"
#include "runtime/base/failpoint.h"
#include "runtime/base/log.h"
#include "runtime/base/status_macros.h"

namespace pto::daemon {
namespace {

using journal::v1::Record;
using journal::v1::RunRecord;

constexpr uint64_t kMaxSegmentBytes = uint64_t{16} << 20;
constexpr uint64_t kMinSegmentBytes = uint64_t{64} << 10;

// Records that wait for the disk are in memory. When it takes none for so long that there are more
// than this, no run is accepted until it does.
constexpr uint64_t kMaxUnsyncedBytes = uint64_t{64} << 20;

// Files that are kept for inspection. Damaged ones stay: the first are the most telling. Of those
// that end with an incomplete write, as after a power failure, the newest stay.
constexpr absl::string_view kCorrupt = ".corrupt";
constexpr absl::string_view kTornFiles = "torn-";
constexpr size_t kMaxCorruptFiles = 16;
constexpr size_t kMaxTornFiles = 4;

// Serializes a Record with this run without copying it: tag and length of the field, then the run.
std::string Serialize(const RunRecord& run) {
  constexpr char kRunTag = (Record::kRunFieldNumber << 3) | 2;
  std::string bytes(1, kRunTag);
  size_t size = run.ByteSizeLong();
  for (; size >= 0x80; size >>= 7) bytes.push_back(static_cast<char>((size & 0x7f) | 0x80));
  bytes.push_back(static_cast<char>(size));
  run.AppendToString(&bytes);
  return bytes;
}

std::string SerializeSession(const std::string& id, const std::string& boot_id,
                             const std::string& owner) {
  Record record;
  record.mutable_session()->set_id(id);
  record.mutable_session()->set_boot_id(boot_id);
  record.mutable_session()->set_owner(owner);
  return record.SerializeAsString();
}

std::string SerializeRemoved(uint64_t through) {
  Record record;
  record.mutable_removed()->set_through(through);
  return record.SerializeAsString();
}

absl::Status FailpointError(absl::string_view what) {
  return Error(reason::kPathUnusable, absl::StrCat("cannot ", what, " the journal: a failpoint"));
}

}  // namespace

Journal::Journal(Options options)
    : options_(std::move(options)),
      storage_(options_.storage != nullptr ? options_.storage : OpenDirectory(options_.directory)),
      segment_bytes_(
          std::clamp(options_.retention.max_bytes / 8, kMinSegmentBytes, kMaxSegmentBytes)),
      id_files_(storage_, RunIds::MaxIds(options_.retention.max_bytes),
                options_.retention.max_age) {}

// ---- at the start

absl::StatusOr<std::unique_ptr<Journal>> Journal::Open(Options options) {
  std::unique_ptr<Journal> journal(new Journal(std::move(options)));
  const Options& own = journal->options_;
  Storage& storage = *journal->storage_;
  PTO_ASSIGN_OR_RETURN(const std::vector<std::string> names, storage.List());
  PTO_ASSIGN_OR_RETURN(JournalHistory history,
                       LoadHistory(storage, names, own.retention, *own.clock));
  {
    MutexLock sync_lock(journal->sync_mutex_);
    std::vector<std::string> damaged;
    PTO_ASSIGN_OR_RETURN(
        history.used_ids, journal->id_files_.Load(names, [&](const std::string& name,
                                                             const SegmentContents& contents) {
          PTO_LOG(kError, "a file of the journal is damaged: ids of runs are not known any more",
                  {{"path", storage.Path(name)},
                   {"size", contents.size},
                   {"intact_records", contents.records}});
          ++history.damage.files;
          for (const auto& damage : contents.damages) {
            history.damage.skipped_bytes += damage.bytes;
          }
          damaged.push_back(name);
        }));
    // If a rescue fails, the damaged files stay where they are, and the next start tries again.
    if (journal->id_files_.Rescue().ok()) {
      for (const std::string& name : damaged) journal->PutAside(name, true, false);
    }
    if (!history.clock_doubtful) {
      const absl::Time now = own.clock->WallTime();
      journal->id_files_.ForgetOld(now);
      std::vector<UsedRunIds>& used = history.used_ids;
      used.erase(std::remove_if(used.begin(), used.end(),
                                [&](const UsedRunIds& ids) {
                                  return now - ids.newest > own.retention.max_age;
                                }),
                 used.end());
    }
    MutexLock lock(journal->mutex_);
    journal->clock_check_.emplace(own.clock, history.newest);
  }
  journal->damage_ = history.damage;
  journal->history_ = std::move(history);
  journal->RemoveLeftovers(names);
  // Errors are logged and retried.
  journal->WriteHistory().IgnoreError();
  if (!journal->history_.forgotten.hashes.empty()) {
    journal->history_.used_ids.push_back(journal->history_.forgotten);
  }
  PTO_LOG(kInfo, "journal opened",
          {{"directory", own.directory},
           {"runs", journal->history_.runs.size()},
           {"sessions", journal->history_.sessions.size()}});
  journal->sync_thread_ = std::thread([raw = journal.get()] { raw->SyncLoop(); });
  return journal;
}

Journal::~Journal() {
  {
    MutexLock lock(mutex_);
    stop_ = true;
    wake_.NotifyAll();
  }
  if (!sync_thread_.joinable()) return;  // Open has failed
  sync_thread_.join();
  OnWritable(nullptr);
  {
    MutexLock lock(mutex_);
    if (writable()) NoteTime(absl::ZeroDuration());
  }
  // There may be space again since the last attempt.
  Sync().IgnoreError();
}

void Journal::RemoveLeftovers(const std::vector<std::string>& names) {
  for (const absl::string_view unnamed : {kNewJournalFile, kNewIdFile}) {
    if (std::find(names.begin(), names.end(), unnamed) == names.end()) continue;
    storage_->Remove(std::string(unnamed)).IgnoreError();
  }
}

absl::Status Journal::WriteHistory() {
  const std::vector<uint64_t> old = history_.segments;
  absl::Status written;
  {
    MutexLock sync_lock(sync_mutex_);
    {
      MutexLock lock(mutex_);
      if (!old.empty()) next_segment_ = old.back() + 1;
      const auto write_all = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) -> absl::Status {
        PTO_RETURN_IF_ERROR(BeginSegment());
        for (const journal::v1::SessionRecord& session : history_.sessions) {
          PTO_RETURN_IF_ERROR(
              Append(SerializeSession(session.id(), session.boot_id(), session.owner())));
        }
        for (const RunRecord& run : history_.runs) {
          PTO_RETURN_IF_ERROR(AppendEnd({0, HashOfRun(run), EndTime(run), Serialize(run)}));
        }
        // Last: only when all is here the old files are not needed any more.
        if (!old.empty()) PTO_RETURN_IF_ERROR(Append(SerializeRemoved(old.back())));
        for (const auto& [number, writer] : writers_) {
          PTO_RETURN_IF_ERROR(writer->file()->Sync());
          writer->MarkSynced(writer->bytes());
        }
        return storage_->SyncNames();
      };
      written = write_all();
      if (written.ok()) {
        begun_ = false;
        writers_.erase(writers_.begin(), writers_.end() - 1);
      }
    }
    if (written.ok()) written = id_files_.Add(history_.forgotten);
    if (!written.ok()) {
      MutexLock lock(mutex_);
      // Keep the old files, and nothing that is new. Only they are known to have everything.
      writers_.clear();
      bool removed = true;
      for (Segment& segment : gone_) segments_.push_back(std::move(segment));
      gone_.clear();
      for (const Segment& segment : segments_) {
        removed = storage_->Remove(SegmentName(kJournalFiles, segment.number)).ok() && removed;
      }
      if (removed) next_segment_ = old.empty() ? 1 : old.back() + 1;
      segments_.clear();
      for (size_t i = 0; i < old.size(); ++i) {
        segments_.push_back(
            {old[i], history_.segment_bytes[i], 0, {options_.clock->WallTime(), {}}});
      }
      // The old files only say that these runs began, and are removed before newer files.
      const size_t ended = history_.runs.size() - history_.restarted;
      for (size_t i = ended; i < history_.runs.size(); ++i) {
        const RunRecord& run = history_.runs[i];
        waiting_.push_back({0, HashOfRun(run), EndTime(run), Serialize(run)});
      }
      // When the first of them goes, the ids of all must be known.
      if (!segments_.empty()) {
        UsedRunIds& ids = segments_.front().ids;
        ids.hashes = history_.forgotten.hashes;
        for (size_t i = 0; i < ended; ++i) {
          if (const uint64_t hash = HashOfRun(history_.runs[i]); hash != 0) {
            ids.hashes.push_back(hash);
          }
        }
        segments_.front().ended_runs = ended;
      }
      return Fail(written);
    }
  }
  // Only now: until here they had the only copy of their good records.
  const auto has = [](const std::vector<uint64_t>& numbers, uint64_t number) {
    return std::find(numbers.begin(), numbers.end(), number) != numbers.end();
  };
  for (const uint64_t number : old) {
    PutAside(SegmentName(kJournalFiles, number), has(history_.damaged, number),
             has(history_.torn, number));
  }
  return absl::OkStatus();
}

void Journal::PutAside(const std::string& name, bool damaged, bool torn) {
  const absl::StatusOr<std::vector<std::string>> names = storage_->List();
  const auto put = [&](const std::string& aside) {
    const bool moved = storage_->Rename(name, aside).ok();
    PTO_LOG(kWarning, "a file of the journal is kept for inspection",
            {{"path", storage_->Path(moved ? aside : name)}});
  };
  if (damaged && names.ok()) {
    const auto is_corrupt = [](const std::string& name) {
      return absl::StrContains(name, kCorrupt);
    };
    const auto kept = std::count_if(names->begin(), names->end(), is_corrupt);
    if (static_cast<size_t>(kept) < kMaxCorruptFiles) {
      // Never instead of another one.
      std::string aside = absl::StrCat(name, kCorrupt);
      for (int i = 2; std::count(names->begin(), names->end(), aside) > 0; ++i) {
        aside = absl::StrCat(name, kCorrupt, ".", i);
      }
      return put(aside);
    }
    PTO_LOG(kError, "a damaged file of the journal is not kept: there are enough",
            {{"path", storage_->Path(name)}, {"kept", kept}});
  } else if (torn && names.ok()) {
    std::vector<uint64_t> numbers = SegmentNumbers(*names, kTornFiles);
    for (size_t i = 0; i + kMaxTornFiles <= numbers.size(); ++i) {
      storage_->Remove(SegmentName(kTornFiles, numbers[i])).IgnoreError();
    }
    return put(absl::StrCat(kTornFiles, name.substr(kJournalFiles.size())));
  }
  storage_->Remove(name).IgnoreError();
}

// ---- appending

std::string Journal::BootRecord() {
  Record record;
  journal::v1::Boot& boot = *record.mutable_boot();
  boot.set_boot_id(options_.boot_id);
  boot.set_time_ns(absl::ToUnixNanos(options_.clock->WallTime()));
  if (!clock_check_->Believe()) {
    boot.set_clock_doubtful(true);
    boot.set_believed_ns(absl::ToUnixNanos(clock_check_->believed()));
  }
  return record.SerializeAsString();
}

absl::Status Journal::BeginSegment() {
  PTO_ASSIGN_OR_RETURN(std::shared_ptr<SegmentWriter> writer,
                       SegmentWriter::Create(*storage_, SegmentName(kJournalFiles, next_segment_),
                                             BootRecord(), segment_bytes_));
  AddSegment(std::move(writer));
  begun_ = true;
  return absl::OkStatus();
}

void Journal::AddSegment(std::shared_ptr<SegmentWriter> writer) {
  segments_.push_back({next_segment_, writer->bytes(), 0, {options_.clock->WallTime(), {}}});
  writers_.emplace_back(next_segment_, std::move(writer));
  ++next_segment_;
}

uint64_t Journal::UnsyncedBytes() const {
  uint64_t bytes = 0;
  for (const auto& [number, writer] : writers_) bytes += writer->bytes() - writer->synced();
  return bytes;
}

absl::Status Journal::Append(absl::string_view bytes) {
  if (writers_.empty() || writers_.back().second->bytes() + bytes.size() > segment_bytes_) {
    PTO_RETURN_IF_ERROR(BeginSegment());
    DropOldSegments();
  }
  if (PTO_FAILPOINT("journal.append") == FailAction::kError) return FailpointError("write");
  SegmentWriter& writer = *writers_.back().second;
  PTO_RETURN_IF_ERROR(writer.Append(bytes));
  // Only `crash` makes sense here: no caller knows of the record yet.
  (void)PTO_FAILPOINT("journal.appended");
  segments_.back().bytes = writer.bytes();
  MarkDirty();
  return absl::OkStatus();
}

absl::Status Journal::AppendEnd(const End& end) {
  PTO_RETURN_IF_ERROR(Append(end.bytes));
  NoteEnd(end);
  return absl::OkStatus();
}

void Journal::NoteEnd(const End& end) {
  // Not earlier: if appending the end began a new file, that may have removed the file with the
  // run's acceptance.
  runs_.erase(end.run);
  Segment& segment = segments_.back();
  ++segment.ended_runs;
  segment.ids.newest = std::max(segment.ids.newest, end.time);
  if (end.hash != 0) segment.ids.hashes.push_back(end.hash);
}

void Journal::MarkDirty() {
  if (dirty_) return;
  dirty_ = true;
  wake_.NotifyAll();
}

void Journal::DropOldSegments() {
  const JournalRetention& retention = options_.retention;
  const absl::Time oldest_kept = clock_check_->Believe()
                                     ? options_.clock->WallTime() - retention.max_age
                                     : absl::InfinitePast();
  while (segments_.size() > 1) {
    Segment& oldest = segments_.front();
    uint64_t bytes = 0;
    uint64_t newer_runs = 0;
    for (const Segment& segment : segments_) {
      bytes += segment.bytes;
      if (&segment != &oldest) newer_runs += segment.ended_runs;
    }
    if (bytes <= retention.max_bytes && newer_runs < retention.max_runs &&
        oldest.ids.newest >= oldest_kept) {
      return;
    }
    // If this fails, keep the file and try again with the next one.
    if (!CarryOn(oldest.number).ok()) return;
    // Carried records, and the ends of its runs, may not be on disk yet.
    gone_.push_back(std::move(oldest));
    MarkDirty();
    segments_.pop_front();
  }
}

absl::Status Journal::CarryOn(uint64_t segment) {
  // To the current file even beyond its size limit, so that no new file is begun here.
  SegmentWriter& writer = *writers_.back().second;
  const auto append = [&](absl::string_view bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const absl::Status status = writer.Append(bytes);
    segments_.back().bytes = writer.bytes();
    return status;
  };
  const auto carry = [&](Kept& kept) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) -> absl::Status {
    if (kept.segment != segment) return absl::OkStatus();
    PTO_RETURN_IF_ERROR(append(kept.bytes));
    kept.segment = writers_.back().first;
    return absl::OkStatus();
  };
  for (auto& [id, session] : sessions_) PTO_RETURN_IF_ERROR(carry(session));
  for (auto& [number, run] : runs_) PTO_RETURN_IF_ERROR(carry(run));
  return append(SerializeRemoved(segment));
}

void Journal::NoteTime(absl::Duration every) {
  const absl::Time now = options_.clock->WallTime();
  if (writers_.empty() || !clock_check_->Believe() ||
      absl::AbsDuration(now - noted_time_) < every) {
    return;
  }
  Record record;
  record.mutable_clock_seen()->set_time_ns(absl::ToUnixNanos(now));
  // To the current file even beyond its size limit. If this fails, the next one may not.
  if (!writers_.back().second->Append(record.SerializeAsString()).ok()) return;
  segments_.back().bytes = writers_.back().second->bytes();
  noted_time_ = now;
}

absl::Status Journal::AddSession(const std::string& id, const std::string& owner) {
  std::string bytes = SerializeSession(id, options_.boot_id, owner);
  absl::Status status;
  {
    MutexLock lock(mutex_);
    if (!writable()) return UnwritableError();
    status = Append(bytes);
    if (status.ok()) {
      sessions_[id] = {writers_.back().first, std::move(bytes)};
      return status;
    }
    status = Fail(status);
  }
  TellWritable();
  return status;
}

void Journal::EndSession(const std::string& id) {
  MutexLock lock(mutex_);
  sessions_.erase(id);
}

absl::StatusOr<uint64_t> Journal::AddRun(RunRecord run) {
  run.set_boot_id(options_.boot_id);
  std::string bytes = Serialize(run);
  absl::Status status;
  {
    MutexLock lock(mutex_);
    if (!writable()) return UnwritableError();
    if (UnsyncedBytes() > kMaxUnsyncedBytes) {
      status =
          Error(reason::kPathUnusable, "the disk has not taken the last records of the journal");
    } else {
      status = Append(bytes);
    }
    if (status.ok()) {
      const uint64_t number = next_run_++;
      runs_.emplace(number, Kept{writers_.back().first, std::move(bytes)});
      return number;
    }
    status = Fail(status);
  }
  TellWritable();
  return status;
}

void Journal::EndRun(uint64_t number, RunRecord run) {
  run.set_boot_id(options_.boot_id);
  End end = {number, HashOfRun(run), EndTime(run), Serialize(run)};
  {
    MutexLock lock(mutex_);
    if (!writable()) {
      waiting_.push_back(std::move(end));
      return;
    }
    const absl::Status status = AppendEnd(end);
    if (status.ok()) return;
    waiting_.push_back(std::move(end));
    Fail(status).IgnoreError();
  }
  TellWritable();
}

// ---- when it cannot write

absl::Status Journal::Fail(const absl::Status& cause) {
  cause_ = std::string(cause.message());
  writable_.store(false, std::memory_order_release);
  failures_.fetch_add(1, std::memory_order_relaxed);
  PTO_LOG(kError, "the journal cannot be written: no run is accepted until it can",
          {{"error", cause_}});
  wake_.NotifyAll();
  return UnwritableError();
}

absl::Status Journal::UnwritableError() const {
  return Error(reason::kJournalUnwritable,
               absl::StrCat("a run that could not be remembered is not accepted: ", cause_))
      .With("why", cause_);
}

void Journal::OnWritable(std::function<void(bool)> callback) {
  MutexLock lock(callback_mutex_);
  on_writable_ = std::move(callback);
}

void Journal::TellWritable() {
  MutexLock lock(callback_mutex_);
  if (on_writable_ != nullptr) on_writable_(writable());
}

Journal::Counts Journal::counts() {
  Counts counts;
  counts.damage = damage_;
  counts.failures = failures_.load(std::memory_order_relaxed);
  MutexLock lock(mutex_);
  counts.segments = segments_.size();
  for (const Segment& segment : segments_) counts.bytes += segment.bytes;
  return counts;
}

}  // namespace pto::daemon
