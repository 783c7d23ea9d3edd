#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/mutex.h"
#include "runtime/engine/block_ticket.h"
#include "runtime/engine/run.h"

namespace pto::testing {

// Records when the blocks of runs are placed and started, and checks that
// - no block of a gang starts before all of its gang were placed,
// - no core has two blocks at a time (told by the test's kernel),
// - while tasks wait that are no gangs, one of them is placed between two gangs of their chip.
// Runs must be of one class, and all their tasks ready at once. Thread-safe.
class GangRecorder final : public PlacementTrace {
 public:
  explicit GangRecorder(const std::vector<uint32_t>& chip_clusters) : chips_(chip_clusters.size()) {
    for (size_t i = 0; i < chips_.size(); ++i) {
      chips_[i].clusters = chip_clusters[i];
      chips_[i].busy.resize(3 * size_t{chip_clusters[i]});
    }
  }

  // Before a run starts.
  void Expect(const Run& run) {
    MutexLock lock(mutex_);
    runs_[&run].resize(run.image().task_count());
  }
  // When all its tasks are in the queues, but those that were handed out.
  void Queued(const Run& run) {
    MutexLock lock(mutex_);
    for (uint32_t task = 0; task < run.image().task_count(); ++task) {
      const ImageTask& spec = run.image().tasks()[task];
      if ((spec.traits & kTaskGang) == 0) Waiting(chips_[spec.chip], spec.core) += spec.block_num;
    }
  }
  // After a run has ended. A cancelled run need not have started all.
  void Check(const Run& run, bool all_started) {
    MutexLock lock(mutex_);
    const std::vector<TaskTrace>& traces = runs_[&run];
    for (uint32_t task = 0; task < traces.size(); ++task) {
      const TaskTrace& trace = traces[task];
      const bool gang = (run.image().tasks()[task].traits & kTaskGang) != 0;
      if (gang) ++gangs_;
      if (all_started && trace.starts != run.image().calls(task)) {
        Complain(absl::StrCat("task ", task, " had ", trace.starts, " starts"));
      }
      if (!gang || trace.starts == 0) continue;
      if (trace.placed != run.image().blocks(task)) {
        Complain(absl::StrCat("gang ", task, " had ", trace.placed, " blocks placed"));
      }
      if (trace.first_start < trace.last_placed) {
        Complain(absl::StrCat("gang ", task, " started at ", trace.first_start, ", placed at ",
                              trace.last_placed));
      }
    }
    runs_.erase(&run);
  }

  // A kernel begins or ends, on a core or with all cores of a cluster.
  void Enter(const pto_context& context, bool whole_cluster) {
    Occupy(context, whole_cluster, true);
  }
  void Leave(const pto_context& context, bool whole_cluster) {
    Occupy(context, whole_cluster, false);
  }

  void OnPlaced(const BlockTicket& ticket) override {
    MutexLock lock(mutex_);
    TaskTrace& trace = runs_[ticket.run][ticket.task];
    trace.placed += ticket.block_end - ticket.block;
    trace.last_placed = ++now_;
    ChipTrace& chip = chips_[ticket.chip];
    if ((ticket.run->image().tasks()[ticket.task].traits & kTaskGang) == 0) {
      Waiting(chip, ticket.kind) -= ticket.block_end - ticket.block;
      chip.gangs_since[ticket.kind - 1] = 0;
      // Clusters wait until enough single cores are free at the same time.
      chip.gangs_since[PTO_MIX - 1] = 0;
    } else if (ticket.block == 0) {
      for (const pto_core kind : {PTO_AIC, PTO_AIV, PTO_MIX}) {
        if (kind != ticket.kind && kind != PTO_MIX && ticket.kind != PTO_MIX) continue;
        uint32_t& since = chip.gangs_since[kind - 1];
        since = Waiting(chip, kind) > 0 ? since + 1 : 0;
        longest_wait_ = std::max(longest_wait_, since);
      }
    }
  }
  void OnStart(const BlockTicket& ticket) override {
    MutexLock lock(mutex_);
    TaskTrace& trace = runs_[ticket.run][ticket.task];
    ++now_;
    if (trace.starts == 0) trace.first_start = now_;
    trace.starts += 1;
  }

  // What was wrong; empty when nothing was.
  std::string complaint() {
    MutexLock lock(mutex_);
    return complaint_;
  }
  uint64_t gangs() {
    MutexLock lock(mutex_);
    return gangs_;
  }
  // Gangs that were placed on one chip one after the other while other tasks waited there.
  uint32_t longest_wait() {
    MutexLock lock(mutex_);
    return longest_wait_;
  }

 private:
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

  static int64_t& Waiting(ChipTrace& chip, uint32_t kind) { return chip.waiting[kind - 1]; }
  void Complain(std::string what) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (complaint_.empty()) complaint_ = std::move(what);
  }
  void Occupy(const pto_context& context, bool whole_cluster, bool busy) {
    MutexLock lock(mutex_);
    ChipTrace& chip = chips_[context.chip];
    std::vector<uint32_t> cores = {context.core};
    if (whole_cluster) {
      cores.push_back(chip.clusters + 2 * context.core);
      cores.push_back(chip.clusters + 2 * context.core + 1);
    }
    for (const uint32_t core : cores) {
      if (chip.busy[core] == busy) Complain(absl::StrCat("core ", core, " has two blocks"));
      chip.busy[core] = busy;
    }
  }

  Mutex mutex_;
  uint64_t now_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::flat_hash_map<const Run*, std::vector<TaskTrace>> runs_ ABSL_GUARDED_BY(mutex_);
  std::vector<ChipTrace> chips_ ABSL_GUARDED_BY(mutex_);
  std::string complaint_ ABSL_GUARDED_BY(mutex_);
  uint64_t gangs_ ABSL_GUARDED_BY(mutex_) = 0;
  uint32_t longest_wait_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace pto::testing
