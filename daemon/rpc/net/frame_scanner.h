#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "absl/strings/string_view.h"

namespace pto::daemon::rpc {

// The header of an HTTP/2 frame (RFC 9113, section 4.1).
struct Frame {
  enum Type : uint8_t {
    kData = 0,
    kHeaders = 1,
    kPriority = 2,
    kResetStream = 3,
    kSettings = 4,
    kPushPromise = 5,
    kPing = 6,
    kGoAway = 7,
    kWindowUpdate = 8,
    kContinuation = 9,
  };
  static constexpr uint8_t kEndStream = 0x1;
  static constexpr uint8_t kEndHeaders = 0x4;
  static constexpr uint8_t kPadded = 0x8;

  uint32_t length = 0;
  uint8_t type = 0;
  uint8_t flags = 0;
  uint32_t stream = 0;
};

// What every client sends first.
inline constexpr absl::string_view kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

// Finds the frames in one direction of an HTTP/2 connection, in whatever pieces it arrives. Does
// not look into frames. Used by one thread at a time.
class FrameScanner {
 public:
  enum class Start { kPreface, kFrames };

  explicit FrameScanner(Start start)
      : preface_left_(start == Start::kPreface ? kPreface.size() : 0) {}

  // Calls visitor.OnFrame(const Frame&) for each header, and visitor.OnData(const Frame&,
  // absl::string_view) for each piece of the payload of a DATA frame. Both return whether to go on.
  // Returns false if they do not, or if the connection does not begin as HTTP/2 does.
  template <typename Visitor>
  bool Scan(absl::string_view bytes, Visitor& visitor) {
    if (preface_left_ > 0 && !SkipPreface(bytes)) return false;
    while (!bytes.empty()) {
      if (payload_left_ > 0) {
        const size_t size = std::min<size_t>(bytes.size(), payload_left_);
        if (frame_.type == Frame::kData && !visitor.OnData(frame_, bytes.substr(0, size))) {
          return false;
        }
        payload_left_ -= static_cast<uint32_t>(size);
        bytes.remove_prefix(size);
        continue;
      }
      const size_t size = std::min(bytes.size(), kHeaderBytes - header_size_);
      std::memcpy(header_ + header_size_, bytes.data(), size);
      header_size_ += size;
      bytes.remove_prefix(size);
      if (header_size_ < kHeaderBytes) break;
      header_size_ = 0;
      ParseHeader();
      payload_left_ = frame_.length;
      if (!visitor.OnFrame(frame_)) return false;
    }
    return true;
  }

  // Whether the preface is complete.
  bool begun() const { return preface_left_ == 0; }

 private:
  static constexpr size_t kHeaderBytes = 9;

  bool SkipPreface(absl::string_view& bytes) {
    const size_t size = std::min(bytes.size(), preface_left_);
    if (bytes.substr(0, size) != kPreface.substr(kPreface.size() - preface_left_, size)) {
      return false;
    }
    preface_left_ -= size;
    bytes.remove_prefix(size);
    return true;
  }

  void ParseHeader() {
    const auto at = [this](size_t i) { return static_cast<uint32_t>(header_[i]); };
    frame_.length = at(0) << 16 | at(1) << 8 | at(2);
    frame_.type = header_[3];
    frame_.flags = header_[4];
    frame_.stream = (at(5) << 24 | at(6) << 16 | at(7) << 8 | at(8)) & 0x7fffffff;
  }

  size_t preface_left_;
  uint8_t header_[kHeaderBytes] = {};
  size_t header_size_ = 0;
  Frame frame_;
  uint32_t payload_left_ = 0;
};

}  // namespace pto::daemon::rpc
