#include "runtime/engine/testing/engine_testing.h"

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <thread>
#include <utility>

#include "runtime/base/log.h"
#include "runtime/chip/sim/sim_chip.h"

namespace pto::engine::testing {
namespace {

KernelBody& Body() {
  static KernelBody body;
  return body;
}

std::atomic<uint64_t> plans_made{0};
std::atomic<uint64_t> workspace_bytes{64};

int32_t PlanBody(const pto_launch* launch, pto_plan* plan, char*, size_t) {
  ++plans_made;
  // They are in the scalars behind the task's index.
  plan->phases = static_cast<uint32_t>(launch->scalars[1].i64);
  plan->phase_bytes = static_cast<uint64_t>(launch->scalars[2].i64);
  plan->calls = static_cast<uint32_t>(launch->scalars[3].i64);
  plan->fixed = static_cast<uint32_t>(launch->scalars[4].i64);
  plan->workspace_bytes = workspace_bytes;
  return 0;
}

int32_t CallBody(const pto_context* context) {
  return Body()(static_cast<uint32_t>(context->scalars[0].i64), *context);
}

const KernelRegistry& TestKernels() {
  static const pto_scalar_info kScalars[] = {{"task", PTO_INTEGER}};
  static const pto_kernel_info kInfo = {sizeof(pto_kernel_info),
                                        "body",
                                        "Calls the test.",
                                        &CallBody,
                                        nullptr,
                                        PTO_AIV,
                                        nullptr,
                                        0,
                                        kScalars,
                                        1,
                                        0,
                                        0,
                                        PTO_CONTROL_NONE};
  static const pto_scalar_info kPhasedScalars[] = {{"task", PTO_INTEGER},
                                                   {"phases", PTO_INTEGER},
                                                   {"bytes", PTO_INTEGER},
                                                   {"calls", PTO_INTEGER},
                                                   {"fixed", PTO_INTEGER}};
  static const pto_kernel_info kPhased = [] {
    pto_kernel_info info = kInfo;
    info.name = "phased";
    info.scalars = kPhasedScalars;
    info.scalar_count = 5;
    info.plan = &PlanBody;
    return info;
  }();
  static const KernelRegistry* registry = [] {
    auto* kernels = new KernelRegistry;
    PTO_CHECK(kernels->Add(kInfo).ok(), "the test kernel is refused");
    PTO_CHECK(kernels->Add(kPhased).ok(), "the test kernel is refused");
    return kernels;
  }();
  return *registry;
}

}  // namespace

std::shared_ptr<const GraphImage> MakeTestGraph(const std::vector<TestTask>& tasks,
                                                const std::vector<uint32_t>& chip_clusters,
                                                KernelBody body) {
  Body() = std::move(body);
  GraphTarget target;
  target.kernels = &TestKernels();
  target.chip_clusters = chip_clusters;
  GraphBuilder builder(target);
  const uint32_t kernel = builder.AddKernel("body").value();
  const uint32_t phased = builder.AddKernel("phased").value();
  for (size_t i = 0; i < tasks.size(); ++i) {
    std::array<ScalarInput, 5> scalars;
    for (ScalarInput& scalar : scalars) scalar.kind = ScalarInput::Kind::kInteger;
    scalars[0].i64 = tasks[i].number.value_or(static_cast<int64_t>(i));
    scalars[1].i64 = tasks[i].phases;
    scalars[2].i64 = tasks[i].phase_bytes;
    scalars[3].i64 = tasks[i].plan_calls;
    scalars[4].i64 = tasks[i].plan_fixed ? 1 : 0;
    TaskInput task;
    task.kernel = tasks[i].phases > 0 ? phased : kernel;
    task.chip = tasks[i].chip;
    task.core = tasks[i].core;
    task.block_num = tasks[i].block_num;
    task.scalars = absl::MakeConstSpan(scalars.data(), tasks[i].phases > 0 ? 5 : 1);
    task.dependencies = tasks[i].after;
    task.require_sync_start = tasks[i].sync_start;
    std::vector<TaskInput::Member> members;
    for (const uint32_t chip : tasks[i].members) members.push_back({chip, {}});
    task.members = members;
    const std::vector<uint32_t> vector_kernels(tasks[i].vector_kernels, kernel);
    task.vector_kernels = vector_kernels;
    builder.AddTask(task).value();
  }
  return builder.Build().value();
}

void UseWorkspace(uint64_t bytes) { workspace_bytes = bytes; }

uint64_t PlansMade() { return plans_made.load(); }

std::vector<std::shared_ptr<Chip>> MakeTestChips(const std::vector<uint32_t>& chip_clusters) {
  std::vector<std::shared_ptr<Chip>> chips;
  for (uint32_t i = 0; i < chip_clusters.size(); ++i) {
    chips.push_back(SimChip::Create(i, chip_clusters[i]));
  }
  return chips;
}

uint32_t CoresLeftBusy(const Engine& engine, uint32_t chip) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (engine.executors() > 0 && engine.chip_use(chip).busy_cores > 0 &&
         std::chrono::steady_clock::now() < until) {
    std::this_thread::yield();
  }
  return engine.chip_use(chip).busy_cores;
}

void TestObserver::OnRecords(Run& run, size_t) {
  const std::vector<RecordBlock> taken = run.TakeRecords();
  MutexLock lock(mutex_);
  for (const RecordBlock& block : taken) {
    records_.insert(records_.end(), block.records.get(), block.records.get() + block.count);
  }
}

void TestObserver::OnFinished(Run& run, Completions&) {
  OnRecords(run, 0);
  MutexLock lock(mutex_);
  ++finished;
  ended_.NotifyAll();
}

void TestObserver::WaitFinished() {
  MutexLock lock(mutex_);
  while (finished == 0) ended_.Wait(mutex_);
}

std::vector<TaskRecord> TestObserver::records() {
  MutexLock lock(mutex_);
  return records_;
}

}  // namespace pto::engine::testing
