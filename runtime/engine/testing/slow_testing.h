#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/types/optional.h"
#include "runtime/base/clock.h"
#include "runtime/base/timer.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/testing/engine_testing.h"

namespace pto::engine::testing {

// "plain", "silent", "waits" and "blocks", which call a body, and those of kernels/control.cc and
// kernels/testing.cc. Each body kernel takes a tensor of words, and as scalars the task's number
// and the body's address. All of them but "silent" may notify.
const KernelRegistry& SlowKernels();

// A task of a test graph whose tasks wait, notify, copy and so on.
struct SlowTask {
  // "plain", "silent", "holds", "waits", "blocks" and those of AddLane call the body; the others
  // are those of kernels/control.cc, and hold and defer of kernels/testing.cc.
  std::string kernel = "plain";
  std::vector<uint32_t> after = {};
  // Of control tasks.
  uint32_t word = 0;
  std::vector<int64_t> scalars = {};
  int64_t from = 0;  // of copies: words `from` to `from + count` go to `to` and on
  int64_t to = 0;
  int64_t count = 1;
  // Of the others.
  uint32_t chip = 0;
  std::vector<uint32_t> members = {};            // chips, in place of `chip`
  std::vector<std::string> vector_kernels = {};  // beside `kernel`, in a cluster
  uint32_t block_num = 1;
  bool together = false;
  int64_t timeout_ns = 0;
  // Runs only if that word compares so with that value.
  struct Predicate {
    uint32_t word = 0;
    pto_compare compare = PTO_EQ;
    int64_t value = 0;
  };
  absl::optional<Predicate> predicate = {};
};

// An engine, and 64 words of memory that its tasks use as signals and data.
class SlowEngine {
 public:
  static constexpr uint32_t kWords = 64;

  // Without executors its clock is `clock`, which stands still. With a patience, two spare threads
  // take over while kernels hold the executors, if the test fires `timers`.
  explicit SlowEngine(std::vector<uint32_t> clusters, uint32_t executors = 0,
                      int64_t lane_grace_ns = 5'000'000'000, int64_t patience_ns = 0,
                      int64_t call_limit_ns = 0);

  // Adds a lane, and a kernel of that name that runs there and calls the body. A kernel of the same
  // name that was added before is removed.
  std::shared_ptr<LanePort> AddLane(std::shared_ptr<Lane> lane, const std::string& kernel,
                                    uint32_t flags = 0);

  // Begins a run of tasks whose kernels call `body`, which lives as long as the run.
  std::shared_ptr<Run> Start(const std::vector<SlowTask>& tasks, const KernelBody& body,
                             const RunSpec& options = {});
  void RunAll() {
    while (engine->RunOne()) {
    }
  }
  void Cancel(Run& run);

  int64_t* word(uint32_t index);
  pto_signal signal(uint32_t index) { return {word(index), PTO_I64}; }
  // The words, as the one slot of a graph for a single chip.
  std::shared_ptr<const RunSlots> slots() const;
  // A tensor of this many words.
  pto_tensor words(uint32_t first, int64_t count);
  // From outside.
  void Notify(uint32_t index, pto_notify_op op, int64_t value);

  // That nothing is left of any run.
  void ExpectClean();

  const std::vector<uint32_t> clusters;
  ManualClock clock;
  TimerQueue timers;
  KernelRegistry kernels{&SlowKernels()};
  std::shared_ptr<TestObserver> observer;  // of the last run
  std::unique_ptr<Engine> engine;
  int64_t help_ns = 0;  // for runs that are started from now on

 private:
  std::vector<std::shared_ptr<Chip>> chips_;
  std::shared_ptr<HostAllocation> memory_;
};

}  // namespace pto::engine::testing
