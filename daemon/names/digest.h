#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "google/protobuf/message_lite.h"

namespace pto::daemon {

// 128 bits that stand for a request's content, so that a repeated request can be told from another
// one with the same id. Not a defence against someone who looks for collisions.
//
// It is the XXH3-128 hash of the request's canonical form. The form of a message is its size as 8
// bytes, lowest first, and then the message as protobuf writes it: known fields by rising number,
// entries of maps by rising key, repeated numbers packed, fields without presence only if they are
// not zero, unknown fields last, in the order in which they came. The form of a text is its size,
// likewise, and its bytes. So the order of fields and of map entries, and packed or not, make no
// difference on the wire; a field that is set to its default does, when it has presence.
//
// A caller removes what is not part of what the client asks for: how long it waits for the reply,
// and a session's attach key. All else counts, ids and names too. A graph in chunks is the sequence
// of its messages: the same tasks in one message, or cut elsewhere, are another request.
struct Digest {
  // Of the hash and the form. Raise it when either changes: digests of different versions say
  // nothing about whether their requests are equal. Releases before XXH3 made version 1.
  static constexpr uint32_t kVersion = 2;
  // Before versions were kept.
  static constexpr uint32_t kFirstVersion = 1;

  uint64_t high = 0;
  uint64_t low = 0;
  uint32_t version = 0;  // 0: there is no digest, no request can be the same

  bool operator==(const Digest&) const = default;
  std::string ToString() const;  // 32 hexadecimal digits
};

// Takes messages one after another; where one ends and the next begins counts too. Not thread-safe.
class DigestBuilder {
 public:
  DigestBuilder();
  ~DigestBuilder();

  void Add(const google::protobuf::MessageLite& message);
  void Add(absl::string_view text);

  // Of all that was added so far; more can follow.
  Digest Finish() const;

 private:
  class Hash;

  friend Digest DigestOf(const google::protobuf::MessageLite& message);

  const std::unique_ptr<Hash> hash_;
};

// The digest of one message. Allocates nothing.
Digest DigestOf(const google::protobuf::MessageLite& message);

}  // namespace pto::daemon
