#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "runtime/base/mutex.h"
#include "runtime/engine/run/block_ticket.h"
#include "runtime/engine/run/run.h"

namespace pto::engine::testing {

// Records when the blocks of runs are placed and started, and checks that
// - no block of a gang starts before all of its gang were placed,
// - no core has two blocks at a time (told by the test's kernel),
// - while tasks wait that are no gangs, one of them is placed between two gangs of their chip.
// Runs must be of one class, and all their tasks ready at once. Thread-safe.
class GangRecorder final : public PlacementTrace {
 public:
  explicit GangRecorder(const std::vector<uint32_t>& chip_clusters);

  // Before a run starts.
  void Expect(const Run& run);
  // When all its tasks are in the queues, but those that were handed out.
  void Queued(const Run& run);
  // After a run has ended. A cancelled run need not have started all.
  void Check(const Run& run, bool all_started);

  // A kernel begins or ends, on a core or with all cores of a cluster.
  void Enter(const pto_context& context, bool whole_cluster) {
    Occupy(context, whole_cluster, true);
  }
  void Leave(const pto_context& context, bool whole_cluster) {
    Occupy(context, whole_cluster, false);
  }

  void OnPlaced(const BlockTicket& ticket) override;
  void OnStart(const BlockTicket& ticket) override;

  // What was wrong; empty when nothing was.
  std::string complaint();
  uint64_t gangs();
  // Gangs that were placed on one chip one after the other while other tasks waited there.
  uint32_t longest_wait();

 private:
  // Times are numbers of events.
  struct TaskTrace {
    uint64_t placed = 0;
    uint64_t last_placed = 0;
    uint64_t first_start = 0;
    uint64_t starts = 0;
  };
  struct ChipTrace {
    uint32_t clusters = 0;
    std::array<int64_t, 3> waiting = {};  // blocks, by kind
    std::array<uint32_t, 3> gangs_since = {};
    std::vector<bool> busy;
  };

  void Complain(std::string what) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Occupy(const pto_context& context, bool whole_cluster, bool busy);

  Mutex mutex_;
  uint64_t now_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::flat_hash_map<const Run*, std::vector<TaskTrace>> runs_ ABSL_GUARDED_BY(mutex_);
  std::vector<ChipTrace> chips_ ABSL_GUARDED_BY(mutex_);
  std::string complaint_ ABSL_GUARDED_BY(mutex_);
  uint64_t gangs_ ABSL_GUARDED_BY(mutex_) = 0;
  uint32_t longest_wait_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace pto::engine::testing
