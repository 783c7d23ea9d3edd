#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/types/optional.h"
#include "kernels/registry.h"
#include "runtime/base/mutex.h"
#include "runtime/engine/engine.h"
#include "runtime/graph/builder.h"

namespace pto::engine::testing {

// A task of a test graph, run by a function of the test.
struct TestTask {
  std::vector<uint32_t> after;
  uint32_t chip = 0;
  pto_core core = PTO_AIV;
  uint32_t block_num = 1;
  bool sync_start = false;
  std::vector<uint32_t> members = {};  // chips, in place of `chip`
  uint32_t vector_kernels = 0;         // how many lanes beside that of the cube core
  uint32_t phases = 0;                 // 0: a kernel without a plan
  int64_t phase_bytes = 0;
  // Of its plan, as in pto_plan.
  int64_t plan_calls = 0;
  bool plan_fixed = false;
  // What the body gets as the task's index; none: the index.
  absl::optional<int64_t> number = {};
};

// Runs in place of a kernel; gets the index of the task and the kernel's own context. Returns
// what the kernel returns.
using KernelBody = std::function<int32_t(uint32_t task, const pto_context& context)>;

// A graph of tasks that all call `body`, for a node with `chip_clusters`. The task's index
// reaches the kernel as its scalar. Only one body is in place at a time: a later call
// replaces it.
std::shared_ptr<const GraphImage> MakeTestGraph(const std::vector<TestTask>& tasks,
                                                const std::vector<uint32_t>& chip_clusters,
                                                KernelBody body);

// How much workspace the kernels with phases of such graphs want from now on; 64 bytes at first.
void UseWorkspace(uint64_t bytes);

// How often the kernels of such graphs were asked for a plan, ever.
uint64_t PlansMade();

std::vector<std::shared_ptr<Chip>> MakeTestChips(const std::vector<uint32_t>& chip_clusters);

// How many cores of a chip stay busy when its runs have ended. Whoever did not make the last call
// of a run gives its core back a moment later, which this waits for, though not for ever.
uint32_t CoresLeftBusy(const Engine& engine, uint32_t chip);

// Records the calls of an observer, and lets a test wait for the end.
class TestObserver final : public RunObserver {
 public:
  std::string name() const override { return "test"; }
  void OnStarted(Run&) override { ++started; }
  void OnRecords(Run& run, size_t waiting) override;
  void OnFinished(Run& run, Completions& completions) override;

  void WaitFinished();
  // All records so far, in order.
  std::vector<TaskRecord> records();

  std::atomic<int> started{0};
  std::atomic<int> finished{0};

 private:
  Mutex mutex_;
  CondVar ended_;
  std::vector<TaskRecord> records_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace pto::engine::testing
