#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "google/protobuf/message_lite.h"

namespace pto {

// 128 bits that stand for a message's content, so that a repeated request can be told from
// another one with the same id. Not a defence against someone who looks for collisions.
// Compare only digests that the same build of the daemon made.
struct Digest {
  uint64_t high = 0;
  uint64_t low = 0;

  bool operator==(const Digest&) const = default;
  std::string ToString() const;  // 32 hexadecimal digits
};

// Takes messages one after another; where one ends and the next begins counts too.
// Maps are taken in the order of their keys. Not thread-safe.
class DigestBuilder {
 public:
  void Add(const google::protobuf::MessageLite& message);
  void Add(absl::string_view text);

  // Of all that was added so far; more can follow.
  Digest Finish() const;

 private:
  friend class DigestStream;

  void AddNumber(uint64_t number);
  void AddBytes(const char* data, size_t size);
  void Mix(uint64_t first, uint64_t second);

  uint64_t high_ = 0;
  uint64_t low_ = 0;
  uint64_t bytes_ = 0;
  // What is left over from the last 16.
  char tail_[16] = {};
  size_t tail_size_ = 0;
};

// The digest of one message.
Digest DigestOf(const google::protobuf::MessageLite& message);

}  // namespace pto
