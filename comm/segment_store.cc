#include "comm/segment_store.h"

#include "absl/strings/str_cat.h"
#include "comm/job_layout.h"
#include "comm/status.h"

namespace pto::comm {

absl::Status CheckHead(absl::string_view name, size_t size, size_t head) {
  if (size >= head) return absl::OkStatus();
  return SystemError(absl::StrCat("segment '", name, "' has ", size, " bytes, fewer than the ",
                                  head, " of its head"));
}

absl::Status CheckPrefix(absl::string_view name, const SegmentPrefix& prefix, size_t size,
                         SegmentPrefix::Kind kind, size_t expected) {
  if (prefix.magic != SegmentPrefix::kMagic) {
    return SystemError(absl::StrCat("segment '", name, "' is not a segment of ptod"));
  }
  if (prefix.version != SegmentPrefix::kVersion) {
    return Mismatch(absl::StrCat("segment '", name, "' has version ", prefix.version,
                                 "; this program speaks version ", SegmentPrefix::kVersion));
  }
  if (prefix.kind != kind) {
    return SystemError(absl::StrCat("segment '", name, "' is of kind ", prefix.kind,
                                    "; expected kind ", uint32_t{kind}));
  }
  if (prefix.bytes != size) {
    return SystemError(
        absl::StrCat("segment '", name, "' has ", size, " bytes; it was made with ", prefix.bytes));
  }
  if (size != expected) {
    return SystemError(
        absl::StrCat("segment '", name, "' has ", size, " bytes; expected ", expected));
  }
  return absl::OkStatus();
}

absl::Status CheckAnyPrefix(absl::string_view name, const SegmentPrefix& prefix, size_t size) {
  // The length of a window depends on more than its prefix.
  return prefix.kind == SegmentPrefix::kJob
             ? CheckPrefix(name, prefix, size, SegmentPrefix::kJob, sizeof(JobLayout))
             : CheckPrefix(name, prefix, size, SegmentPrefix::kWindow, size);
}

bool IsAbandoned(const Segment& segment, const SegmentStore& store) {
  const auto* prefix = reinterpret_cast<const SegmentPrefix*>(segment.data());
  if (prefix->kind == SegmentPrefix::kWindow) return !store.Alive(prefix->creator);
  const auto* job = reinterpret_cast<const JobLayout*>(segment.data());
  if (job->size > PTO_COMM_MAX_RANKS || job->creator_rank >= job->size) return false;
  const uint32_t present = job->present.load();
  if ((present & JobLayout::kClosed) != 0) return true;
  // The creator joins shortly after it has published the segment.
  if (present == 0 && store.Alive(prefix->creator)) return false;
  for (uint32_t rank = 0; rank < job->size; ++rank) {
    const RankSlot& slot = job->slots[rank];
    const uint64_t identity = slot.identity.load();
    if (identity == 0 || slot.state.load() == RankSlot::kLeft) continue;
    if (store.Alive(identity)) return false;
  }
  return true;
}

}  // namespace pto::comm
