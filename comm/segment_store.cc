#include "comm/segment_store.h"

#include "absl/strings/str_cat.h"
#include "comm/job_layout.h"
#include "comm/status.h"

namespace pto::comm {

absl::Status CheckPrefix(absl::string_view name, const Segment& segment, SegmentPrefix::Kind kind,
                         size_t at_least) {
  if (segment.size() < at_least) {
    return SystemError(absl::StrCat("segment '", name, "' has ", segment.size(),
                                    " bytes, fewer than the ", at_least, " of its header"));
  }
  const auto* prefix = reinterpret_cast<const SegmentPrefix*>(segment.data());
  if (prefix->magic != SegmentPrefix::kMagic) {
    return SystemError(absl::StrCat("segment '", name, "' is not one of ptod"));
  }
  if (prefix->version != SegmentPrefix::kVersion) {
    return Mismatch(absl::StrCat("segment '", name, "' has version ", prefix->version,
                                 "; this program speaks version ", SegmentPrefix::kVersion));
  }
  if (prefix->kind != kind || prefix->bytes != segment.size()) {
    return SystemError(absl::StrCat("segment '", name, "' is of kind ", prefix->kind, " with ",
                                    prefix->bytes, " bytes; expected kind ", uint32_t{kind},
                                    " with ", segment.size()));
  }
  return absl::OkStatus();
}

bool IsAbandoned(const Segment& segment, const SegmentStore& store) {
  if (segment.size() < sizeof(SegmentPrefix)) return false;
  const auto* prefix = reinterpret_cast<const SegmentPrefix*>(segment.data());
  if (prefix->magic != SegmentPrefix::kMagic || prefix->version != SegmentPrefix::kVersion) {
    return false;  // not ours to judge
  }
  if (prefix->kind == SegmentPrefix::kWindow) return !store.Alive(prefix->creator);
  if (prefix->kind != SegmentPrefix::kJob || segment.size() < sizeof(JobLayout)) return false;
  const auto* job = reinterpret_cast<const JobLayout*>(segment.data());
  if (job->size > PTO_COMM_MAX_RANKS || job->creator_rank >= job->size) return false;
  const uint32_t present = job->present.load();
  if ((present & JobLayout::kClosed) != 0) return true;
  // Who made it comes in a moment later.
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
