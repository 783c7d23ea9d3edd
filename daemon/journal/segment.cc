#include "daemon/journal/segment.h"

#include <algorithm>
#include <random>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "daemon/journal/frame.h"
#include "runtime/base/status_macros.h"

namespace pto::daemon {
namespace {

constexpr size_t kNumberDigits = 10;

// What disks and file systems write at once.
constexpr uint64_t kBlockBytes = 4096;

// Memory that a tail may keep when it is not needed any more.
constexpr size_t kMaxIdleTail = size_t{1} << 20;

std::string MakeHeader(uint64_t salt_value) {
  SegmentHeader header = {};
  std::memcpy(header.magic, kSegmentMagic.data(), sizeof header.magic);
  header.version = kSegmentVersion;
  header.crc = HeaderCrc(header);
  SegmentSalt salt = {};
  salt.words[0] = static_cast<uint32_t>(salt_value);
  salt.words[1] = static_cast<uint32_t>(salt_value >> 32);
  salt.crc = SaltCrc(salt);
  std::string bytes(reinterpret_cast<const char*>(&header), sizeof header);
  for (int i = 0; i < 2; ++i) bytes.append(reinterpret_cast<const char*>(&salt), sizeof salt);
  return bytes;
}

}  // namespace

std::string SegmentName(absl::string_view kind, uint64_t number) {
  return absl::StrFormat("%s%0*d", kind, static_cast<int>(kNumberDigits), number);
}

std::vector<uint64_t> SegmentNumbers(const std::vector<std::string>& names,
                                     absl::string_view kind) {
  std::vector<uint64_t> numbers;
  for (absl::string_view name : names) {
    uint64_t number = 0;
    if (absl::ConsumePrefix(&name, kind) && name.size() == kNumberDigits &&
        absl::SimpleAtoi(name, &number)) {
      numbers.push_back(number);
    }
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

absl::StatusOr<std::shared_ptr<SegmentWriter>> SegmentWriter::CreateUnnamed(
    Storage& storage, absl::string_view unnamed, absl::string_view first, uint64_t reserve_bytes) {
  PTO_ASSIGN_OR_RETURN(std::shared_ptr<WritableFile> file,
                       storage.Create(std::string(unnamed), reserve_bytes));
  std::random_device random;
  const uint64_t salt = random() | uint64_t{random()} << 32;
  std::shared_ptr<SegmentWriter> writer(new SegmentWriter(std::move(file), salt));
  PTO_RETURN_IF_ERROR(writer->file_->WriteAt(0, MakeHeader(salt)));
  writer->bytes_ = kFirstFrame;
  PTO_RETURN_IF_ERROR(writer->Append(first));
  return writer;
}

absl::StatusOr<std::shared_ptr<SegmentWriter>> SegmentWriter::Create(Storage& storage,
                                                                     const std::string& name,
                                                                     absl::string_view first,
                                                                     uint64_t reserve_bytes) {
  const std::string unnamed(kNewJournalFile);
  absl::StatusOr<std::shared_ptr<SegmentWriter>> writer =
      CreateUnnamed(storage, unnamed, first, reserve_bytes);
  absl::Status status = writer.status();
  if (status.ok()) status = storage.Rename(unnamed, name);
  if (status.ok()) return writer;
  storage.Remove(unnamed).IgnoreError();
  return status;
}

absl::Status SegmentWriter::Append(absl::string_view record) {
  Frame frame = {static_cast<uint32_t>(record.size()), Crc32c(record), 0};
  frame.own_crc = FrameCrc(salt_, bytes_, frame);
  const size_t begin = tail_.size();
  tail_.append(reinterpret_cast<const char*>(&frame), sizeof frame);
  tail_.append(record.data(), record.size());
  const absl::Status written = file_->WriteAt(bytes_, absl::string_view(tail_).substr(begin));
  if (!written.ok()) {
    tail_.resize(begin);
    // If this fails, too, an incomplete frame is left, which a reader skips.
    file_->Truncate(bytes_).IgnoreError();
    return written;
  }
  bytes_ += sizeof frame + record.size();
  return absl::OkStatus();
}

void SegmentWriter::MarkSynced(uint64_t bytes) {
  synced_ = std::max(synced_, bytes);
  const uint64_t block = synced_ - synced_ % kBlockBytes;
  uint64_t offset = bytes_ - tail_.size();
  size_t drop = 0;
  while (drop < tail_.size()) {
    Frame frame = {};
    std::memcpy(&frame, tail_.data() + drop, sizeof frame);
    const uint64_t end = offset + sizeof frame + frame.bytes;
    if (end > block) break;
    drop += end - offset;
    offset = end;
  }
  tail_.erase(0, drop);
  if (tail_.capacity() > kMaxIdleTail && tail_.size() < kMaxIdleTail / 4) tail_.shrink_to_fit();
}

absl::Status SegmentWriter::ForEachUnsynced(
    const std::function<absl::Status(absl::string_view)>& take) const {
  if (synced_ == bytes_) return absl::OkStatus();
  absl::string_view rest = tail_;
  while (!rest.empty()) {
    Frame frame = {};
    std::memcpy(&frame, rest.data(), sizeof frame);
    PTO_RETURN_IF_ERROR(take(rest.substr(sizeof frame, frame.bytes)));
    rest.remove_prefix(sizeof frame + frame.bytes);
  }
  return absl::OkStatus();
}

absl::StatusOr<SegmentContents> ReadSegment(Storage& storage, const std::string& name,
                                            const std::function<void(absl::string_view)>& take) {
  PTO_ASSIGN_OR_RETURN(const std::string bytes, storage.Read(name));
  return ParseSegment(storage.Path(name), bytes, take);
}

}  // namespace pto::daemon
