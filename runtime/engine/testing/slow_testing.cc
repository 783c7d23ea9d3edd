#include "runtime/engine/testing/slow_testing.h"

#include <gtest/gtest.h>

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/builtin.h"
#include "runtime/base/error.h"
#include "runtime/base/log.h"

namespace pto::engine::testing {
namespace {

constexpr pto_argument_info kArguments[] = {{"words", PTO_NO_DEPENDENCY, PTO_DTYPE_BIT(PTO_I64)}};
constexpr pto_scalar_info kScalars[] = {{"task", PTO_INTEGER}, {"body", PTO_INTEGER}};

// The address of the body comes as a scalar: runs with different ones can go on side by side.
int32_t CallBody(const pto_context* context) {
  const auto& body = *reinterpret_cast<const KernelBody*>(context->scalars[1].i64);
  return body(static_cast<uint32_t>(context->scalars[0].i64), *context);
}

constexpr pto_kernel_info BodyKernel(const char* name, uint32_t flags) {
  return {sizeof(pto_kernel_info),
          name,
          "Calls the test.",
          &CallBody,
          nullptr,
          PTO_AIV,
          kArguments,
          1,
          kScalars,
          2,
          0,
          flags,
          PTO_CONTROL_NONE};
}

constexpr pto_kernel_info kBodies[] = {
    BodyKernel("plain", PTO_KERNEL_NOTIFIES), BodyKernel("silent", 0),
    BodyKernel("holds", PTO_KERNEL_WAITS),
    BodyKernel("waits", PTO_KERNEL_WAITS | PTO_KERNEL_NOTIFIES),
    BodyKernel("blocks", PTO_KERNEL_BLOCKS | PTO_KERNEL_NOTIFIES)};

}  // namespace

const KernelRegistry& SlowKernels() {
  static const KernelRegistry* const registry = [] {
    auto* kernels = new KernelRegistry;
    for (absl::Span<const pto_kernel_info> family :
         {absl::MakeConstSpan(kBodies), kernels::ControlKernels(), kernels::TestingKernels()}) {
      for (const pto_kernel_info& info : family) {
        PTO_CHECK(kernels->Add(info).ok(), "a test kernel is refused");
      }
    }
    return kernels;
  }();
  return *registry;
}

namespace {

ScalarInput Integer(int64_t value) {
  ScalarInput scalar;
  scalar.kind = ScalarInput::Kind::kInteger;
  scalar.i64 = value;
  return scalar;
}

std::shared_ptr<const GraphImage> MakeGraph(const KernelSource& kernels,
                                            const std::vector<SlowTask>& tasks,
                                            const std::vector<uint32_t>& clusters,
                                            const KernelBody* body) {
  GraphTarget target;
  target.kernels = &kernels;
  target.chip_clusters = clusters;
  GraphBuilder builder(target, GraphBuilder::Options{.find_dependencies = false});
  // One for each chip; all are the same memory.
  for (size_t chip = 0; chip < clusters.size(); ++chip) {
    builder.AddSlot(chip == 0 ? "words" : absl::StrCat("words", chip));
  }
  const auto tensor = [&](int64_t first, int64_t count, uint32_t chip = 0) {
    const uint32_t layout = builder.AddLayout(PTO_I64, {count}, {}).value();
    return builder.AddTensor(chip, layout, first).value();
  };
  uint32_t names = 0;
  for (size_t i = 0; i < tasks.size(); ++i) {
    const SlowTask& task = tasks[i];
    TaskInput input;
    input.kernel = builder.AddKernel(task.kernel).value();
    const pto_kernel_info& info = builder.kernel(input.kernel);
    std::vector<uint32_t> args;
    std::vector<ScalarInput> scalars;
    if (info.function == &CallBody) {
      args.push_back(tensor(0, SlowEngine::kWords, task.chip));
      scalars = {Integer(static_cast<int64_t>(i)), Integer(reinterpret_cast<int64_t>(body))};
    } else if (info.control == PTO_CONTROL_COPY) {
      args = {tensor(task.to, task.count), tensor(task.from, task.count)};
    } else {
      if (info.argument_count > 0) args.push_back(tensor(task.word, 1, task.chip));
      if (info.argument_count > 1) args.push_back(tensor(SlowEngine::kWords - 1, 1));
      // By name, so that a run can have other values.
      for (const int64_t scalar : task.scalars) {
        scalars.emplace_back();
        scalars.back().kind = ScalarInput::Kind::kNamed;
        scalars.back().named = builder.AddScalar(absl::StrCat("scalar", names++), Integer(scalar));
      }
    }
    input.args = args;
    std::vector<uint32_t> member_tensors;
    for (const uint32_t chip : task.members) {
      member_tensors.push_back(tensor(0, SlowEngine::kWords, chip));
    }
    std::vector<TaskInput::Member> members;
    for (size_t m = 0; m < task.members.size(); ++m) {
      members.push_back({task.members[m], absl::MakeConstSpan(&member_tensors[m], 1)});
    }
    input.members = members;
    if (!members.empty()) input.args = {};
    std::vector<uint32_t> vector_kernels;
    for (const std::string& name : task.vector_kernels) {
      vector_kernels.push_back(builder.AddKernel(name).value());
    }
    input.vector_kernels = vector_kernels;
    if (!vector_kernels.empty()) input.core = PTO_MIX;
    input.scalars = scalars;
    input.dependencies = task.after;
    input.chip = task.chip;
    input.block_num = task.block_num;
    input.require_sync_start = task.together;
    input.timeout_ns = task.timeout_ns;
    if (task.predicate.has_value()) {
      input.predicate =
          PredicateInput{tensor(task.predicate->word, 1, task.chip),
                         static_cast<uint32_t>(task.predicate->compare), task.predicate->value};
    }
    const absl::StatusOr<uint32_t> added = builder.AddTask(input);
    PTO_CHECK(added.ok(), std::string(added.status().message()));
  }
  return builder.Build().value();
}

}  // namespace

SlowEngine::SlowEngine(std::vector<uint32_t> clusters_in, uint32_t executors, int64_t lane_grace_ns,
                       int64_t patience_ns, int64_t call_limit_ns)
    : clusters(std::move(clusters_in)),
      timers(executors == 0 ? static_cast<const Clock&>(clock) : Clock::Real()),
      chips_(MakeTestChips(clusters)),
      memory_(chips_[0]->memory().AllocateHost(kWords * sizeof(int64_t)).value()) {
  Engine::Options options;
  options.chips = chips_;
  options.timers = &timers;
  options.executors = executors;
  options.lane_grace_ns = lane_grace_ns;
  options.patience_ns = patience_ns;
  options.call_limit_ns = call_limit_ns;
  options.max_spares = 2;
  if (executors == 0) options.clock = &clock;
  engine = std::make_unique<Engine>(std::move(options));
}

std::shared_ptr<LanePort> SlowEngine::AddLane(std::shared_ptr<Lane> lane, const std::string& kernel,
                                              uint32_t flags) {
  std::shared_ptr<LanePort> port = engine->AddLane(std::move(lane));
  kernels.Remove(kernel);
  const pto_kernel_info info = BodyKernel(kernel.c_str(), flags);
  PTO_CHECK(kernels.Add(Kernel::OnLane(info, nullptr, nullptr, port).value()).ok(),
            "a kernel on a lane is refused");
  return port;
}

std::shared_ptr<Run> SlowEngine::Start(const std::vector<SlowTask>& tasks, const KernelBody& body,
                                       const RunSpec& options) {
  RunSpec spec = options;
  spec.image = MakeGraph(kernels, tasks, clusters, &body);
  spec.slots = slots();
  observer = std::make_shared<TestObserver>();
  spec.observer = observer;
  std::shared_ptr<Run> run = engine->Prepare(std::move(spec));
  engine->Start(run, help_ns);
  return run;
}

void SlowEngine::Cancel(Run& run) {
  engine->Stop(run, RunState::kCancelled, Error(reason::kRunCancelled, "by the test"));
}

int64_t* SlowEngine::word(uint32_t index) {
  return reinterpret_cast<int64_t*>(memory_->data()) + index;
}

std::shared_ptr<const RunSlots> SlowEngine::slots() const {
  return std::make_shared<const RunSlots>(clusters.size(), RunSlot{memory_, 0});
}

pto_tensor SlowEngine::words(uint32_t first, int64_t count) {
  pto_tensor tensor = {};
  tensor.data = word(first);
  tensor.dtype = PTO_I64;
  tensor.ndim = 1;
  tensor.shape[0] = count;
  tensor.strides[0] = 1;
  return tensor;
}

void SlowEngine::Notify(uint32_t index, pto_notify_op op, int64_t value) {
  PTO_CHECK(engine->Notify(word(index), PTO_I64, op, value).ok(), "a signal is refused");
}

void SlowEngine::ExpectClean() {
  // A run's observer is notified of the end before the run leaves the engine.
  if (engine->executors() > 0) engine->WaitIdle(absl::Seconds(20));
  EXPECT_EQ(engine->active_runs(), 0u);
  EXPECT_EQ(engine->waiting(), 0u);
  for (uint32_t chip = 0; chip < clusters.size(); ++chip) {
    EXPECT_EQ(CoresLeftBusy(*engine, chip), 0u) << "chip " << chip;
    EXPECT_EQ(engine->chip_use(chip).ready_tasks, 0u) << "chip " << chip;
  }
  // The engine's own alarm may still be set: it looks whether a reservation takes too long.
  constexpr int64_t kAlarmNs = 20'000'000;
  clock.Advance(absl::Nanoseconds(kAlarmNs));
  const Clock& now = engine->executors() > 0 ? Clock::Real() : static_cast<const Clock&>(clock);
  int64_t next = timers.RunDue();
  while (next != -1 && next <= now.NowNanos() + kAlarmNs) next = timers.RunDue();
  if (next != -1) ADD_FAILURE() << "a timer is left";
}

}  // namespace pto::engine::testing
