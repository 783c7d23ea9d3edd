#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

// The messages between the daemon's memory broker and its clients, on a SOCK_SEQPACKET unix socket
// beside the daemon's own: daemon/broker/README.md. All have a fixed size and are in the machine's
// byte order, since both sides are on one machine. Everything here is pure: bytes in, a value or an
// error out.
namespace pto::broker {

inline constexpr uint16_t kVersion = 1;
inline constexpr size_t kRequestBytes = 120;
inline constexpr size_t kReplyBytes = 40;
inline constexpr size_t kKeyBytes = 32;
inline constexpr size_t kMaxNameBytes = 63;

enum class Op : uint16_t {
  // Proves by `key` that the connection belongs to the session `name`. First, and once.
  kAttach = 1,
  // Asks for the memory of the session's buffer `name`; the reply brings a descriptor and a region.
  kMap = 2,
  // Asks whether the region may be read and written now.
  kCheck = 3,
  // Forgets a region; the client has unmapped it.
  kRelease = 4,
};

enum class Outcome : uint32_t {
  kOk = 0,
  // The session is not this client's: another key, another user, or it never gave a key.
  kDenied = 1,
  kSessionGone = 2,
  kBufferGone = 3,
  // A run uses the buffer. Later it may be free.
  kBufferInUse = 4,
  // A region that this connection does not have.
  kRegionUnknown = 5,
  // No more memory or descriptors can be shared; of kAttach: the session has too many connections.
  // Later there may be room.
  kLimit = 6,
};

using Key = std::array<char, kKeyBytes>;

struct Request {
  Op op = Op::kAttach;
  // Chosen by the client; the reply has the same.
  uint64_t number = 0;
  uint64_t region = 0;  // kCheck, kRelease: not 0
  Key key = {};         // kAttach
  std::string name;     // kAttach: the session's id; kMap: the buffer's
};

struct Reply {
  Op op = Op::kAttach;
  uint64_t number = 0;
  Outcome outcome = Outcome::kOk;
  // Of kMap when it went well: never used twice by a daemon, and the size of the memory.
  uint64_t region = 0;
  uint64_t bytes = 0;
};

using RequestBytes = std::array<char, kRequestBytes>;
using ReplyBytes = std::array<char, kReplyBytes>;

// What is given must be valid: a name of at most kMaxNameBytes, and only the fields of its kind.
RequestBytes Encode(const Request& request);
ReplyBytes Encode(const Reply& reply);

// INVALID_ARGUMENT / MESSAGE_INVALID for everything that Encode does not make.
absl::StatusOr<Request> ParseRequest(absl::Span<const char> bytes);
absl::StatusOr<Reply> ParseReply(absl::Span<const char> bytes);

// Whether this can be the id of a session or a buffer.
bool IsId(absl::string_view name);

}  // namespace pto::broker
