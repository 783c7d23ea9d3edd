#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "kernels/kernel.h"
#include "kernels/registry.h"
#include "runtime/base/status_macros.h"
#include "runtime/base/status_matchers.h"
#include "runtime/chip/allocation.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/open_run.h"
#include "runtime/engine/testing/engine_testing.h"
#include "runtime/engine/testing/open_run_testing.h"
#include "runtime/graph/builder.h"
#include "runtime/graph/open_graph.h"

// Kernels with closures, and kernels that are added and removed while graphs run.
namespace pto::engine {
namespace {

using ::pto::engine::testing::OpenRunWatcher;
using ::pto::engine::testing::TestObserver;
using ::pto::testing::HasReason;
using ::pto::testing::IsOk;

constexpr uint32_t kWords = 64;
constexpr pto_argument_info kArguments[] = {{"words", PTO_OUTPUT, PTO_DTYPE_BIT(PTO_I64)}};

// What the kernels of this test have as their closure.
struct Closure {
  int64_t value = 0;
  uint32_t phases = 1;
  std::function<void()> during = nullptr;  // called by every call
};

// Adds the closure's value to the word of the call: of its block, its lane or its phase.
int32_t AddValue(const pto_context* context) {
  if (context->struct_size < sizeof *context) return 1;
  const auto* closure = static_cast<const Closure*>(context->kernel_data);
  if (closure->during != nullptr) closure->during();
  // Runs that only count calls go on at the same time, with the same words.
  if (closure->value == 0) return 0;
  static_cast<int64_t*>(
      context->tensors[0].data)[context->block_index + context->lane + context->phase] +=
      closure->value;
  return 0;
}

int32_t Plan(const pto_launch* launch, pto_plan* plan, char*, size_t) {
  if (launch->struct_size < sizeof *launch) return 1;
  plan->phases = static_cast<const Closure*>(launch->kernel_data)->phases;
  plan->fixed = 1;
  return 0;
}

enum class Kind { kPlain, kFiber, kThread, kPhased };

pto_kernel_info Info(const char* name, Kind kind) {
  pto_kernel_info info = {sizeof(pto_kernel_info),
                          name,
                          "Adds its value.",
                          &AddValue,
                          nullptr,
                          PTO_AIV,
                          kArguments,
                          1,
                          nullptr,
                          0,
                          0,
                          0,
                          PTO_CONTROL_NONE};
  if (kind == Kind::kFiber) info.flags = PTO_KERNEL_WAITS;
  if (kind == Kind::kThread) info.flags = PTO_KERNEL_BLOCKS;
  if (kind == Kind::kPhased) info.plan = &Plan;
  return info;
}

class EngineKernelsTest : public ::testing::TestWithParam<Kind> {
 protected:
  EngineKernelsTest() {
    Engine::Options options;
    options.chips = engine::testing::MakeTestChips({2});
    options.executors = 2;
    engine_ = std::make_unique<Engine>(std::move(options));
    memory_ = engine_->chips()[0]->memory().AllocateHost(kWords * sizeof(int64_t)).value();
    slots_ = std::make_shared<const RunSlots>(RunSlots{{memory_, 0}});
    target_.kernels = &kernels_;
    target_.chip_clusters = {2};
  }

  // Adds a kernel that owns its closure, and returns what watches the closure.
  std::weak_ptr<const Closure> AddKernel(const char* name, Kind kind, Closure value) {
    const auto closure = std::make_shared<const Closure>(std::move(value));
    EXPECT_THAT(kernels_.Add(Kernel::Owned(Info(name, kind), closure.get(), closure).value()),
                IsOk());
    return closure;
  }

  struct Task {
    const char* kernel;
    int64_t first_word = 0;
    uint32_t blocks = 1;
    std::vector<const char*> vector_kernels = {};
  };

  absl::StatusOr<std::shared_ptr<const GraphImage>> Compile(const std::vector<Task>& tasks) {
    GraphBuilder builder(target_);
    const uint32_t slot = builder.AddSlot("words");
    const uint32_t layout = builder.AddLayout(PTO_I64, {4}, {}).value();
    for (const Task& task : tasks) {
      TaskInput input;
      PTO_ASSIGN_OR_RETURN(input.kernel, builder.AddKernel(task.kernel));
      std::vector<uint32_t> vector_kernels;
      for (const char* name : task.vector_kernels) {
        vector_kernels.push_back(builder.AddKernel(name).value());
      }
      input.vector_kernels = vector_kernels;
      if (!vector_kernels.empty()) input.core = PTO_MIX;
      input.block_num = task.blocks;
      const uint32_t args[] = {builder.AddTensor(slot, layout, task.first_word).value()};
      input.args = args;
      PTO_RETURN_IF_ERROR(builder.AddTask(input).status());
    }
    return builder.Build();
  }

  std::shared_ptr<pto::engine::Run> Start(std::shared_ptr<const GraphImage> image,
                                          std::shared_ptr<TestObserver> observer) {
    RunSpec spec;
    spec.image = std::move(image);
    spec.slots = slots_;
    spec.observer = std::move(observer);
    std::shared_ptr<pto::engine::Run> run = engine_->Prepare(std::move(spec));
    engine_->Start(run, 0);
    return run;
  }

  // Returns how the run ended.
  RunState RunToEnd(std::shared_ptr<const GraphImage> image) {
    const auto observer = std::make_shared<TestObserver>();
    const std::shared_ptr<pto::engine::Run> run = Start(std::move(image), observer);
    observer->WaitFinished();
    return run->state();
  }

  int64_t word(uint32_t index) { return reinterpret_cast<int64_t*>(memory_->data())[index]; }

  // Whether the closure is released. A worker may hold the run for a moment after its end.
  static bool IsReleased(const std::weak_ptr<const Closure>& closure) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!closure.expired() && std::chrono::steady_clock::now() < until) {
      std::this_thread::yield();
    }
    return closure.expired();
  }

  KernelRegistry kernels_;
  GraphTarget target_;
  std::unique_ptr<Engine> engine_;
  std::shared_ptr<HostAllocation> memory_;
  std::shared_ptr<const RunSlots> slots_;
};

// Two kernels with one function. They alternate on the same words, so that each task runs after
// the one before, mostly on the same worker.
TEST_P(EngineKernelsTest, OneFunctionServesTwoKernels) {
  AddKernel("one", GetParam(), {.value = 1, .phases = 2});
  AddKernel("ten", GetParam(), {.value = 10, .phases = 3});
  const auto image = Compile({{"one"}, {"ten"}, {"ten"}, {"one"}, {"ten"}, {"one", 8, 3}, {"ten"}});
  ASSERT_THAT(image.status(), IsOk());
  EXPECT_EQ(RunToEnd(*image), RunState::kSucceeded);
  EXPECT_EQ(word(0), 42);
  const bool phased = GetParam() == Kind::kPhased;
  EXPECT_EQ(word(1), phased ? 42 : 0);
  EXPECT_EQ(word(2), phased ? 40 : 0);
  // The task of three blocks: block b adds to word b + phase.
  EXPECT_EQ(word(8), 1);
  EXPECT_EQ(word(9), phased ? 2 : 1);
  EXPECT_EQ(word(10), phased ? 2 : 1);
}

TEST_P(EngineKernelsTest, AKernelThatIsRemovedInMidRunFinishes) {
  std::atomic<bool> entered{false}, go_on{false};
  const std::weak_ptr<const Closure> closure =
      AddKernel("own", GetParam(), {.value = 1, .during = [&] {
                                      entered = true;
                                      while (!go_on) std::this_thread::yield();
                                    }});
  const auto observer = std::make_shared<TestObserver>();
  std::shared_ptr<pto::engine::Run> run =
      Start(Compile({{"own"}, {"own"}, {"own"}}).value(), observer);
  while (!entered) std::this_thread::yield();
  EXPECT_NE(kernels_.Remove("own"), nullptr);
  EXPECT_THAT(Compile({{"own"}}).status(), HasReason(reason::kKernelUnknown));
  EXPECT_FALSE(closure.expired());
  go_on = true;
  observer->WaitFinished();
  EXPECT_EQ(run->state(), RunState::kSucceeded);
  EXPECT_EQ(word(0), 3);
  EXPECT_FALSE(closure.expired());
  run.reset();
  EXPECT_TRUE(IsReleased(closure));
}

INSTANTIATE_TEST_SUITE_P(Kinds, EngineKernelsTest,
                         ::testing::Values(Kind::kPlain, Kind::kFiber, Kind::kThread,
                                           Kind::kPhased));

TEST_F(EngineKernelsTest, EachCoreOfAClusterGetsTheClosureOfItsKernel) {
  AddKernel("one", Kind::kPlain, {.value = 1});
  AddKernel("ten", Kind::kPlain, {.value = 10});
  AddKernel("hundred", Kind::kPlain, {.value = 100});
  const auto image = Compile({{"one", 0, 1, {"ten", "hundred"}}, {"ten", 8, 1, {"one", "one"}}});
  ASSERT_THAT(image.status(), IsOk());
  EXPECT_EQ(RunToEnd(*image), RunState::kSucceeded);
  EXPECT_EQ(word(0), 1);
  EXPECT_EQ(word(1), 10);
  EXPECT_EQ(word(2), 100);
  EXPECT_EQ(word(8), 10);
  EXPECT_EQ(word(9), 1);
  EXPECT_EQ(word(10), 1);
}

TEST_F(EngineKernelsTest, AnImageKeepsItsKernels) {
  const std::weak_ptr<const Closure> closure = AddKernel("own", Kind::kPlain, {.value = 1});
  std::shared_ptr<const GraphImage> image = Compile({{"own"}}).value();
  kernels_.Remove("own");
  // Another kernel of the same name is for new graphs only.
  AddKernel("own", Kind::kPlain, {.value = 100});
  EXPECT_EQ(RunToEnd(image), RunState::kSucceeded);
  EXPECT_EQ(word(0), 1);
  EXPECT_EQ(RunToEnd(Compile({{"own"}}).value()), RunState::kSucceeded);
  EXPECT_EQ(word(0), 101);
  engine_->WaitIdle(absl::Seconds(20));
  EXPECT_FALSE(closure.expired());
  image.reset();
  EXPECT_TRUE(IsReleased(closure));
}

TEST_F(EngineKernelsTest, LaterSegmentsUseAKernelThatWasRemoved) {
  const std::weak_ptr<const Closure> closure = AddKernel("own", Kind::kPlain, {.value = 1});
  {
    OpenGraph graph(target_);
    const uint32_t kernel = graph.AddKernel("own").value();
    const uint32_t slot = graph.AddSlot("words");
    const uint32_t layout = graph.AddLayout(PTO_I64, {4}, {}).value();
    const uint32_t args[] = {graph.AddTensor(slot, layout, 0).value()};
    const auto watcher = std::make_shared<OpenRunWatcher>();
    OpenRun::Options options;
    options.engine = engine_.get();
    options.observer = watcher;
    const std::shared_ptr<OpenRun> run = OpenRun::Make(options);
    const auto append = [&] {
      TaskInput task;
      task.kernel = kernel;
      task.args = args;
      ASSERT_THAT(graph.AddTask(task).status(), IsOk());
      EXPECT_TRUE(run->Append(graph.Cut().value(), slots_));
    };
    append();
    watcher->WaitUntil([&] { return run->live_tasks() == 0; });
    kernels_.Remove("own");
    EXPECT_THAT(graph.AddKernel("own").status(), HasReason(reason::kKernelUnknown));
    append();
    append();
    run->Close();
    watcher->WaitFinished();
    EXPECT_EQ(run->state(), RunState::kSucceeded);
    EXPECT_EQ(word(0), 3);
    EXPECT_FALSE(closure.expired());
  }
  EXPECT_TRUE(IsReleased(closure));
}

// For ThreadSanitizer: the table changes all the time while threads compile and run graphs.
TEST_F(EngineKernelsTest, KernelsComeAndGoWhileGraphsRun) {
  constexpr int kRounds = 200;
  std::atomic<int64_t> calls{0};
  std::atomic<bool> done{false};
  std::vector<std::weak_ptr<const Closure>> closures;
  std::thread changes([&] {
    while (!done) {
      closures.push_back(AddKernel("own", Kind::kPlain, {.during = [&] { ++calls; }}));
      std::this_thread::yield();
      EXPECT_NE(kernels_.Remove("own"), nullptr);
    }
  });
  std::atomic<int64_t> ran{0};
  const auto use = [&] {
    for (int i = 0; i < kRounds;) {
      const auto image = Compile({{"own"}, {"own", 8}, {"own", 16}});
      if (!image.ok()) {
        EXPECT_THAT(image.status(), HasReason(reason::kKernelUnknown));
        std::this_thread::yield();
        continue;
      }
      EXPECT_EQ(RunToEnd(*image), RunState::kSucceeded);
      ran += 3;
      ++i;
    }
  };
  std::thread other(use);
  use();
  other.join();
  done = true;
  changes.join();
  EXPECT_EQ(calls, ran);
  for (const std::weak_ptr<const Closure>& closure : closures) {
    ASSERT_TRUE(IsReleased(closure));
  }
}

}  // namespace
}  // namespace pto::engine
