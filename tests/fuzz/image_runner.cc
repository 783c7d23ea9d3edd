#include "tests/fuzz/image_runner.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "runtime/base/clock.h"
#include "runtime/base/error.h"
#include "runtime/base/log.h"
#include "runtime/base/timer.h"
#include "runtime/chip/sim/sim_chip.h"
#include "runtime/engine/engine.h"

namespace pto::fuzz {
namespace {

constexpr uint32_t kMaxTasks = 64;
constexpr uint64_t kMaxCalls = 256;
constexpr int64_t kMaxElements = 1024;
constexpr uint64_t kMaxBytes = 1 << 20;
constexpr int kMaxTimers = 32;

bool IsShort(const engine::GraphImage& image) {
  if (image.task_count() > kMaxTasks || (image.traits() & engine::kTaskBlocks) != 0) return false;
  uint64_t calls = 0;
  for (uint32_t task = 0; task < image.task_count(); ++task) {
    calls += image.calls(task);
    if (calls > kMaxCalls) return false;
  }
  for (const pto::engine::ImageKernel& kernel : image.kernels()) {
    // Takes as long as its scalar says.
    if (image.text(kernel.name) == "spin") return false;
  }
  for (const engine::ImageTensor& tensor : image.tensors()) {
    const engine::Layout& layout = image.layouts()[tensor.layout];
    int64_t elements = 1;
    for (uint32_t i = 0; i < layout.ndim; ++i) {
      // A dimension of 0 makes the tensor empty.
      if (layout.shape[i] > kMaxElements) return false;
      elements *= layout.shape[i];
      if (elements > kMaxElements) return false;
    }
  }
  uint64_t bytes = 0;
  for (const engine::ImageSlot& slot : image.slots()) {
    bytes += std::min(slot.min_bytes, kMaxBytes + 1);
    if (bytes > kMaxBytes) return false;
  }
  return true;
}

// An engine with memory for one run.
class Node {
 public:
  explicit Node(const engine::GraphTarget& target) {
    engine::Engine::Options options;
    for (uint32_t i = 0; i < target.chip_clusters.size(); ++i) {
      options.chips.push_back(engine::SimChip::Create(i, target.chip_clusters[i]));
    }
    options.clock = &clock_;
    options.timers = &timers_;
    engine_ = std::make_unique<engine::Engine>(std::move(options));
  }

  void Run(const std::shared_ptr<const engine::GraphImage>& image) {
    engine::RunSpec spec;
    spec.image = image;
    spec.slots = MakeSlots(*image);
    const std::shared_ptr<pto::engine::Run> run = engine_->Prepare(std::move(spec));
    engine_->Start(run);
    for (int timers = 0; timers < kMaxTimers; ++timers) {
      RunAll();
      const int64_t next_ns = timers_.RunDue();
      if (engine_->RunOne()) continue;  // a timer has ended a wait
      const int64_t wait_ns = next_ns - clock_.NowNanos();
      if (next_ns < 0 || wait_ns > absl::ToInt64Nanoseconds(absl::Hours(1))) break;
      if (wait_ns > 0) clock_.Advance(absl::Nanoseconds(wait_ns));
    }
    engine_->Stop(*run, engine::RunState::kCancelled,
                  Error(reason::kRunCancelled, "it has had its time"));
    RunAll();
    CheckEnd(*run, image->task_count());
  }

 private:
  std::shared_ptr<const engine::RunSlots> MakeSlots(const engine::GraphImage& image) const {
    engine::RunSlots slots;
    for (const engine::ImageSlot& slot : image.slots()) {
      const uint32_t chip = slot.chip < engine_->chips().size() ? slot.chip : 0;
      absl::StatusOr<std::shared_ptr<engine::HostAllocation>> memory =
          engine_->chips()[chip]->memory().AllocateHost(std::max<uint64_t>(slot.min_bytes, 1));
      PTO_CHECK(memory.ok(), std::string(memory.status().message()));
      slots.push_back({*std::move(memory), 0});
    }
    return std::make_shared<const engine::RunSlots>(std::move(slots));
  }

  void RunAll() {
    while (engine_->RunOne()) {
    }
  }

  void CheckEnd(const pto::engine::Run& run, uint64_t tasks) {
    PTO_CHECK(engine::IsFinal(run.state()), "a run that was stopped ends");
    const pto::engine::Run::Counts counts = run.counts();
    // In a run that was stopped, some tasks were never considered.
    const uint64_t ended = counts.done + counts.failed + counts.skipped;
    PTO_CHECK(run.stop_requested() ? ended <= tasks : ended == tasks, "each task ends in one way");
    PTO_CHECK(run.state() != engine::RunState::kSucceeded || counts.done == tasks, "all is done");
    for (const absl::Status& error : run.errors()) {
      PTO_CHECK(!ReasonOf(error).empty(), std::string(error.message()));
    }
    PTO_CHECK(engine_->active_runs() == 0 && engine_->waiting() == 0, "nothing is left of it");
    for (const std::shared_ptr<engine::Chip>& chip : engine_->chips()) {
      const engine::Engine::ChipUse use = engine_->chip_use(chip->index());
      PTO_CHECK(use.busy_cores == 0 && use.ready_tasks == 0, "all cores are free");
    }
    PTO_CHECK(timers_.RunDue() == -1, "no timer is left");
  }

  ManualClock clock_;
  TimerQueue timers_{clock_};
  std::unique_ptr<engine::Engine> engine_;
};

}  // namespace

bool RunImage(const std::shared_ptr<const engine::GraphImage>& image,
              const engine::GraphTarget& target) {
  if (!IsShort(*image)) return false;
  Node(target).Run(image);
  return true;
}

}  // namespace pto::fuzz
