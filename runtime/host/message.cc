#include "runtime/host/message.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "kernels/domain_scalar.h"
#include "kernels/kernel_info.h"
#include "runtime/base/error.h"
#include "runtime/base/status_macros.h"
#include "runtime/host/control_block.h"

namespace pto::host {
namespace {

absl::Status Malformed(absl::string_view what) {
  return Error(reason::kHostLost, absl::StrCat("a malformed message: ", what));
}

template <typename T>
void Append(const T* values, size_t count, std::vector<std::byte>* bytes) {
  static_assert(std::is_trivially_copyable_v<T>);
  if (count == 0) return;
  const size_t begin = bytes->size();
  bytes->resize(begin + count * sizeof(T));
  std::memcpy(bytes->data() + begin, values, count * sizeof(T));
}

// Reads the next values. Returns false if the bytes end before.
template <typename T>
bool Take(absl::Span<const std::byte>* bytes, T* values, size_t count) {
  static_assert(std::is_trivially_copyable_v<T>);
  if (count > bytes->size() / sizeof(T)) return false;
  if (count > 0) std::memcpy(values, bytes->data(), count * sizeof(T));
  bytes->remove_prefix(count * sizeof(T));
  return true;
}

// Without the text.
struct ReportHead {
  uint32_t kind;
  uint32_t slot;
  uint64_t id;
  int32_t result;
  uint32_t block;
  uint32_t took_ticks;
  uint32_t reserved;
};

// Reads the rest of a report that is a call.
absl::Status TakeCall(absl::Span<const std::byte> bytes, Report* report) {
  CallMessage& call = report->call.emplace();
  if (!Take(&bytes, &call, 1)) return Malformed("a call is too short");
  if (call.kind > CallMessage::kDeferCopy) {
    return Malformed(absl::StrCat("there is no call ", call.kind));
  }
  report->tensors.resize(call.kind == CallMessage::kCopy ? 2 : 0);
  // Compared first, as `Take` leaves what is too much.
  if (bytes.size() != report->tensors.size() * sizeof(TensorMessage)) {
    return Malformed("a call has not its tensors");
  }
  Take(&bytes, report->tensors.data(), report->tensors.size());
  for (const TensorMessage& tensor : report->tensors) {
    if (tensor.ndim > PTO_MAX_DIMS) return Malformed("a tensor has too many dimensions");
  }
  return absl::OkStatus();
}

// What becomes an enum must be one of its values. The rest is checked like every description.
absl::Status CheckNumbers(const KernelDescription& kernel) {
  bool right = kernel.default_core >= PTO_AIC && kernel.default_core <= PTO_MIX &&
               (kernel.abi == HostAbi::kOwn || kernel.abi == HostAbi::kPto);
  for (uint32_t i = 0; i < kernel.argument_count; ++i) {
    const uint32_t direction = kernel.arguments[i].direction;
    right = right && direction >= PTO_INPUT && direction <= PTO_NO_DEPENDENCY;
  }
  for (uint32_t i = 0; i < kernel.scalar_count; ++i) {
    const uint32_t type = kernel.scalars[i].type;
    // Only the PTO ABI has domains.
    right = right && (type == PTO_FLOAT || type == PTO_INTEGER ||
                      (type == kDomainScalar && kernel.abi == HostAbi::kPto));
  }
  return right ? absl::OkStatus() : Malformed("a kernel's description is out of range");
}

template <size_t kSize>
void End(char (&text)[kSize]) {
  text[kSize - 1] = 0;
}

}  // namespace

void EncodePost(const PostMessage& head, const pto_scalar* scalars,
                absl::Span<const TensorMessage> tensors, std::vector<std::byte>* bytes) {
  Append(&head, 1, bytes);
  Append(scalars, head.scalar_count, bytes);
  Append(tensors.data(), tensors.size(), bytes);
}

absl::Status ParsePost(absl::Span<const std::byte> bytes, PostView* post) {
  PostMessage& head = post->head;
  if (!Take(&bytes, &head, 1)) return Malformed("a post is too short");
  if (head.slot >= kMaxPosts || head.scalar_count > PTO_MAX_SCALARS ||
      head.tensor_count > PTO_MAX_ARGS || head.member >= head.member_count ||
      head.block >= head.block_end) {
    return Malformed("a post is out of range");
  }
  post->scalars.resize(head.scalar_count);
  if (!Take(&bytes, post->scalars.data(), head.scalar_count)) {
    return Malformed("a post has not all its scalars");
  }
  const uint64_t tensors = uint64_t{head.member_count} * head.tensor_count;
  // Compared first: nothing is allocated for what is not there.
  if (bytes.size() != tensors * sizeof(TensorMessage)) {
    return Malformed("a post has not all its tensors");
  }
  post->tensors.resize(tensors);
  Take(&bytes, post->tensors.data(), tensors);
  for (const TensorMessage& tensor : post->tensors) {
    if (tensor.ndim > PTO_MAX_DIMS) return Malformed("a tensor has too many dimensions");
  }
  return absl::OkStatus();
}

void EncodeReport(const Report& report, std::vector<std::byte>* bytes) {
  const ReportHead head = {report.kind,  report.slot,       report.id, report.result,
                           report.block, report.took_ticks, 0};
  Append(&head, 1, bytes);
  if (report.call.has_value()) {
    Append(&*report.call, 1, bytes);
    Append(report.tensors.data(), report.tensors.size(), bytes);
    return;
  }
  Append(report.text.data(), std::min(report.text.size(), kMaxText), bytes);
}

absl::StatusOr<Report> ParseReport(absl::Span<const std::byte> bytes) {
  ReportHead head = {};
  if (!Take(&bytes, &head, 1)) return Malformed("a report is too short");
  if (head.kind < Report::kEnded || head.kind > Report::kCall) {
    return Malformed(absl::StrCat("there is no report ", head.kind));
  }
  if (head.slot >= kMaxPosts) return Malformed(absl::StrCat("there is no slot ", head.slot));
  Report report;
  report.kind = static_cast<Report::Kind>(head.kind);
  report.slot = head.slot;
  report.id = head.id;
  report.result = head.result;
  report.block = head.block;
  report.took_ticks = head.took_ticks;
  if (head.kind == Report::kCall) {
    PTO_RETURN_IF_ERROR(TakeCall(bytes, &report));
    return report;
  }
  if (bytes.size() > kMaxText) return Malformed("a text is too long");
  report.text =
      Printable(absl::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  return report;
}

void EncodeOrder(const Order& order, std::vector<std::byte>* bytes) {
  OrderMessage head = order.head;
  head.signature_bytes = static_cast<uint32_t>(order.signature.size());
  head.rank_count = static_cast<uint32_t>(order.ranks.size());
  Append(&head, 1, bytes);
  Append(order.signature.data(), order.signature.size(), bytes);
  Append(order.ranks.data(), order.ranks.size(), bytes);
}

absl::StatusOr<Order> ParseOrder(absl::Span<const std::byte> bytes) {
  Order order;
  OrderMessage& head = order.head;
  if (!Take(&bytes, &head, 1)) return Malformed("an order is too short");
  if (head.kind < OrderMessage::kStart || head.kind > OrderMessage::kEndRun) {
    return Malformed(absl::StrCat("there is no order ", head.kind));
  }
  if (head.abi != HostAbi::kOwn && head.abi != HostAbi::kPto) {
    return Malformed("there is no such ABI");
  }
  // Compared first: nothing is allocated for what is not there.
  if (head.signature_bytes > OrderMessage::kMaxSignature ||
      head.rank_count > DomainRank::kMaxRanks ||
      bytes.size() != head.signature_bytes + head.rank_count * sizeof(DomainRank)) {
    return Malformed("an order of another size");
  }
  order.signature.resize(head.signature_bytes);
  Take(&bytes, order.signature.data(), order.signature.size());
  order.ranks.resize(head.rank_count);
  Take(&bytes, order.ranks.data(), order.ranks.size());
  End(head.entry);
  End(head.file_name);
  End(head.name);
  return order;
}

absl::StatusOr<AnswerMessage> ParseAnswer(absl::Span<const std::byte> bytes) {
  AnswerMessage answer;
  if (bytes.size() != sizeof answer) return Malformed("an answer of another size");
  Take(&bytes, &answer, 1);
  if (answer.kind < AnswerMessage::kReady || answer.kind > AnswerMessage::kRefused) {
    return Malformed(absl::StrCat("there is no answer ", answer.kind));
  }
  KernelDescription& kernel = answer.description;
  if (kernel.argument_count > PTO_MAX_ARGS || kernel.scalar_count > PTO_MAX_SCALARS ||
      answer.sandbox.count > SandboxReport::kMaxItems) {
    return Malformed("an answer is out of range");
  }
  if (answer.kind == AnswerMessage::kLoaded) PTO_RETURN_IF_ERROR(CheckNumbers(kernel));
  End(answer.text);
  End(kernel.name);
  End(kernel.description);
  for (KernelDescription::Argument& argument : kernel.arguments) End(argument.name);
  for (KernelDescription::Scalar& scalar : kernel.scalars) End(scalar.name);
  for (SandboxReport::Item& item : answer.sandbox.items) {
    End(item.name);
    End(item.detail);
  }
  return answer;
}

void SetText(absl::Span<char> field, absl::string_view text) {
  const size_t size = std::min(text.size(), field.size() - 1);
  std::memcpy(field.data(), text.data(), size);
  std::fill(field.begin() + size, field.end(), '\0');
}

std::string Printable(absl::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (absl::ascii_iscntrl(static_cast<unsigned char>(c))) c = ' ';
  }
  return std::string(absl::StripAsciiWhitespace(out));
}

absl::StatusOr<KernelDescription> Describe(const pto_kernel_info& info) {
  PTO_RETURN_IF_ERROR(CheckKernelInfo(info));
  if (info.control != PTO_CONTROL_NONE) {
    return Error(reason::kFieldInvalid, "the engine does this itself").At("control");
  }
  KernelDescription out;
  // The names are short, as was checked.
  SetText(absl::MakeSpan(out.name), info.name);
  SetText(absl::MakeSpan(out.description), info.description);
  out.default_core = info.default_core;
  out.requires_sync_start = info.requires_sync_start;
  out.flags = info.flags;
  out.has_plan = info.plan != nullptr ? 1 : 0;
  out.argument_count = info.argument_count;
  out.scalar_count = info.scalar_count;
  for (uint32_t i = 0; i < info.argument_count; ++i) {
    const pto_overlap_info overlap = OverlapOf(info, i);
    SetText(absl::MakeSpan(out.arguments[i].name), info.arguments[i].name);
    out.arguments[i].direction = info.arguments[i].direction;
    out.arguments[i].dtypes = info.arguments[i].dtypes;
    out.arguments[i].same = overlap.same;
    out.arguments[i].any = overlap.any;
  }
  for (uint32_t i = 0; i < info.scalar_count; ++i) {
    SetText(absl::MakeSpan(out.scalars[i].name), info.scalars[i].name);
    out.scalars[i].type = info.scalars[i].type;
  }
  return out;
}

}  // namespace pto::host
