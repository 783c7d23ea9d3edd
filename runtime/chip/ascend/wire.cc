#include "runtime/chip/ascend/wire.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/types/optional.h"
#include "runtime/base/error.h"
#include "runtime/base/reason.h"

namespace pto::ascend {
namespace {

struct RequestHead {
  uint32_t kind;
  uint32_t slot;
  uint64_t id;
  uint64_t epoch;
  uint64_t target;
  uint64_t address;
  uint64_t from;
  uint64_t bytes;
  int64_t timeout_ns;
  uint32_t kernel;
  uint32_t blocks;
  uint32_t first_block;
  uint32_t block_count;
  uint32_t together;
  uint32_t tensor_count;
  uint32_t scalar_count;
  uint32_t unused;
};

struct ReplyHead {
  uint32_t kind;
  uint32_t ok;
  uint64_t id;
  uint64_t value;
  uint32_t device_count;
  uint32_t cube_cores;
  uint32_t vector_cores;
  uint32_t reason_bytes;
  uint64_t memory_bytes;
  uint32_t detail_bytes;
  uint32_t unused;
};

// What of an error's metadata comes through.
constexpr absl::string_view kDetails[] = {"code", "class", "vendor", "path", "symbol"};
constexpr absl::string_view kHint = "hint";

absl::Status Malformed(absl::string_view what) {
  return Error(reason::kHostLost, absl::StrCat("a malformed message: ", what));
}

void Append(const void* data, size_t bytes, std::vector<std::byte>* out) {
  if (bytes == 0) return;
  const size_t at = out->size();
  out->resize(at + bytes);
  std::memcpy(out->data() + at, data, bytes);
}

std::string Text(absl::Span<const std::byte> bytes, bool keep_lines = false) {
  std::string text(reinterpret_cast<const char*>(bytes.data()),
                   std::min(bytes.size(), kMaxWireText));
  for (char& c : text) {
    if (absl::ascii_iscntrl(static_cast<unsigned char>(c)) && !(keep_lines && c == '\n')) c = ' ';
  }
  return text;
}

// What a host may report of its device.
const Reason& KnownReason(absl::string_view name) {
  for (const Reason* const known :
       {&reason::kChipMemoryExhausted, &reason::kCannUnusable, &reason::kNotAvailable,
        &reason::kKernelFailed, &reason::kDeviceFailed, &reason::kFieldInvalid,
        &reason::kRunCancelled}) {
    if (known->name == name) return *known;
  }
  return reason::kDeviceFailed;
}

// The hint and the metadata of an error, a line for each.
std::string DetailOf(const absl::Status& status) {
  const absl::optional<ErrorDetail> detail = GetErrorDetail(status);
  if (!detail.has_value()) return "";
  std::string lines;
  const auto add = [&lines](absl::string_view key, std::string value) {
    std::replace(value.begin(), value.end(), '\n', ' ');
    absl::StrAppend(&lines, key, "=", value, "\n");
  };
  for (const auto& [key, value] : detail->metadata) {
    if (absl::c_linear_search(kDetails, key)) add(key, value);
  }
  if (!detail->hint.empty()) add(kHint, detail->hint);
  return lines.substr(0, kMaxWireText);
}

void AddDetail(absl::string_view lines, Error* error) {
  for (const absl::string_view line : absl::StrSplit(lines, '\n', absl::SkipEmpty())) {
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(line, absl::MaxSplits('=', 1));
    if (parts.first == kHint) error->Hint(parts.second);
    if (absl::c_linear_search(kDetails, parts.first)) error->With(parts.first, parts.second);
  }
}

}  // namespace

void Encode(const Request& request, std::vector<std::byte>* bytes) {
  RequestHead head = {};
  head.kind = request.kind;
  head.slot = request.slot;
  head.id = request.id;
  head.epoch = request.epoch;
  head.target = request.target;
  head.address = request.address;
  head.from = request.from;
  head.bytes = request.bytes;
  head.timeout_ns = request.timeout_ns;
  head.kernel = request.kernel;
  head.blocks = request.blocks;
  head.first_block = request.first_block;
  head.block_count = request.block_count;
  head.together = request.together;
  head.tensor_count = static_cast<uint32_t>(request.tensors.size());
  head.scalar_count = static_cast<uint32_t>(request.scalars.size());
  Append(&head, sizeof head, bytes);
  Append(request.tensors.data(), request.tensors.size() * sizeof(host::PtoTensor), bytes);
  Append(request.scalars.data(), request.scalars.size() * sizeof(int64_t), bytes);
  Append(request.text.data(), std::min(request.text.size(), kMaxWireText), bytes);
}

absl::StatusOr<Request> ParseRequest(absl::Span<const std::byte> bytes) {
  RequestHead head = {};
  if (bytes.size() < sizeof head) return Malformed("a request is too short");
  std::memcpy(&head, bytes.data(), sizeof head);
  bytes.remove_prefix(sizeof head);
  if (head.kind < Request::kAllocate || head.kind > Request::kLast) {
    return Malformed(absl::StrCat("there is no request ", head.kind));
  }
  if (head.tensor_count > host::kPtoMaxTensors || head.scalar_count > host::kPtoMaxScalars) {
    return Malformed("a request has too many arguments");
  }
  const size_t tensors = head.tensor_count * sizeof(host::PtoTensor);
  const size_t scalars = head.scalar_count * sizeof(int64_t);
  if (bytes.size() < tensors + scalars) return Malformed("a request has not all its arguments");
  if (head.blocks == 0 || head.blocks > kMaxWireBlocks)
    return Malformed("a request has no blocks, or too many");
  if (head.kind <= Request::kRead && head.kind >= Request::kWrite &&
      (head.slot >= kSlots || head.bytes > kSlotBytes)) {
    return Malformed("a request is out of range");
  }
  Request request;
  request.kind = head.kind;
  request.slot = head.slot;
  request.id = head.id;
  request.epoch = head.epoch;
  request.target = head.target;
  request.address = head.address;
  request.from = head.from;
  request.bytes = head.bytes;
  request.timeout_ns = head.timeout_ns;
  request.kernel = head.kernel;
  request.blocks = head.blocks;
  request.first_block = head.first_block;
  request.block_count = head.block_count;
  request.together = head.together;
  request.tensors.resize(head.tensor_count);
  if (tensors > 0) std::memcpy(request.tensors.data(), bytes.data(), tensors);
  bytes.remove_prefix(tensors);
  request.scalars.resize(head.scalar_count);
  if (scalars > 0) std::memcpy(request.scalars.data(), bytes.data(), scalars);
  bytes.remove_prefix(scalars);
  request.text = Text(bytes, /*keep_lines=*/true);
  return request;
}

void Encode(const Reply& reply, std::vector<std::byte>* bytes) {
  const std::string reason = ReasonOf(reply.status);
  const std::string detail = DetailOf(reply.status);
  const std::string text = reply.status.ok() ? reply.text : std::string(reply.status.message());
  ReplyHead head = {};
  head.kind = reply.kind;
  head.ok = reply.status.ok() ? 1 : 0;
  head.id = reply.id;
  head.value = reply.value;
  head.device_count = reply.device_count;
  head.cube_cores = reply.cube_cores;
  head.vector_cores = reply.vector_cores;
  head.reason_bytes = static_cast<uint32_t>(reason.size());
  head.memory_bytes = reply.memory_bytes;
  head.detail_bytes = static_cast<uint32_t>(detail.size());
  Append(&head, sizeof head, bytes);
  Append(reason.data(), reason.size(), bytes);
  Append(detail.data(), detail.size(), bytes);
  Append(text.data(), std::min(text.size(), kMaxWireText), bytes);
}

absl::StatusOr<Reply> ParseReply(absl::Span<const std::byte> bytes) {
  ReplyHead head = {};
  if (bytes.size() < sizeof head) return Malformed("a reply is too short");
  std::memcpy(&head, bytes.data(), sizeof head);
  bytes.remove_prefix(sizeof head);
  if (head.kind < Reply::kDone || head.kind > Reply::kLast || head.reason_bytes > bytes.size() ||
      head.detail_bytes > bytes.size() - head.reason_bytes) {
    return Malformed("a reply is out of range");
  }
  Reply reply;
  reply.kind = head.kind;
  reply.id = head.id;
  reply.value = head.value;
  reply.device_count = head.device_count;
  reply.cube_cores = head.cube_cores;
  reply.vector_cores = head.vector_cores;
  reply.memory_bytes = head.memory_bytes;
  const std::string reason = Text(bytes.subspan(0, head.reason_bytes));
  bytes.remove_prefix(head.reason_bytes);
  const std::string detail = Text(bytes.subspan(0, head.detail_bytes), /*keep_lines=*/true);
  const std::string text = Text(bytes.subspan(head.detail_bytes));
  if (head.ok != 0) {
    reply.text = text;
  } else {
    Error error(KnownReason(reason), text);
    AddDetail(detail, &error);
    reply.status = error;
  }
  return reply;
}

}  // namespace pto::ascend
