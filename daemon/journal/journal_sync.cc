// The part of the journal that has the disk write, and that goes on when the disk has failed.

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/journal/journal.h"
#include "runtime/base/error.h"
#include "runtime/base/failpoint.h"
#include "runtime/base/log.h"
#include "runtime/base/status_macros.h"

namespace pto::daemon {
namespace {

using journal::v1::Record;

// How often a time that is believed is written down, while there are records to sync.
constexpr absl::Duration kNoteTimeEvery = absl::Hours(1);

absl::Status CheckFailpoint() {
  if (PTO_FAILPOINT("journal.sync") != FailAction::kError) return absl::OkStatus();
  return Error(reason::kPathUnusable, "cannot sync the journal: a failpoint");
}

std::string SerializeRewritten(uint64_t file, const SegmentWriter& writer) {
  Record record;
  record.mutable_rewritten()->set_file(file);
  // When nothing of it has ever been synced, there may be no such file.
  record.mutable_rewritten()->set_offset(writer.synced() == 0 ? 0 : writer.unsynced_begin());
  return record.SerializeAsString();
}

}  // namespace

absl::Status Journal::Sync() {
  absl::Status status;
  bool changed = false;
  {
    MutexLock lock(sync_mutex_);
    if (!writable()) {
      status = Recover();
      changed = status.ok();
    }
    if (status.ok()) {
      status = SyncFiles();
      changed = changed || !status.ok();
    }
  }
  if (changed) TellWritable();
  return status;
}

absl::Status Journal::SyncFiles() {
  std::vector<std::pair<std::shared_ptr<SegmentWriter>, uint64_t>> files;
  bool begun = false;
  std::vector<Segment> gone;
  {
    MutexLock lock(mutex_);
    NoteTime(kNoteTimeEvery);
    dirty_ = false;
    for (const auto& [number, writer] : writers_) files.emplace_back(writer, writer->bytes());
    begun = std::exchange(begun_, false);
    gone.swap(gone_);
  }
  // Without the lock, because disks are slow.
  absl::Status status = CheckFailpoint();
  for (const auto& [writer, bytes] : files) {
    if (status.ok() && writer->synced() < bytes) status = writer->file()->Sync();
  }
  if (status.ok() && begun) status = storage_->SyncNames();
  if (!status.ok()) {
    // Nothing counts as synced, not even files that were: what is rewritten stays in its order.
    MutexLock lock(mutex_);
    begun_ = begun_ || begun;
    gone_.insert(gone_.begin(), std::make_move_iterator(gone.begin()),
                 std::make_move_iterator(gone.end()));
    return Fail(status);
  }
  {
    MutexLock lock(mutex_);
    for (const auto& [writer, bytes] : files) writer->MarkSynced(bytes);
    // Nothing is appended any more to those that are not the last.
    while (writers_.size() > 1 &&
           writers_.front().second->synced() == writers_.front().second->bytes()) {
      writers_.pop_front();
    }
  }
  RemoveGone(std::move(gone));
  return absl::OkStatus();
}

void Journal::RemoveGone(std::vector<Segment> gone) {
  if (gone.empty()) return;
  UsedRunIds ids;
  ids.newest = absl::InfinitePast();
  for (const Segment& segment : gone) {
    ids.newest = std::max(ids.newest, segment.ids.newest);
    ids.hashes.insert(ids.hashes.end(), segment.ids.hashes.begin(), segment.ids.hashes.end());
  }
  bool believe = false;
  {
    MutexLock lock(mutex_);
    believe = clock_check_->Believe();
  }
  if (believe) id_files_.ForgetOld(options_.clock->WallTime());
  if (const absl::Status added = id_files_.Add(std::move(ids)); !added.ok()) {
    if (!ids_failed_) {
      PTO_LOG(kWarning,
              "ids of runs cannot be written: old files of the journal stay until they can",
              {{"error", added.message()}});
    }
    ids_failed_ = true;
    MutexLock lock(mutex_);
    gone_.insert(gone_.begin(), std::make_move_iterator(gone.begin()),
                 std::make_move_iterator(gone.end()));
    // The next record makes the thread try again.
    return;
  }
  ids_failed_ = false;
  for (const Segment& segment : gone) {
    storage_->Remove(SegmentName(kJournalFiles, segment.number)).IgnoreError();
  }
}

absl::StatusOr<std::shared_ptr<SegmentWriter>> Journal::Rewrite(
    const std::string& name, const std::string& first,
    const std::vector<std::pair<uint64_t, std::shared_ptr<SegmentWriter>>>& old,
    const std::vector<std::string>& ends) {
  PTO_ASSIGN_OR_RETURN(std::shared_ptr<SegmentWriter> fresh,
                       SegmentWriter::Create(*storage_, name, first, segment_bytes_));
  const auto write = [&]() -> absl::Status {
    for (const auto& [number, writer] : old) {
      PTO_RETURN_IF_ERROR(
          writer->ForEachUnsynced([&](absl::string_view record) { return fresh->Append(record); }));
      PTO_RETURN_IF_ERROR(fresh->Append(SerializeRewritten(number, *writer)));
    }
    for (const std::string& end : ends) PTO_RETURN_IF_ERROR(fresh->Append(end));
    PTO_RETURN_IF_ERROR(CheckFailpoint());
    PTO_RETURN_IF_ERROR(fresh->file()->Sync());
    return storage_->SyncNames();
  };
  if (absl::Status written = write(); !written.ok()) {
    // All that is in it is in memory, too.
    if (!storage_->Remove(name).ok()) {
      MutexLock lock(mutex_);
      ++next_segment_;
    }
    return written;
  }
  fresh->MarkSynced(fresh->bytes());
  return fresh;
}

absl::Status Journal::Recover() {
  std::vector<std::pair<uint64_t, std::shared_ptr<SegmentWriter>>> old;
  std::vector<std::string> ends;
  std::string name;
  std::string first;
  {
    MutexLock lock(mutex_);
    if (writable()) return absl::OkStatus();
    // Nobody appends, and so nobody begins a file, while it is not writable.
    old.assign(writers_.begin(), writers_.end());
    for (const End& end : waiting_) ends.push_back(end.bytes);
    name = SegmentName(kJournalFiles, next_segment_);
    first = BootRecord();
  }
  absl::StatusOr<std::shared_ptr<SegmentWriter>> fresh = Rewrite(name, first, old, ends);
  MutexLock lock(mutex_);
  if (!fresh.ok()) {
    cause_ = std::string(fresh.status().message());
    return UnwritableError();
  }
  // Give back what was reserved for them.
  for (const auto& [number, writer] : old) writer->file()->Truncate(writer->bytes()).IgnoreError();
  writers_.clear();
  begun_ = false;
  AddSegment(*std::move(fresh));
  for (size_t i = 0; i < ends.size(); ++i) {
    NoteEnd(waiting_.front());
    waiting_.pop_front();
  }
  // Those that have come meanwhile.
  while (!waiting_.empty()) {
    const absl::Status status = AppendEnd(waiting_.front());
    if (!status.ok()) {
      cause_ = std::string(status.message());
      return UnwritableError();
    }
    waiting_.pop_front();
  }
  writable_.store(true, std::memory_order_release);
  PTO_LOG(kWarning, "the journal can be written again",
          {{"was", cause_}, {"rewritten_files", old.size()}, {"waiting_ends", ends.size()}});
  DropOldSegments();
  return absl::OkStatus();
}

void Journal::SyncLoop() {
  while (true) {
    {
      MutexLock lock(mutex_);
      while (!stop_ && !dirty_ && writable()) wake_.Wait(mutex_);
      // Not by the wall clock, which can be set back.
      const std::chrono::nanoseconds pause =
          absl::ToChronoNanoseconds(writable() ? options_.sync_interval : options_.retry_interval);
      const auto begin = std::chrono::steady_clock::now();
      const auto left = [&] { return pause - (std::chrono::steady_clock::now() - begin); };
      while (!stop_ && left().count() > 0) wake_.WaitFor(mutex_, left());
      if (stop_) return;
    }
    Sync().IgnoreError();
  }
}

}  // namespace pto::daemon
