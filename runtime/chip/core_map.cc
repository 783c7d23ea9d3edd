#include "runtime/chip/core_map.h"

#include <bit>

namespace pto::engine {

CoreMap::CoreMap(uint32_t clusters)
    : clusters_(clusters),
      busy_(3 * clusters),
      free_aic_(clusters),
      free_aiv_(2 * clusters),
      free_clusters_(clusters) {
  for (uint32_t c = 0; c < clusters; ++c) ReturnParts(c, kWholeCluster);
}

void CoreMap::UpdateCluster(uint32_t cluster) {
  if (free_aic_.Has(cluster) && free_aiv_.Has(2 * cluster) && free_aiv_.Has(2 * cluster + 1)) {
    free_clusters_.Add(cluster);
  } else {
    free_clusters_.Remove(cluster);
  }
}

int32_t CoreMap::Acquire(pto_core kind) {
  if (kind == PTO_AIV) {
    const int32_t aiv = free_aiv_.First();
    if (aiv < 0) return -1;
    free_aiv_.Remove(static_cast<uint32_t>(aiv));
    UpdateCluster(static_cast<uint32_t>(aiv) / 2);
    busy_ += 1;
    return static_cast<int32_t>(clusters_) + aiv;
  }
  const int32_t cluster = kind == PTO_MIX ? free_clusters_.First() : free_aic_.First();
  if (cluster < 0) return -1;
  const auto c = static_cast<uint32_t>(cluster);
  free_aic_.Remove(c);
  free_clusters_.Remove(c);
  busy_ += 1;
  if (kind == PTO_MIX) {
    free_aiv_.Remove(2 * c);
    free_aiv_.Remove(2 * c + 1);
    busy_ += 2;
  }
  return cluster;
}

uint32_t CoreMap::TakeParts(uint32_t cluster) {
  const uint32_t parts = FreeParts(cluster);
  if ((parts & 1) != 0) free_aic_.Remove(cluster);
  if ((parts & 2) != 0) free_aiv_.Remove(2 * cluster);
  if ((parts & 4) != 0) free_aiv_.Remove(2 * cluster + 1);
  free_clusters_.Remove(cluster);
  busy_ += static_cast<uint32_t>(std::popcount(parts));
  return parts;
}

void CoreMap::ReturnParts(uint32_t cluster, uint32_t parts) {
  if ((parts & 1) != 0) free_aic_.Add(cluster);
  if ((parts & 2) != 0) free_aiv_.Add(2 * cluster);
  if ((parts & 4) != 0) free_aiv_.Add(2 * cluster + 1);
  busy_ -= static_cast<uint32_t>(std::popcount(parts));
  UpdateCluster(cluster);
}

void CoreMap::Release(pto_core kind, int32_t core) {
  if (kind == PTO_AIV) {
    const uint32_t aiv = static_cast<uint32_t>(core) - clusters_;
    free_aiv_.Add(aiv);
    UpdateCluster(aiv / 2);
    busy_ -= 1;
    return;
  }
  const auto c = static_cast<uint32_t>(core);
  free_aic_.Add(c);
  busy_ -= 1;
  if (kind == PTO_MIX) {
    free_aiv_.Add(2 * c);
    free_aiv_.Add(2 * c + 1);
    busy_ -= 2;
  }
  UpdateCluster(c);
}

}  // namespace pto::engine
