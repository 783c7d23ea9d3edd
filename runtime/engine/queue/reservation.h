#pragma once

#include <cstdint>
#include <vector>

#include "kernels/pto_kernel.h"
#include "runtime/chip/core_map.h"
#include "runtime/engine/queue/long_holds.h"

namespace pto {

class Run;

// The cores of one chip that a gang has collected so far, and what it needs them for. Clusters are
// collected in parts: those of which most is free already, so that as few cores as possible stand
// idle meanwhile. Not thread-safe: guarded by the lock of the chip's ReadyQueue.
class Reservation {
 public:
  // `members`: how many chips the gang has, with a reservation on each.
  Reservation(Run& run, uint32_t task, uint32_t member, uint32_t members, pto_core kind,
              uint32_t blocks)
      : run_(&run), task_(task), member_(member), members_(members), kind_(kind), blocks_(blocks) {}

  Run& run() const { return *run_; }
  uint32_t task() const { return task_; }
  uint32_t member() const { return member_; }
  uint32_t members() const { return members_; }
  pto_core kind() const { return kind_; }
  uint32_t blocks() const { return blocks_; }

  // Takes what it needs and is free, but of clusters only those that have no long hold. Returns
  // whether it has all.
  bool Collect(CoreMap& cores, const LongHolds& holds);
  // Gives all back.
  void GiveBack(CoreMap& cores);

  bool complete() const { return cores_.size() == blocks_; }
  // A core or a cluster for each block. All there only when it is complete.
  const std::vector<int32_t>& cores() const { return cores_; }
  // How many single cores it keeps from others.
  uint32_t held() const;
  // The cluster that it has parts of, of one for a single block; -1 when it has none.
  int32_t first_cluster() const {
    return parts_.empty() ? -1 : static_cast<int32_t>(parts_[0].cluster);
  }

 private:
  struct Parts {
    uint32_t cluster = 0;
    uint32_t parts = 0;
  };
  void CollectClusters(CoreMap& cores, const LongHolds& holds);

  Run* run_;
  uint32_t task_;
  uint32_t member_;
  uint32_t members_;
  pto_core kind_;
  uint32_t blocks_;
  std::vector<int32_t> cores_;
  std::vector<Parts> parts_;  // of clusters; none once it is complete
};

}  // namespace pto
