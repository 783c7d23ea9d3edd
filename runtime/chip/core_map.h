#pragma once

#include <cstdint>

#include "kernels/pto_kernel.h"
#include "runtime/chip/core_set.h"

namespace pto::engine {

// The free cores of a chip. A chip has n clusters; cluster c consists of cube core c and vector
// cores n + 2c and n + 2c + 1. Not thread-safe: the owner locks.
class CoreMap {
 public:
  explicit CoreMap(uint32_t clusters);

  // Takes a core, or a whole cluster for PTO_MIX, and returns its number (for a cluster, that of
  // its cube core). Returns -1 if none is free.
  int32_t Acquire(pto_core kind);
  // Whether Acquire would succeed.
  bool HasFree(pto_core kind) const {
    return !(kind == PTO_MIX ? free_clusters_ : kind == PTO_AIV ? free_aiv_ : free_aic_).empty();
  }
  void Release(pto_core kind, int32_t core);

  // The cores of a cluster as bits: its cube core and its two vector cores.
  static constexpr uint32_t kWholeCluster = 7;
  // The free cores of a cluster.
  uint32_t FreeParts(uint32_t cluster) const {
    return (free_aic_.Has(cluster) ? 1u : 0u) | (free_aiv_.Has(2 * cluster) ? 2u : 0u) |
           (free_aiv_.Has(2 * cluster + 1) ? 4u : 0u);
  }
  // Takes the free cores of a cluster, in order to own all of it eventually. Returns them as bits.
  // A completely taken cluster is like one from Acquire(PTO_MIX).
  uint32_t TakeParts(uint32_t cluster);
  void ReturnParts(uint32_t cluster, uint32_t parts);

  uint32_t clusters() const { return clusters_; }
  uint32_t busy() const { return busy_; }

  // The total number of cores of a kind.
  uint32_t Capacity(pto_core kind) const { return kind == PTO_AIV ? 2 * clusters_ : clusters_; }

 private:
  void UpdateCluster(uint32_t cluster);

  const uint32_t clusters_;
  uint32_t busy_;
  CoreSet free_aic_;
  CoreSet free_aiv_;
  CoreSet free_clusters_;  // all three cores free
};

}  // namespace pto::engine
