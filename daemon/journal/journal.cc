#include "daemon/journal/journal.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
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

std::string SerializeSession(const std::string& id, const std::string& boot_id) {
  Record record;
  record.mutable_session()->set_id(id);
  record.mutable_session()->set_boot_id(boot_id);
  return record.SerializeAsString();
}

absl::Time EndTime(const RunRecord& run) {
  return absl::FromUnixNanos(run.create_ns() + run.total_ns());
}

absl::Status FailpointError(absl::string_view what) {
  return Error(reason::kPathUnusable, absl::StrCat("cannot ", what, " the journal: a failpoint"));
}

}  // namespace

Journal::Journal(Options options)
    : options_(std::move(options)),
      segment_bytes_(
          std::clamp(options_.retention.max_bytes / 8, kMinSegmentBytes, kMaxSegmentBytes)) {}

absl::StatusOr<std::unique_ptr<Journal>> Journal::Open(Options options) {
  std::unique_ptr<Journal> journal(new Journal(std::move(options)));
  const Options& own = journal->options_;
  PTO_ASSIGN_OR_RETURN(journal->history_,
                       LoadHistory(own.directory, own.retention, own.clock->WallTime()));
  // Errors are logged and retried.
  journal->WriteHistory().IgnoreError();
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
  if (sync_thread_.joinable()) sync_thread_.join();
  OnWritable(nullptr);
  // There may be space again since the last attempt.
  TryAgain();
  Sync().IgnoreError();
}

absl::Status Journal::WriteHistory() {
  MutexLock lock(mutex_);
  const std::vector<uint64_t>& old = history_.segments;
  broken_ = history_.broken;
  if (!old.empty()) next_segment_ = old.back() + 1;
  const auto write_all = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) -> absl::Status {
    PTO_RETURN_IF_ERROR(BeginSegment());
    for (const journal::v1::SessionRecord& session : history_.sessions) {
      PTO_RETURN_IF_ERROR(Append(SerializeSession(session.id(), session.boot_id())));
    }
    for (const RunRecord& run : history_.runs) {
      PTO_RETURN_IF_ERROR(Append(Serialize(run)));
      ++segments_.back().ended_runs;
    }
    for (const std::unique_ptr<SegmentWriter>& writer : full_) {
      PTO_RETURN_IF_ERROR(writer->Sync());
    }
    full_.clear();
    PTO_RETURN_IF_ERROR(writer_->Sync());
    return SyncDirectory(options_.directory);
  };
  if (const absl::Status written = write_all(); !written.ok()) {
    // Keep the old files. Duplicate records do no harm.
    std::deque<Segment> kept;
    for (const uint64_t number : old) kept.push_back({number, 0, 0, options_.clock->WallTime()});
    segments_.insert(segments_.begin(), kept.begin(), kept.end());
    // The old files only say that these runs began, and are removed before newer files.
    for (size_t i = history_.runs.size() - history_.restarted; i < history_.runs.size(); ++i) {
      const RunRecord& run = history_.runs[i];
      waiting_.push_back({0, EndTime(run), Serialize(run)});
    }
    return Fail(written);
  }
  // Remove the old files, also corrupt ones, only now: until here they had the only copy of their
  // good records.
  for (const uint64_t number : old) RemoveSegment(number);
  return absl::OkStatus();
}

// ---- writing

absl::Status Journal::BeginSegment() {
  PTO_ASSIGN_OR_RETURN(std::unique_ptr<SegmentWriter> writer,
                       SegmentWriter::Create(options_.directory, next_segment_, segment_bytes_));
  ++next_segment_;
  Record boot;
  boot.mutable_boot()->set_boot_id(options_.boot_id);
  if (absl::Status begun = writer->Append(boot.SerializeAsString()); !begun.ok()) {
    unlink(SegmentPath(options_.directory, writer->number()).c_str());
    return begun;
  }
  // The previous file must still be synced to disk.
  if (writer_ != nullptr) full_.push_back(std::move(writer_));
  writer_ = std::move(writer);
  begun_ = true;
  segments_.push_back({writer_->number(), writer_->bytes(), 0, options_.clock->WallTime()});
  return absl::OkStatus();
}

absl::Status Journal::Append(absl::string_view bytes) {
  if (writer_ == nullptr || writer_->bytes() + bytes.size() > segment_bytes_) {
    PTO_RETURN_IF_ERROR(BeginSegment());
    DropOldSegments();
  }
  if (PTO_FAILPOINT("journal.append") == FailAction::kError) return FailpointError("write");
  PTO_RETURN_IF_ERROR(writer_->Append(bytes));
  // Only `crash` makes sense here: no caller knows of the record yet.
  (void)PTO_FAILPOINT("journal.appended");
  Segment& segment = segments_.back();
  segment.bytes = writer_->bytes();
  MarkDirty();
  return absl::OkStatus();
}

absl::Status Journal::AppendEnd(const End& end) {
  PTO_RETURN_IF_ERROR(Append(end.bytes));
  // Not earlier: if appending the end began a new file, that may have removed the file with the
  // run's acceptance.
  runs_.erase(end.run);
  Segment& segment = segments_.back();
  ++segment.ended_runs;
  segment.newest = std::max(segment.newest, end.time);
  return absl::OkStatus();
}

void Journal::MarkDirty() {
  if (dirty_) return;
  dirty_ = true;
  wake_.NotifyAll();
}

void Journal::DropOldSegments() {
  const JournalRetention& retention = options_.retention;
  const absl::Time oldest_kept = options_.clock->WallTime() - retention.max_age;
  while (segments_.size() > 1) {
    const Segment& oldest = segments_.front();
    uint64_t bytes = 0;
    uint64_t newer_runs = 0;
    for (const Segment& segment : segments_) {
      bytes += segment.bytes;
      if (&segment != &oldest) newer_runs += segment.ended_runs;
    }
    if (bytes <= retention.max_bytes && newer_runs < retention.max_runs &&
        oldest.newest >= oldest_kept) {
      return;
    }
    // If this fails, keep the file and try again with the next one.
    if (!CarryOn(oldest.number).ok()) return;
    // Carried records, and the ends of its runs, may not be on disk yet.
    gone_.push_back(oldest.number);
    MarkDirty();
    segments_.pop_front();
  }
}

void Journal::RemoveSegment(uint64_t number) const {
  const std::string path = SegmentPath(options_.directory, number);
  if (std::find(broken_.begin(), broken_.end(), number) == broken_.end()) {
    unlink(path.c_str());
    return;
  }
  const std::string aside = absl::StrCat(path, ".corrupt");
  const bool moved = std::rename(path.c_str(), aside.c_str()) == 0;
  PTO_LOG(kWarning, "a broken file of the journal is kept", {{"path", moved ? aside : path}});
}

absl::Status Journal::CarryOn(uint64_t segment) {
  const auto carry = [&](Kept& kept) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) -> absl::Status {
    if (kept.segment != segment) return absl::OkStatus();
    // Append to the current file even beyond its size limit, so that no new file is begun here.
    PTO_RETURN_IF_ERROR(writer_->Append(kept.bytes));
    kept.segment = writer_->number();
    segments_.back().bytes = writer_->bytes();
    return absl::OkStatus();
  };
  for (auto& [id, session] : sessions_) PTO_RETURN_IF_ERROR(carry(session));
  for (auto& [number, run] : runs_) PTO_RETURN_IF_ERROR(carry(run));
  return absl::OkStatus();
}

absl::Status Journal::AddSession(const std::string& id) {
  std::string bytes = SerializeSession(id, options_.boot_id);
  absl::Status status;
  {
    MutexLock lock(mutex_);
    if (!writable()) return UnwritableError();
    status = Append(bytes);
    if (status.ok()) {
      sessions_[id] = {writer_->number(), std::move(bytes)};
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

absl::StatusOr<uint64_t> Journal::AddRun(const RunRecord& run) {
  std::string bytes = Serialize(run);
  absl::Status status;
  {
    MutexLock lock(mutex_);
    if (!writable()) return UnwritableError();
    status = Append(bytes);
    if (status.ok()) {
      const uint64_t number = next_run_++;
      runs_.emplace(number, Kept{writer_->number(), std::move(bytes)});
      return number;
    }
    status = Fail(status);
  }
  TellWritable();
  return status;
}

void Journal::EndRun(uint64_t number, const RunRecord& run) {
  End end = {number, EndTime(run), Serialize(run)};
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

void Journal::TryAgain() {
  {
    MutexLock lock(mutex_);
    if (writable()) return;
    // Use a new file, in case the last one is damaged. This also reserves its space.
    absl::Status status = fresh_ ? absl::OkStatus() : BeginSegment();
    fresh_ = status.ok();
    for (; status.ok() && !waiting_.empty();) {
      status = AppendEnd(waiting_.front());
      if (status.ok()) waiting_.pop_front();
    }
    if (!status.ok()) return;
    fresh_ = false;
    writable_.store(true, std::memory_order_release);
    PTO_LOG(kWarning, "the journal can be written again", {{"was", cause_}});
    DropOldSegments();
  }
  TellWritable();
}

// ---- to the disk

absl::Status Journal::Sync() {
  MutexLock one_at_a_time(sync_mutex_);
  int file = -1;
  bool begun = false;
  std::vector<std::unique_ptr<SegmentWriter>> full;
  std::vector<uint64_t> gone;
  {
    MutexLock lock(mutex_);
    // First, because nothing is lost if duplicating the descriptor fails.
    if (writer_ != nullptr) {
      PTO_ASSIGN_OR_RETURN(file, writer_->Duplicate());
    }
    dirty_ = false;
    begun = std::exchange(begun_, false);
    full.swap(full_);
    gone.swap(gone_);
  }
  // Without the lock, because disks are slow.
  absl::Status status;
  if (PTO_FAILPOINT("journal.sync") == FailAction::kError) status = FailpointError("sync");
  for (const std::unique_ptr<SegmentWriter>& writer : full) status.Update(writer->Sync());
  if (file >= 0) status.Update(SegmentWriter::SyncAndClose(file));
  if (begun) status.Update(SyncDirectory(options_.directory));
  if (status.ok()) {
    for (const uint64_t number : gone) RemoveSegment(number);
    return status;
  }
  // Retry with the next record. Not for full files: the system reports a failed write only once.
  MutexLock lock(mutex_);
  begun_ = begun_ || begun;
  gone_.insert(gone_.end(), gone.begin(), gone.end());
  return status;
}

void Journal::SyncLoop() {
  while (true) {
    bool broken = false;
    {
      MutexLock lock(mutex_);
      while (!stop_ && !dirty_ && writable()) wake_.Wait(mutex_);
      broken = !writable();
      // Not by the wall clock, which can be set back.
      const std::chrono::nanoseconds pause =
          absl::ToChronoNanoseconds(broken ? options_.retry_interval : options_.sync_interval);
      const auto begin = std::chrono::steady_clock::now();
      const auto left = [&] { return pause - (std::chrono::steady_clock::now() - begin); };
      while (!stop_ && left().count() > 0) wake_.WaitFor(mutex_, left());
      if (stop_) return;
    }
    if (broken) {
      TryAgain();
      continue;
    }
    const absl::Status status = Sync();
    if (status.ok()) continue;
    {
      MutexLock lock(mutex_);
      Fail(status).IgnoreError();
    }
    TellWritable();
  }
}

}  // namespace pto::daemon
