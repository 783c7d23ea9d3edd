// Reads segments, also damaged ones and those of the releases before.

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "daemon/journal/frame.h"
#include "daemon/journal/segment.h"
#include "runtime/base/error.h"

namespace pto::daemon {
namespace {

using Take = std::function<void(absl::string_view)>;

// What a disk writes as a whole. A write that was not completed leaves such blocks as zeros.
constexpr size_t kSectorBytes = 512;

// In a file of version 1 every place that could be a frame must be checked by the checksum of its
// record. So many times the file's size is hashed for this at most.
constexpr uint64_t kMaxHashedTimes = 64;

template <typename T>
T Load(absl::string_view bytes, uint64_t offset) {
  T value = {};
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

bool IsPossibleSize(uint32_t bytes) { return bytes != 0 && bytes <= kMaxRecordBytes; }

// What is at some place.
struct Found {
  enum Kind { kNothing, kRecord, kBadRecord, kCutOff };
  Kind kind = kNothing;
  absl::string_view record;  // of kRecord
  uint64_t end = 0;          // where the next frame begins; not of kNothing
};

// Frames of version 2: the frame's own checksum tells it from anything else.
class Frames {
 public:
  static constexpr size_t kFrameBytes = sizeof(Frame);

  Frames(absl::string_view bytes, uint64_t salt) : bytes_(bytes), salt_(salt) {}

  Found At(uint64_t offset) const {
    if (bytes_.size() - offset < sizeof(Frame)) return {Found::kNothing, {}, 0};
    const auto frame = Load<Frame>(bytes_, offset);
    if (!IsPossibleSize(frame.bytes) || frame.own_crc != FrameCrc(salt_, offset, frame)) {
      return {Found::kNothing, {}, 0};
    }
    const uint64_t begin = offset + sizeof frame;
    if (bytes_.size() - begin < frame.bytes) return {Found::kCutOff, {}, bytes_.size()};
    const absl::string_view record = bytes_.substr(begin, frame.bytes);
    if (Crc32c(record) != frame.crc) return {Found::kBadRecord, {}, begin + frame.bytes};
    return {Found::kRecord, record, begin + frame.bytes};
  }

  // The first place behind `offset` where a frame begins; the end when there is none.
  uint64_t Next(uint64_t offset) const {
    for (++offset; offset < bytes_.size(); ++offset) {
      if (At(offset).kind != Found::kNothing) return offset;
    }
    return bytes_.size();
  }

 private:
  const absl::string_view bytes_;
  const uint64_t salt_;
};

// Frames of version 1: only a record's checksum tells.
class FirstFrames {
 public:
  static constexpr size_t kFrameBytes = sizeof(FirstFrame);

  explicit FirstFrames(absl::string_view bytes)
      : bytes_(bytes), budget_(kMaxHashedTimes * bytes.size()) {}

  Found At(uint64_t offset) {
    if (bytes_.size() - offset < sizeof(FirstFrame)) return {Found::kNothing, {}, 0};
    const auto frame = Load<FirstFrame>(bytes_, offset);
    if (!IsPossibleSize(frame.bytes)) return {Found::kNothing, {}, 0};
    const uint64_t begin = offset + sizeof frame;
    if (bytes_.size() - begin < frame.bytes) return {Found::kCutOff, {}, bytes_.size()};
    const absl::string_view record = bytes_.substr(begin, frame.bytes);
    if (Crc32c(record) != frame.crc) return {Found::kBadRecord, {}, begin + frame.bytes};
    return {Found::kRecord, record, begin + frame.bytes};
  }

  uint64_t Next(uint64_t offset) {
    // When only the record is damaged, the next frame is where it should be. A client may have put
    // bytes into a label that look like a frame, so this comes first.
    const Found here = At(offset);
    if (here.kind == Found::kBadRecord && At(here.end).kind == Found::kRecord) return here.end;
    for (++offset; offset < bytes_.size(); ++offset) {
      if (!LooksLikeRecord(offset)) continue;
      const uint64_t hashed = Load<FirstFrame>(bytes_, offset).bytes;
      if (hashed > budget_) return bytes_.size();
      budget_ -= hashed;
      if (At(offset).kind == Found::kRecord) return offset;
    }
    return bytes_.size();
  }

 private:
  // Records are messages with one field, which is a message: its tag, its size and its bytes.
  bool LooksLikeRecord(uint64_t offset) const {
    if (bytes_.size() - offset < sizeof(FirstFrame) + 2) return false;
    const uint32_t bytes = Load<FirstFrame>(bytes_, offset).bytes;
    if (!IsPossibleSize(bytes) || bytes_.size() - offset - sizeof(FirstFrame) < bytes) return false;
    const absl::string_view record = bytes_.substr(offset + sizeof(FirstFrame), bytes);
    if (record[0] != 0x0a && record[0] != 0x12 && record[0] != 0x1a) return false;
    uint64_t inner = 0;
    for (size_t i = 1; i < std::min<size_t>(record.size(), 5); ++i) {
      const auto byte = static_cast<unsigned char>(record[i]);
      inner |= uint64_t{byte & 0x7fu} << (7 * (i - 1));
      if (byte < 0x80) return inner == record.size() - i - 1;
    }
    return false;
  }

  const absl::string_view bytes_;
  uint64_t budget_;
};

// Whether an invalid end of a file can be a write that was not completed: blocks of it are zeros.
bool HasUnwrittenSector(absl::string_view bytes, uint64_t offset) {
  if (bytes.substr(offset).find_first_not_of('\0') == absl::string_view::npos) return true;
  uint64_t sector = (offset + kSectorBytes - 1) / kSectorBytes * kSectorBytes;
  for (; sector < bytes.size(); sector += kSectorBytes) {
    if (bytes.substr(sector, kSectorBytes).find_first_not_of('\0') == absl::string_view::npos) {
      return true;
    }
  }
  return false;
}

template <typename AnyFrames>
void ParseFrames(absl::string_view bytes, uint64_t offset, AnyFrames frames, const Take& take,
                 SegmentContents* contents) {
  uint64_t bad = offset;  // since here, when it is before `offset`
  bool cut_off = false;
  const auto add_damage = [&] {
    if (bad < offset) contents->damages.push_back({bad, offset - bad});
  };
  while (offset < bytes.size()) {
    const Found found = frames.At(offset);
    if (found.kind == Found::kRecord) {
      add_damage();
      take(found.record);
      ++contents->records;
      if (!contents->damages.empty()) ++contents->records_behind;
      bad = offset = found.end;
      continue;
    }
    if (found.kind == Found::kCutOff) {
      // What is before it is damage of another kind.
      add_damage();
      bad = offset;
    }
    const uint64_t next = frames.Next(offset);
    if (next == bytes.size()) {
      // Nothing that is intact comes behind this.
      cut_off = found.kind == Found::kCutOff || bytes.size() - offset < AnyFrames::kFrameBytes;
    }
    offset = next;
  }
  if (bad == bytes.size()) return;
  if (cut_off || HasUnwrittenSector(bytes, bad)) {
    contents->torn = {bad, bytes.size() - bad};
  } else {
    add_damage();
  }
}

}  // namespace

absl::StatusOr<SegmentContents> ParseSegment(absl::string_view path, absl::string_view bytes,
                                             const Take& take) {
  SegmentContents contents;
  contents.size = bytes.size();
  if (bytes.size() < sizeof(SegmentHeader)) {
    contents.damages.push_back({0, bytes.size()});
    return contents;
  }
  const auto header = Load<SegmentHeader>(bytes, 0);
  const bool has_header = absl::string_view(header.magic, sizeof header.magic) == kSegmentMagic &&
                          header.crc == HeaderCrc(header);
  if (has_header && header.version > kSegmentVersion) {
    return Error(reason::kJournalNewer,
                 absl::StrCat(path, " has format ", header.version, ", this release knows up to ",
                              kSegmentVersion))
        .With("path", path)
        .With("have", header.version)
        .With("want", kSegmentVersion);
  }
  if (!has_header) contents.damages.push_back({0, sizeof header});
  uint64_t salt = 0;
  bool has_salt = false;
  if (!has_header || header.version == kSegmentVersion) {
    for (uint64_t at = sizeof header; at < kFirstFrame; at += sizeof(SegmentSalt)) {
      if (bytes.size() < at + sizeof(SegmentSalt)) break;
      const auto copy = Load<SegmentSalt>(bytes, at);
      if (copy.crc == SaltCrc(copy)) {
        if (!has_salt) salt = copy.value();
        has_salt = true;
      } else if (has_header) {
        contents.damages.push_back({at, sizeof copy});
      }
    }
  }
  if (has_salt && bytes.size() < kFirstFrame) {
    const uint64_t second = sizeof header + sizeof(SegmentSalt);
    contents.damages.push_back({second, bytes.size() - second});
  } else if (has_salt) {
    ParseFrames(bytes, kFirstFrame, Frames(bytes, salt), take, &contents);
  } else if (has_header && header.version == kSegmentVersion) {
    // Nobody can tell frames without it.
    const std::vector<SegmentContents::Damage>& seen = contents.damages;
    const uint64_t rest = seen.empty() ? sizeof header : seen.back().offset + seen.back().bytes;
    if (seen.empty() || rest < bytes.size()) {
      contents.damages.push_back({rest, bytes.size() - rest});
    }
  } else {
    ParseFrames(bytes, sizeof header, FirstFrames(bytes), take, &contents);
  }
  return contents;
}

}  // namespace pto::daemon
