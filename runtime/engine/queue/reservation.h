#pragma once

#include <cstdint>
#include <vector>

#include "kernels/pto_kernel.h"
#include "runtime/chip/core_map.h"
#include "runtime/engine/queue/long_holds.h"

namespace pto::engine {

class Run;

// The cores of one chip that a gang has collected so far, and what it needs. Clusters are collected
// in parts, those with the most free cores first, so that few cores are idle meanwhile. Not
// thread-safe: guarded by the lock of the chip's ReadyQueue.
class Reservation {
 public:
  // `members`: the number of chips of the gang. It has one reservation on each.
  Reservation(Run& run, uint32_t task, uint32_t member, uint32_t members, pto_core kind,
              uint32_t blocks)
      : run_(&run), task_(task), member_(member), members_(members), kind_(kind), blocks_(blocks) {}

  Run& run() const { return *run_; }
  uint32_t task() const { return task_; }
  uint32_t member() const { return member_; }
  uint32_t members() const { return members_; }
  pto_core kind() const { return kind_; }
  uint32_t blocks() const { return blocks_; }

  // Takes free cores that it needs; no clusters with long holds. Returns whether it has all now.
  bool Collect(CoreMap& cores, const LongHolds& holds);
  // Releases all its cores.
  void GiveBack(CoreMap& cores);

  bool complete() const { return cores_.size() == blocks_; }
  // A core or a cluster for each block. Clusters are listed only once it is complete.
  const std::vector<int32_t>& cores() const { return cores_; }
  // The number of single cores that it holds.
  uint32_t held() const;
  // The first cluster that it has parts of; -1: none.
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
  std::vector<Parts> parts_;  // of clusters; empty once complete
};

}  // namespace pto::engine
