#include "daemon/journal/id_files.h"

#include <algorithm>
#include <utility>

#include "absl/types/span.h"
#include "daemon/journal/journal.pb.h"
#include "runtime/base/log.h"
#include "runtime/base/status_macros.h"

namespace pto::daemon {
namespace {

using journal::v1::Record;

// In one record: so many are lost when it is damaged.
constexpr size_t kRecordIds = 4096;

// A file with fewer ids is made into one with the next.
constexpr size_t kFileIds = 65'536;

std::string Serialize(absl::Span<const uint64_t> hashes, absl::Time newest) {
  Record record;
  auto& ids = *record.mutable_used_ids();
  ids.mutable_hashes()->Add(hashes.begin(), hashes.end());
  ids.set_newest_ns(absl::ToUnixNanos(newest));
  return record.SerializeAsString();
}

// Appends the ids of a file.
absl::StatusOr<SegmentContents> ReadIds(Storage& storage, const std::string& name,
                                        UsedRunIds* ids) {
  return ReadSegment(storage, name, [&](absl::string_view bytes) {
    Record record;
    if (!record.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return;
    const auto& found = record.used_ids();
    ids->hashes.insert(ids->hashes.end(), found.hashes().begin(), found.hashes().end());
    ids->newest = std::max(ids->newest, absl::FromUnixNanos(found.newest_ns()));
  });
}

}  // namespace

absl::StatusOr<std::vector<UsedRunIds>> IdFiles::Load(const std::vector<std::string>& names,
                                                      const Damaged& damaged) {
  std::vector<UsedRunIds> all;
  for (const uint64_t number : SegmentNumbers(names, kIdFiles)) {
    const std::string name = SegmentName(kIdFiles, number);
    UsedRunIds ids;
    ids.newest = absl::InfinitePast();
    PTO_ASSIGN_OR_RETURN(const SegmentContents contents, ReadIds(*storage_, name, &ids));
    // The file was synced before it got its name, so nothing of it can be torn.
    next_ = number + 1;
    if (!contents.damages.empty() || contents.torn.has_value()) {
      damaged(name, contents);
      rescued_.push_back(ids);
    } else {
      files_.push_back({number, ids.hashes.size(), ids.newest, ids.newest});
      ids_ += ids.hashes.size();
    }
    all.push_back(std::move(ids));
  }
  return all;
}

absl::Status IdFiles::Rescue() {
  for (; !rescued_.empty(); rescued_.pop_back()) PTO_RETURN_IF_ERROR(Add(rescued_.back()));
  return absl::OkStatus();
}

absl::Status IdFiles::Add(UsedRunIds ids) {
  if (ids.hashes.empty()) return absl::OkStatus();
  File file = {next_, 0, ids.newest, ids.newest};
  const bool merge = !files_.empty() && files_.back().ids + ids.hashes.size() <= kFileIds &&
                     ids.newest - files_.back().oldest <= max_age_ / 8;
  if (merge) {
    UsedRunIds before;
    before.newest = ids.newest;
    PTO_RETURN_IF_ERROR(
        ReadIds(*storage_, SegmentName(kIdFiles, files_.back().number), &before).status());
    file.oldest = std::min(file.oldest, files_.back().oldest);
    file.newest = before.newest;
    before.hashes.insert(before.hashes.end(), ids.hashes.begin(), ids.hashes.end());
    ids.hashes = std::move(before.hashes);
  }
  file.ids = ids.hashes.size();
  // Synced before it gets its name: a file of that name is complete.
  const std::string unnamed(kNewIdFile);
  absl::Span<const uint64_t> rest = ids.hashes;
  const auto next_record = [&] {
    const absl::Span<const uint64_t> some = rest.subspan(0, std::min(rest.size(), kRecordIds));
    rest.remove_prefix(some.size());
    return Serialize(some, file.newest);
  };
  PTO_ASSIGN_OR_RETURN(const std::shared_ptr<SegmentWriter> writer,
                       SegmentWriter::CreateUnnamed(*storage_, unnamed, next_record(), 0));
  const auto write = [&]() -> absl::Status {
    while (!rest.empty()) PTO_RETURN_IF_ERROR(writer->Append(next_record()));
    PTO_RETURN_IF_ERROR(writer->file()->Sync());
    PTO_RETURN_IF_ERROR(storage_->Rename(unnamed, SegmentName(kIdFiles, file.number)));
    return storage_->SyncNames();
  };
  if (absl::Status written = write(); !written.ok()) {
    storage_->Remove(unnamed).IgnoreError();
    // One that has its name already is read at the next start, which does no harm.
    ++next_;
    return written;
  }
  ++next_;
  if (merge) {
    storage_->Remove(SegmentName(kIdFiles, files_.back().number)).IgnoreError();
    ids_ -= files_.back().ids;
    files_.pop_back();
  }
  ids_ += file.ids;
  files_.push_back(file);
  ForgetMost();
  return absl::OkStatus();
}

void IdFiles::RemoveFirst() {
  storage_->Remove(SegmentName(kIdFiles, files_.front().number)).IgnoreError();
  ids_ -= files_.front().ids;
  files_.erase(files_.begin());
}

void IdFiles::ForgetOld(absl::Time now) {
  while (!files_.empty() && now - files_.front().newest > max_age_) RemoveFirst();
}

void IdFiles::ForgetMost() {
  while (files_.size() > 1 && ids_ > max_ids_) {
    PTO_LOG(kWarning, "ids of runs are forgotten before their time: there are too many",
            {{"ids", files_.front().ids},
             {"newest", absl::FormatTime(files_.front().newest)},
             {"kept", ids_ - files_.front().ids}});
    RemoveFirst();
  }
}

}  // namespace pto::daemon
