// A file of the journal that was written well and then damaged, or any bytes.

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "daemon/journal/frame.h"
#include "daemon/journal/segment.h"
#include "runtime/base/log.h"
#include "tests/fuzz/byte_reader.h"
#include "tests/fuzz/expect.h"

namespace pto::fuzz {
namespace {

using daemon::SegmentContents;

constexpr char kAnyBytes = 0;
constexpr size_t kMaxRecords = 64;

struct Record {
  uint64_t begin = 0;  // of its frame
  uint64_t end = 0;
  std::string bytes;
};

// The damages of a file, its torn end and its records do not overlap, and are all in the file.
void CheckContents(const absl::StatusOr<SegmentContents>& contents, uint64_t size,
                   const std::vector<std::string>& records) {
  if (!contents.ok()) return ExpectReason(contents.status(), reason::kJournalNewer);
  PTO_CHECK(contents->size == size && contents->records == records.size(), "all that there is");
  PTO_CHECK(contents->records_behind <= contents->records, "some are behind damage");
  uint64_t end = 0;
  uint64_t bad = 0;
  for (const SegmentContents::Damage& damage : contents->damages) {
    PTO_CHECK(damage.offset >= end, "in order");
    end = damage.offset + damage.bytes;
    bad += damage.bytes;
  }
  if (contents->torn.has_value()) {
    PTO_CHECK(contents->torn->offset >= end, "the torn end is the end");
    end = contents->torn->offset + contents->torn->bytes;
    PTO_CHECK(end == size, "the torn end is the end");
    bad += contents->torn->bytes;
  }
  PTO_CHECK(end <= size, "within the file");
  for (const std::string& record : records) bad += record.size();
  PTO_CHECK(bad <= size, "nothing counts twice");
}

// What the writer writes, with a salt that the input chooses.
std::string Write(ByteReader& input, std::vector<Record>* records) {
  daemon::SegmentHeader header = {};
  std::memcpy(header.magic, daemon::kSegmentMagic.data(), sizeof header.magic);
  header.version = daemon::kSegmentVersion;
  header.crc = daemon::HeaderCrc(header);
  daemon::SegmentSalt salt = {};
  salt.words[0] = input.Number<uint32_t>();
  salt.words[1] = ~salt.words[0];
  salt.crc = daemon::SaltCrc(salt);
  std::string bytes(reinterpret_cast<const char*>(&header), sizeof header);
  for (int i = 0; i < 2; ++i) bytes.append(reinterpret_cast<const char*>(&salt), sizeof salt);
  const size_t count = input.Byte() % kMaxRecords;
  for (size_t i = 0; i < count; ++i) {
    const absl::Span<const char> content = input.Bytes(1 + input.Byte() % 64);
    Record record;
    record.bytes.assign(content.begin(), content.end());
    // No two are the same.
    record.bytes.push_back(static_cast<char>(i));
    record.begin = bytes.size();
    daemon::Frame frame = {static_cast<uint32_t>(record.bytes.size()), daemon::Crc32c(record.bytes),
                           0};
    frame.own_crc = daemon::FrameCrc(salt.value(), record.begin, frame);
    bytes.append(reinterpret_cast<const char*>(&frame), sizeof frame);
    bytes.append(record.bytes);
    record.end = bytes.size();
    records->push_back(std::move(record));
  }
  return bytes;
}

void DamageAndRead(ByteReader& input) {
  std::vector<Record> written;
  std::string bytes = Write(input, &written);
  const uint64_t size = bytes.size();
  if (input.Byte() % 4 == 0) bytes.resize(input.Number<uint16_t>() % (size + 1));
  std::vector<bool> hit(size);
  const size_t hits = input.Byte() % 8;
  for (size_t i = 0; i < hits && !bytes.empty(); ++i) {
    // Of the header only its first bytes: without the copies of the salt nothing can be read.
    const uint64_t at = input.Number<uint16_t>() % bytes.size();
    if (at >= daemon::kSegmentMagic.size() && at < daemon::kFirstFrame) continue;
    const auto flip = static_cast<char>(1 + input.Byte() % 255);
    bytes[at] = static_cast<char>(bytes[at] ^ flip);
    // Hit twice it may be right again.
    hit[at] = true;
  }
  std::vector<std::string> found;
  const auto contents = daemon::ParseSegment(
      "file", bytes, [&](absl::string_view record) { found.emplace_back(record); });
  CheckContents(contents, bytes.size(), found);
  PTO_CHECK(contents.ok(), "no damage makes a file newer");
  auto next = found.begin();
  for (const Record& record : written) {
    if (record.end > bytes.size()) break;
    const bool is_hit = std::find(hit.begin() + static_cast<ptrdiff_t>(record.begin),
                                  hit.begin() + static_cast<ptrdiff_t>(record.end),
                                  true) != hit.begin() + static_cast<ptrdiff_t>(record.end);
    if (next != found.end() && *next == record.bytes) {
      ++next;
      continue;
    }
    PTO_CHECK(is_hit, "an intact record is found");
  }
  PTO_CHECK(next == found.end(), "nothing else is found");
}

void ReadAnything(ByteReader& input) {
  const absl::Span<const char> bytes = input.Bytes(size_t{1} << 20);
  std::vector<std::string> found;
  const auto contents =
      daemon::ParseSegment("file", absl::string_view(bytes.data(), bytes.size()),
                           [&](absl::string_view record) { found.emplace_back(record); });
  CheckContents(contents, bytes.size(), found);
}

}  // namespace
}  // namespace pto::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  pto::fuzz::ByteReader input(data, size);
  if (input.Byte() == pto::fuzz::kAnyBytes) {
    pto::fuzz::ReadAnything(input);
  } else {
    pto::fuzz::DamageAndRead(input);
  }
  return 0;
}
