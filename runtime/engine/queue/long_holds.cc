#include "runtime/engine/queue/long_holds.h"

#include <algorithm>

namespace pto::engine {
namespace {

constexpr int64_t kPatienceFactor = 4;

}  // namespace

LongHolds::Parts LongHolds::PartsOf(pto_core kind, uint32_t core) const {
  if (kind != PTO_MIX) return {{core, 0, 0}, 1};
  const uint32_t vector = clusters_ + 2 * core;
  return {{core, vector, vector + 1}, 3};
}

void LongHolds::BeginWatch(int64_t now_ns) {
  if (!active()) std::fill(taken_ns_.begin(), taken_ns_.end(), now_ns);
  ++watches_;
}

void LongHolds::NoteOld() {
  for (uint32_t core = 0; core < views_.size(); ++core) {
    if (IsHeld(core)) {
      old_.Add(core);
    } else {
      old_.Remove(core);
    }
  }
}

void LongHolds::Mark(uint32_t core) {
  const auto kind = static_cast<pto_core>(views_[core].kind.load(std::memory_order_relaxed));
  const Parts parts = PartsOf(kind, core);
  for (uint32_t i = 0; i < parts.count; ++i) {
    if (long_.Has(parts.core[i])) continue;
    long_.Add(parts.core[i]);
    ++long_count_;
  }
}

void LongHolds::MarkWaiting() {
  for (uint32_t core = 0; core < views_.size(); ++core) {
    if (old_.Has(core) && views_[core].waits()) Mark(core);
  }
}

void LongHolds::MarkAll() {
  for (uint32_t core = 0; core < views_.size(); ++core) {
    if (old_.Has(core)) Mark(core);
  }
}

void LongHolds::MarkCluster(uint32_t cluster) {
  const Parts parts = PartsOf(PTO_MIX, cluster);
  for (uint32_t i = 0; i < parts.count; ++i) {
    if (IsHeld(parts.core[i])) Mark(parts.core[i]);
  }
}

bool LongHolds::OnRelease(pto_core kind, int32_t core, int64_t now_ns) {
  const auto c = static_cast<uint32_t>(core);
  old_.Remove(c);
  const Parts parts = PartsOf(kind, c);
  bool was_long = false;
  for (uint32_t i = 0; i < parts.count && long_count_ > 0; ++i) {
    if (!long_.Has(parts.core[i])) continue;
    long_.Remove(parts.core[i]);
    --long_count_;
    was_long = true;
  }
  // Blocks that were long holds or have waited do not show how long other blocks take.
  if (!was_long && !views_[c].waited()) {
    longest_ns_ = std::max(longest_ns_, now_ns - taken_ns_[c]);
  }
  return was_long;
}

bool LongHolds::HasPartOf(uint32_t cluster) const {
  if (long_count_ == 0) return false;
  const Parts parts = PartsOf(PTO_MIX, cluster);
  return std::any_of(parts.core, parts.core + parts.count,
                     [this](uint32_t core) { return long_.Has(core); });
}

bool LongHolds::WaitsIn(uint32_t cluster) const {
  const Parts parts = PartsOf(PTO_MIX, cluster);
  return std::any_of(parts.core, parts.core + parts.count,
                     [this](uint32_t core) { return IsHeld(core) && views_[core].waits(); });
}

bool LongHolds::LeavesRoomFor(pto_core kind, uint32_t blocks) const {
  if (long_count_ == 0) return true;
  uint32_t left = 0;
  if (kind == PTO_MIX) {
    for (uint32_t cluster = 0; cluster < clusters_; ++cluster) left += HasPartOf(cluster) ? 0 : 1;
    return left >= blocks;
  }
  const uint32_t begin = kind == PTO_AIV ? clusters_ : 0;
  const uint32_t end = kind == PTO_AIV ? 3 * clusters_ : clusters_;
  for (uint32_t core = begin; core < end; ++core) left += long_.Has(core) ? 0 : 1;
  return left >= blocks;
}

int64_t LongHolds::patience_ns() const {
  return std::max(kLeastPatienceNs, kPatienceFactor * longest_ns_);
}

}  // namespace pto::engine
