#include "proto/broker/message.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "runtime/base/error.h"
#include "runtime/base/status_macros.h"

namespace pto::broker {
namespace {

constexpr uint32_t kMagic = 0x6d6f7470;  // "ptom"

// Where things are. Both messages begin alike.
constexpr size_t kMagicAt = 0;
constexpr size_t kVersionAt = 4;
constexpr size_t kOpAt = 6;
constexpr size_t kNumberAt = 8;
constexpr size_t kRegionAt = 16;
// A request goes on with these.
constexpr size_t kKeyAt = 24;
constexpr size_t kNameSizeAt = kKeyAt + kKeyBytes;
constexpr size_t kNameAt = kNameSizeAt + 1;
static_assert(kNameAt + kMaxNameBytes == kRequestBytes);
// A reply with these.
constexpr size_t kBytesAt = 24;
constexpr size_t kOutcomeAt = 32;
constexpr size_t kZeroAt = 36;
static_assert(kZeroAt + sizeof(uint32_t) == kReplyBytes);

template <typename T, size_t kSize>
void Put(std::array<char, kSize>& out, size_t at, T value) {
  std::memcpy(out.data() + at, &value, sizeof(value));
}

template <typename T>
T Get(absl::Span<const char> bytes, size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof(value));
  return value;
}

absl::Status Wrong(absl::string_view what) {
  return Error(reason::kMessageInvalid, absl::StrCat("a broker's message ", what));
}

template <size_t kSize>
void PutHead(std::array<char, kSize>& out, Op op, uint64_t number, uint64_t region) {
  Put(out, kMagicAt, kMagic);
  Put(out, kVersionAt, kVersion);
  Put(out, kOpAt, static_cast<uint16_t>(op));
  Put(out, kNumberAt, number);
  Put(out, kRegionAt, region);
}

absl::StatusOr<Op> ParseHead(absl::Span<const char> bytes, size_t size) {
  if (bytes.size() != size) return Wrong(absl::StrCat("has ", size, " bytes, not ", bytes.size()));
  if (Get<uint32_t>(bytes, kMagicAt) != kMagic) return Wrong("begins with another word");
  const auto version = Get<uint16_t>(bytes, kVersionAt);
  if (version != kVersion) return Wrong(absl::StrCat("has version 1, not ", version));
  const auto op = Get<uint16_t>(bytes, kOpAt);
  if (op < static_cast<uint16_t>(Op::kAttach) || op > static_cast<uint16_t>(Op::kRelease)) {
    return Wrong(absl::StrCat("cannot ask for ", op));
  }
  return static_cast<Op>(op);
}

bool IsZero(absl::Span<const char> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](char byte) { return byte == 0; });
}

}  // namespace

bool IsId(absl::string_view name) {
  if (name.empty() || name.size() > kMaxNameBytes || name[0] < 'a' || name[0] > 'z') return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
  });
}

RequestBytes Encode(const Request& request) {
  RequestBytes out = {};
  PutHead(out, request.op, request.number, request.region);
  std::copy(request.key.begin(), request.key.end(), out.begin() + kKeyAt);
  const size_t size = std::min(request.name.size(), kMaxNameBytes);
  Put(out, kNameSizeAt, static_cast<uint8_t>(size));
  std::copy_n(request.name.begin(), size, out.begin() + kNameAt);
  return out;
}

ReplyBytes Encode(const Reply& reply) {
  ReplyBytes out = {};
  PutHead(out, reply.op, reply.number, reply.region);
  Put(out, kBytesAt, reply.bytes);
  Put(out, kOutcomeAt, static_cast<uint32_t>(reply.outcome));
  return out;
}

absl::StatusOr<Request> ParseRequest(absl::Span<const char> bytes) {
  Request request;
  PTO_ASSIGN_OR_RETURN(request.op, ParseHead(bytes, kRequestBytes));
  request.number = Get<uint64_t>(bytes, kNumberAt);
  request.region = Get<uint64_t>(bytes, kRegionAt);
  const absl::Span<const char> key = bytes.subspan(kKeyAt, kKeyBytes);
  std::copy(key.begin(), key.end(), request.key.begin());
  const size_t name_size = Get<uint8_t>(bytes, kNameSizeAt);
  if (name_size > kMaxNameBytes) return Wrong(absl::StrCat("has no name of ", name_size, " bytes"));
  request.name.assign(bytes.data() + kNameAt, name_size);
  if (!IsZero(bytes.subspan(kNameAt + name_size))) return Wrong("has zeros after its name");

  const bool named = request.op == Op::kAttach || request.op == Op::kMap;
  if (named != !request.name.empty()) return Wrong("has a name just where one is needed");
  if (named && !IsId(request.name)) return Wrong("names something by its id");
  if (named == (request.region != 0)) return Wrong("has a region just where one is needed");
  if (IsZero(key) == (request.op == Op::kAttach)) return Wrong("has a key just to attach");
  return request;
}

absl::StatusOr<Reply> ParseReply(absl::Span<const char> bytes) {
  Reply reply;
  PTO_ASSIGN_OR_RETURN(reply.op, ParseHead(bytes, kReplyBytes));
  reply.number = Get<uint64_t>(bytes, kNumberAt);
  reply.region = Get<uint64_t>(bytes, kRegionAt);
  reply.bytes = Get<uint64_t>(bytes, kBytesAt);
  const auto outcome = Get<uint32_t>(bytes, kOutcomeAt);
  if (outcome > static_cast<uint32_t>(Outcome::kLimit)) {
    return Wrong(absl::StrCat("has no outcome ", outcome));
  }
  reply.outcome = static_cast<Outcome>(outcome);
  if (!IsZero(bytes.subspan(kZeroAt))) return Wrong("has zeros at its end");
  const bool mapped = reply.op == Op::kMap && reply.outcome == Outcome::kOk;
  if (mapped != (reply.region != 0) || mapped != (reply.bytes != 0)) {
    return Wrong("has a region just where memory comes with it");
  }
  return reply;
}

}  // namespace pto::broker
