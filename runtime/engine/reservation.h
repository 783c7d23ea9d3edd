#pragma once

#include <cstdint>
#include <vector>

#include "kernels/pto_kernel.h"
#include "runtime/chip/core_map.h"

namespace pto {

class Run;

// The cores of one chip that a gang has got hold of so far, and what it needs them for. Clusters
// are collected in parts: those of which most is free already, so that as little as possible of
// the chip stands idle meanwhile. Not thread-safe: guarded by the lock of the chip's ReadyQueue.
class Reservation {
 public:
  Reservation(Run& run, uint32_t task, uint32_t member, pto_core kind, uint32_t blocks)
      : run_(&run), task_(task), member_(member), kind_(kind), blocks_(blocks) {}

  Run& run() const { return *run_; }
  uint32_t task() const { return task_; }
  uint32_t member() const { return member_; }
  pto_core kind() const { return kind_; }
  uint32_t blocks() const { return blocks_; }

  // Takes what it needs and is free. Returns whether it has all.
  bool Collect(CoreMap& cores);
  // Gives all back.
  void GiveBack(CoreMap& cores);

  bool complete() const { return cores_.size() == blocks_; }
  // A core or a cluster for each block. All there only when it is complete.
  const std::vector<int32_t>& cores() const { return cores_; }
  // How many single cores it keeps from others.
  uint32_t held() const;

 private:
  struct Parts {
    uint32_t cluster = 0;
    uint32_t parts = 0;
  };
  void CollectClusters(CoreMap& cores);

  Run* run_;
  uint32_t task_;
  uint32_t member_;
  pto_core kind_;
  uint32_t blocks_;
  std::vector<int32_t> cores_;
  std::vector<Parts> parts_;  // of clusters; none once it is complete
};

}  // namespace pto
