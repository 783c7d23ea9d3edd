#include "daemon/domain/domain_spec.h"

#include <limits>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "daemon/names/names.h"
#include "kernels/dtype.h"
#include "runtime/base/error.h"
#include "runtime/base/status_macros.h"

namespace pto::daemon {
namespace {

absl::Status TooMany(absl::string_view what, uint64_t most, uint64_t have,
                     absl::string_view field) {
  return Error(reason::kFieldInvalid, absl::StrCat("a domain has ", what, ", not ", have))
      .At(field)
      .With("have", have)
      .With("want", most);
}

absl::Status CheckChips(const DomainSpec& spec) {
  if (spec.chips.empty() || spec.chips.size() > DomainSpec::kMaxRanks) {
    return TooMany(absl::StrCat("1 to ", DomainSpec::kMaxRanks, " chips"), DomainSpec::kMaxRanks,
                   spec.chips.size(), "chips");
  }
  for (size_t i = 0; i < spec.chips.size(); ++i) {
    for (size_t before = 0; before < i; ++before) {
      if (spec.chips[before] != spec.chips[i]) continue;
      return Error(reason::kFieldInvalid,
                   absl::StrCat(names::Chip(spec.chips[i]), " is rank ", before, " already"))
          .At(absl::StrCat("chips[", i, "]"))
          .With("chip", names::Chip(spec.chips[i]))
          .With("rank", before);
    }
  }
  return absl::OkStatus();
}

absl::Status CheckNames(const DomainSpec& spec) {
  if (spec.buffers.size() > DomainSpec::kMaxBuffers) {
    return TooMany(absl::StrCat("at most ", DomainSpec::kMaxBuffers, " buffers"),
                   DomainSpec::kMaxBuffers, spec.buffers.size(), "buffers");
  }
  absl::flat_hash_map<absl::string_view, size_t> seen;
  for (size_t i = 0; i < spec.buffers.size(); ++i) {
    const std::string& name = spec.buffers[i].name;
    const std::string field = absl::StrCat("buffers[", i, "].name");
    PTO_RETURN_IF_ERROR(names::CheckId(name, field));
    const auto [first, is_new] = seen.emplace(name, i);
    if (is_new) continue;
    return Error(reason::kFieldInvalid,
                 absl::StrCat("the name '", name, "' is that of buffers[", first->second, "] too"))
        .At(field)
        .With("first", first->second);
  }
  return absl::OkStatus();
}

absl::Status TooLarge(uint64_t max_bytes, uint64_t want, absl::string_view field) {
  return Error(reason::kBufferTooLarge,
               absl::StrCat("a window has at most ", max_bytes, " bytes, not ", want))
      .At(field)
      .Limit("max_buffer_bytes", max_bytes, 0, want);
}

uint64_t Aligned(uint64_t bytes) {
  return (bytes + DomainSpec::kAlignment - 1) / DomainSpec::kAlignment * DomainSpec::kAlignment;
}

// Where a buffer lies that has the first place from `begin` on. Completes its count and its bytes.
absl::StatusOr<engine::ByteRange> PlaceBuffer(WindowBufferSpec& buffer, const std::string& field,
                                              uint64_t begin, uint64_t max_bytes) {
  const uint64_t element = kernels::DtypeSize(buffer.dtype);
  if (element == 0) {
    return Error(reason::kFieldInvalid,
                 buffer.dtype == 0 ? std::string("a buffer needs an element type")
                                   : absl::StrCat("element type ", buffer.dtype, " is not known"))
        .At(absl::StrCat(field, ".dtype"))
        .With("have", buffer.dtype)
        .Hint("name one such as F32");
  }
  const bool counted = buffer.count != 0;
  if (!counted && buffer.bytes % element != 0) {
    return Error(reason::kFieldInvalid,
                 absl::StrCat(buffer.bytes, " bytes are no whole number of ",
                              kernels::DtypeName(buffer.dtype), " elements of ", element, " bytes"))
        .At(absl::StrCat(field, ".bytes"))
        .With("have", buffer.bytes)
        .With("want", absl::StrCat("a multiple of ", element));
  }
  const uint64_t count = counted ? buffer.count : buffer.bytes / element;
  if (begin > max_bytes || count > (max_bytes - begin) / element) {
    const uint64_t most = std::numeric_limits<uint64_t>::max();
    const uint64_t want = count > (most - begin) / element ? most  // at least
                                                           : begin + count * element;
    return TooLarge(max_bytes, want, absl::StrCat(field, counted ? ".count" : ".bytes"));
  }
  const uint64_t bytes = count * element;
  if (buffer.bytes != 0 && buffer.bytes != bytes) {
    return Error(reason::kFieldInvalid,
                 absl::StrCat(count, " ", kernels::DtypeName(buffer.dtype), " elements have ",
                              bytes, " bytes, not ", buffer.bytes))
        .At(absl::StrCat(field, ".bytes"))
        .With("have", buffer.bytes)
        .With("want", bytes)
        .Hint("leave out the count or the bytes");
  }
  buffer.count = count;
  buffer.bytes = bytes;
  return engine::ByteRange{begin, begin + bytes};
}

}  // namespace

absl::StatusOr<WindowLayout> PlanWindow(DomainSpec& spec, uint64_t max_bytes) {
  PTO_RETURN_IF_ERROR(CheckChips(spec));
  PTO_RETURN_IF_ERROR(CheckNames(spec));
  if (spec.signal_count > DomainSpec::kMaxSignals) {
    return TooMany(absl::StrCat("at most ", DomainSpec::kMaxSignals, " signals on a rank"),
                   DomainSpec::kMaxSignals, spec.signal_count, "signal_count");
  }
  if (spec.buffers.empty() && spec.signal_count == 0) {
    return Error(reason::kFieldInvalid, "a domain has a buffer or a signal").At("buffers");
  }
  WindowLayout layout;
  uint64_t end = 0;
  for (size_t i = 0; i < spec.buffers.size(); ++i) {
    PTO_ASSIGN_OR_RETURN(
        const engine::ByteRange place,
        PlaceBuffer(spec.buffers[i], absl::StrCat("buffers[", i, "]"), Aligned(end), max_bytes));
    end = place.end;
    layout.buffers.push_back(place);
  }
  const uint64_t signals = Aligned(end);
  layout.signals = {signals, signals + spec.signal_count * sizeof(int64_t)};
  if (spec.signal_count > 0) end = layout.signals.end;
  if (end > max_bytes) return TooLarge(max_bytes, end, "signal_count");
  if (spec.window_bytes > max_bytes) return TooLarge(max_bytes, spec.window_bytes, "window_bytes");
  if (spec.window_bytes != 0 && spec.window_bytes < end) {
    return Error(reason::kFieldInvalid,
                 absl::StrCat("the ", spec.buffers.size(), " buffers and ", spec.signal_count,
                              " signals need ", end, " bytes, but the window has ",
                              spec.window_bytes))
        .At("window_bytes")
        .With("have", spec.window_bytes)
        .With("want", end);
  }
  layout.bytes = spec.window_bytes != 0 ? spec.window_bytes : end;
  return layout;
}

}  // namespace pto::daemon
