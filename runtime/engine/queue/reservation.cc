#include "runtime/engine/queue/reservation.h"

#include <algorithm>
#include <bit>

namespace pto::engine {

bool Reservation::Collect(CoreMap& cores, const LongHolds& holds) {
  if (complete()) return true;
  if (kind_ == PTO_MIX) {
    CollectClusters(cores, holds);
    return complete();
  }
  while (!complete()) {
    const int32_t core = cores.Acquire(kind_);
    if (core < 0) return false;
    cores_.push_back(core);
  }
  return true;
}

void Reservation::CollectClusters(CoreMap& cores, const LongHolds& holds) {
  // Choose again each time: another cluster may be the better choice now.
  GiveBack(cores);
  for (int free = 3; free > 0; --free) {
    for (uint32_t c = 0; c < cores.clusters() && parts_.size() < blocks_; ++c) {
      if (std::popcount(cores.FreeParts(c)) != free || holds.HasPartOf(c)) continue;
      parts_.push_back({c, cores.TakeParts(c)});
    }
  }
  const bool all = parts_.size() == blocks_ &&
                   std::all_of(parts_.begin(), parts_.end(),
                               [](Parts p) { return p.parts == CoreMap::kWholeCluster; });
  if (!all) return;
  for (const Parts& whole : parts_) cores_.push_back(static_cast<int32_t>(whole.cluster));
  parts_.clear();
}

void Reservation::GiveBack(CoreMap& cores) {
  for (const int32_t core : cores_) cores.Release(kind_, core);
  cores_.clear();
  for (const Parts& taken : parts_) cores.ReturnParts(taken.cluster, taken.parts);
  parts_.clear();
}

uint32_t Reservation::held() const {
  uint32_t held = static_cast<uint32_t>(cores_.size()) * (kind_ == PTO_MIX ? 3 : 1);
  for (const Parts& taken : parts_) held += static_cast<uint32_t>(std::popcount(taken.parts));
  return held;
}

}  // namespace pto::engine
