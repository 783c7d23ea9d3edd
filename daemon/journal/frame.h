#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "absl/strings/string_view.h"
#include "daemon/journal/crc32c.h"

// The bytes of a segment. Numbers are in native byte order: a journal is not moved between
// machines.
namespace pto::daemon {

inline constexpr absl::string_view kSegmentMagic = "PTOJRNL\n";
// The version that is written, and the one of the releases before. Frames of version 1 have no
// salt: a client could put bytes into a label that look like a frame.
inline constexpr uint32_t kSegmentVersion = 2;
inline constexpr uint32_t kFirstSegmentVersion = 1;
// Records cannot be larger, because labels and errors are bounded.
inline constexpr uint32_t kMaxRecordBytes = 1 << 20;

struct SegmentHeader {
  char magic[8];
  uint32_t version;
  uint32_t crc;  // of what is before it
};
static_assert(sizeof(SegmentHeader) == 16);

inline uint32_t HeaderCrc(const SegmentHeader& header) {
  return Crc32c({reinterpret_cast<const char*>(&header), offsetof(SegmentHeader, crc)});
}

// A random number of the file, behind the header of version 2, twice.
struct SegmentSalt {
  uint32_t words[2];
  uint32_t crc;  // of the words

  uint64_t value() const { return words[0] | uint64_t{words[1]} << 32; }
};
static_assert(sizeof(SegmentSalt) == 12);

inline uint32_t SaltCrc(const SegmentSalt& salt) {
  return Crc32c({reinterpret_cast<const char*>(&salt), offsetof(SegmentSalt, crc)});
}

inline constexpr uint64_t kFirstFrame = sizeof(SegmentHeader) + 2 * sizeof(SegmentSalt);

// Before each record.
struct Frame {
  uint32_t bytes;  // of the record
  uint32_t crc;    // of the record
  // Of all above, the file's salt and the frame's place: nobody who cannot read the file can make
  // one, and none is taken for another.
  uint32_t own_crc;
};
static_assert(sizeof(Frame) == 12);

inline uint32_t FrameCrc(uint64_t salt, uint64_t offset, const Frame& frame) {
  char bytes[24];
  std::memcpy(bytes, &salt, 8);
  std::memcpy(bytes + 8, &offset, 8);
  std::memcpy(bytes + 16, &frame, 8);
  return Crc32c({bytes, sizeof bytes});
}

// In files of version 1.
struct FirstFrame {
  uint32_t bytes;
  uint32_t crc;
};

}  // namespace pto::daemon
