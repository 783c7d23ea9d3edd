#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "daemon/model/histogram.h"

namespace pto::daemon::metrics {

// Statistics of the runs of this process, for scrapes. Each thread adds to its own part with
// relaxed additions, so launches are not slowed down. Thread-safe.
class RunStats {
 public:
  // Numbers of RunState.
  static constexpr size_t kStates = 7;

  struct Totals {
    std::array<uint64_t, kStates> ended = {};
    uint64_t tasks_failed = 0;
    uint64_t tasks_skipped = 0;
    Histogram::Snapshot queue;
    Histogram::Snapshot run;
    Histogram::Snapshot dispatch;
  };

  // There is one daemon in a process.
  static RunStats& Process() {
    static RunStats stats;
    return stats;
  }

  // A run has ended; one that never started has a `run_ns` of 0.
  void OnEnded(size_t state, int64_t queue_ns, int64_t run_ns, uint64_t tasks_failed,
               uint64_t tasks_skipped) {
    Part& part = Own();
    part.ended[state < kStates ? state : 0].fetch_add(1, std::memory_order_relaxed);
    if (run_ns > 0) {
      part.queue.Observe(queue_ns);
      part.run.Observe(run_ns);
    }
    if (tasks_failed > 0) part.tasks_failed.fetch_add(tasks_failed, std::memory_order_relaxed);
    if (tasks_skipped > 0) part.tasks_skipped.fetch_add(tasks_skipped, std::memory_order_relaxed);
  }

  // From a run's turn to the start of its first task.
  void OnDispatched(int64_t ns) { Own().dispatch.Observe(ns); }

  Totals Look() const {
    Totals totals;
    for (const Part& part : parts_) {
      for (size_t i = 0; i < kStates; ++i) {
        totals.ended[i] += part.ended[i].load(std::memory_order_relaxed);
      }
      totals.tasks_failed += part.tasks_failed.load(std::memory_order_relaxed);
      totals.tasks_skipped += part.tasks_skipped.load(std::memory_order_relaxed);
      totals.queue.Add(part.queue.Look());
      totals.run.Add(part.run.Look());
      totals.dispatch.Add(part.dispatch.Look());
    }
    return totals;
  }

 private:
  struct alignas(64) Part {
    std::array<std::atomic<uint64_t>, kStates> ended = {};
    std::atomic<uint64_t> tasks_failed{0};
    std::atomic<uint64_t> tasks_skipped{0};
    Histogram queue;
    Histogram run;
    Histogram dispatch;
  };

  Part& Own() {
    static std::atomic<size_t> next{0};
    thread_local const size_t own = next.fetch_add(1, std::memory_order_relaxed) % kParts;
    return parts_[own];
  }

  // As many as threads that end runs on most machines; more share them.
  static constexpr size_t kParts = 16;
  std::array<Part, kParts> parts_;
};

}  // namespace pto::daemon::metrics
