#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "absl/container/fixed_array.h"
#include "kernels/pto_kernel.h"
#include "runtime/engine/run/flow.h"
#include "runtime/engine/run/task_counters.h"
#include "runtime/graph/image.h"

namespace pto::engine {

// The progress of a run's tasks: what each waits for, and which are ready. Each part says who may
// change it.
class RunTasks {
 public:
  // A task's counter first counts the dependencies that have ended (MetDependencies), then the
  // remaining calls and conditions; for a plain task of one call, the latter only if it has
  // conditions. The highest bit then means that one of them has failed.
  static constexpr uint32_t kFailedBit = 1u << 31;

  // The image must outlive this object.
  RunTasks(const GraphImage& image, Run& run)
      : image_(image),
        counters_(image.task_count()),
        next_ready_(image.task_count()),
        flows_(image.chips().size() * 3) {
    if (image.has_multi_block_tasks()) {
      block_starts_ = std::make_unique<std::atomic<int64_t>[]>(image.task_count());
    }
    for (Flow& flow : flows_) flow.run = &run;
  }

  std::atomic<uint32_t>& counter(uint32_t task) { return counters_[task]; }
  std::atomic<uint32_t>* counters() { return counters_.data(); }
  MetDependencies met(uint32_t task) {
    return MetDependencies(counters_[task], image_.tasks()[task].dependencies);
  }

  // When the first block of a task started; 0: not yet. Only for graphs with tasks of several
  // blocks.
  bool has_block_starts() const { return block_starts_ != nullptr; }
  int64_t block_start_ns(uint32_t task) const {
    return block_starts_[task].load(std::memory_order_relaxed);
  }
  void StartBlock(uint32_t task, int64_t now_ns) {
    int64_t none = 0;
    block_starts_[task].compare_exchange_strong(none, now_ns, std::memory_order_relaxed);
  }

  // The ready tasks for one kind of core of one chip, and the links of their lists. Guarded by the
  // lock of the chip's ReadyQueue.
  Flow& flow(uint32_t chip, pto_core kind) {
    return flows_[image_.place_of_chip(chip) * 3 + static_cast<uint32_t>(kind) - 1];
  }
  ReadyLink& next_ready(uint32_t task) { return next_ready_[task]; }

  // The number of gangs that wait for their cores.
  std::atomic<int64_t>& gangs_waiting() { return gangs_waiting_; }

 private:
  const GraphImage& image_;
  TaskCounters counters_;
  std::unique_ptr<std::atomic<int64_t>[]> block_starts_;
  // A few tasks need no allocation.
  absl::FixedArray<ReadyLink, 4> next_ready_;
  // Three for each chip of the image, in the image's order.
  absl::FixedArray<Flow, 3> flows_;
  std::atomic<int64_t> gangs_waiting_{0};
};

}  // namespace pto::engine
