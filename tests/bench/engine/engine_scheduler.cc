#include "tests/bench/engine/engine_scheduler.h"

#include <array>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "kernels/registry.h"
#include "runtime/base/log.h"
#include "runtime/base/status_macros.h"
#include "runtime/chip/sim/sim_chip.h"
#include "runtime/engine/engine.h"
#include "runtime/graph/builder.h"
#include "tests/bench/samples.h"

namespace pto::bench {
namespace {

using Image = std::shared_ptr<const engine::GraphImage>;

constexpr uint32_t kClusters = 24;
constexpr int64_t kNoLimitNs = 3'600'000'000'000;
constexpr int64_t kTensorElements = 16;
constexpr uint64_t kTensorBytes = kTensorElements * sizeof(float);

int32_t Kernel(const pto_context*) {
  DoNothing();
  return 0;
}

constexpr pto_argument_info kArguments[] = {{"out", PTO_OUTPUT, PTO_DTYPE_ALL},
                                            {"a", PTO_INPUT, PTO_DTYPE_ALL},
                                            {"b", PTO_INPUT, PTO_DTYPE_ALL},
                                            {"c", PTO_INPUT, PTO_DTYPE_ALL},
                                            {"d", PTO_INPUT, PTO_DTYPE_ALL}};
static_assert(std::size(kArguments) == TaskGraph::kMaxDegree + 1);

constexpr pto_kernel_info WithArguments(const char* name, uint32_t count) {
  return {sizeof(pto_kernel_info),
          name,
          "Does nothing.",
          &Kernel,
          nullptr,
          PTO_AIV,
          kArguments,
          count,
          nullptr,
          0,
          0,
          0,
          PTO_CONTROL_NONE};
}

constexpr pto_kernel_info kNoTensor = WithArguments("no_tensor", 0);
// By the number of tensors that they read.
constexpr std::array kReading = {WithArguments("reads_0", 1), WithArguments("reads_1", 2),
                                 WithArguments("reads_2", 3), WithArguments("reads_3", 4),
                                 WithArguments("reads_4", 5)};

const KernelRegistry& Kernels() {
  static const KernelRegistry* const kernels = [] {
    auto* registry = new KernelRegistry;
    PTO_CHECK(registry->Add(kNoTensor).ok(), "a kernel of the benchmark is refused");
    for (const pto_kernel_info& info : kReading) {
      PTO_CHECK(registry->Add(info).ok(), "a kernel of the benchmark is refused");
    }
    return registry;
  }();
  return *kernels;
}

engine::GraphTarget Target() {
  engine::GraphTarget target;
  target.kernels = &Kernels();
  target.chip_clusters = {kClusters};
  return target;
}

absl::StatusOr<Image> BuildNamed(const TaskGraph& graph) {
  engine::GraphBuilder builder(Target(), engine::GraphBuilder::Options{.find_dependencies = false});
  engine::TaskInput task;
  PTO_ASSIGN_OR_RETURN(task.kernel, builder.AddKernel(kNoTensor.name));
  for (uint32_t i = 0; i < graph.size(); ++i) {
    task.dependencies = graph.before(i);
    PTO_RETURN_IF_ERROR(builder.AddTask(task).status());
  }
  return builder.Build();
}

absl::StatusOr<Image> BuildFound(const TaskGraph& graph) {
  engine::GraphBuilder builder(Target(), engine::GraphBuilder::Options{.find_dependencies = true});
  std::array<uint32_t, kReading.size()> kernels;
  for (size_t reads = 0; reads < kReading.size(); ++reads) {
    PTO_ASSIGN_OR_RETURN(kernels[reads], builder.AddKernel(kReading[reads].name));
  }
  const uint32_t slot = builder.AddSlot("data");
  PTO_ASSIGN_OR_RETURN(const uint32_t layout, builder.AddLayout(PTO_F32, {kTensorElements}, {}));
  std::array<uint32_t, std::size(kArguments)> args;
  engine::TaskInput task;
  for (uint32_t i = 0; i < graph.size(); ++i) {
    const absl::Span<const uint32_t> before = graph.before(i);
    // Tensors have the same numbers as the tasks that write them.
    PTO_ASSIGN_OR_RETURN(args[0], builder.AddTensor(slot, layout, i * kTensorElements));
    for (size_t j = 0; j < before.size(); ++j) args[j + 1] = before[j];
    task.kernel = kernels[before.size()];
    task.args = absl::MakeConstSpan(args.data(), before.size() + 1);
    PTO_RETURN_IF_ERROR(builder.AddTask(task).status());
  }
  return builder.Build();
}

absl::StatusOr<Image> Build(const TaskGraph& graph, bool find_dependencies) {
  PTO_ASSIGN_OR_RETURN(Image image, find_dependencies ? BuildFound(graph) : BuildNamed(graph));
  if (image->edge_count() != graph.edges()) {
    return absl::InternalError(absl::StrCat("the image has ", image->edge_count(), " edges, not ",
                                            graph.edges(), ": other graphs would be compared"));
  }
  return image;
}

// A node with one chip, and executors if several threads run tasks.
class Node {
 public:
  explicit Node(uint32_t threads) {
    engine::Engine::Options options;
    options.chips.push_back(engine::SimChip::Create(0, kClusters));
    options.timers = &timers_;
    options.executors = threads > 1 ? threads : 0;
    engine_ = std::make_unique<engine::Engine>(std::move(options));
  }

  engine::Engine& engine() { return *engine_; }

  // A buffer for the tensors of a graph. It is never touched, so it takes no physical memory.
  absl::StatusOr<std::shared_ptr<engine::HostAllocation>> Allocate(const TaskGraph& graph) {
    return engine_->chips()[0]->memory().AllocateHost(graph.size() * kTensorBytes);
  }

  // Starts a run and waits for its end. With one thread, the caller does the work.
  void Execute(const std::shared_ptr<engine::Run>& run) {
    engine_->Start(run, engine_->executors() == 0 ? kNoLimitNs : 0);
    Finish();
  }

  // Runs until there is no more work.
  void Finish() {
    if (engine_->executors() == 0) {
      while (engine_->RunOne()) {
      }
    }
    while (!engine_->WaitIdle(absl::Seconds(60))) {
    }
  }

 private:
  TimerQueue timers_{Clock::Real()};
  std::unique_ptr<engine::Engine> engine_;
};

engine::RunSpec SpecOf(const Image& image, const std::shared_ptr<engine::HostAllocation>& buffer,
                       bool record) {
  engine::RunSpec spec;
  spec.image = image;
  if (buffer != nullptr)
    spec.slots = std::make_shared<engine::RunSlots>(engine::RunSlots{{buffer, 0}});
  spec.record_level = record ? engine::RecordLevel::kAll : engine::RecordLevel::kNone;
  return spec;
}

absl::Status CheckSucceeded(const engine::Run& run) {
  if (run.state() == engine::RunState::kSucceeded) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat("only ", run.counts().done, " of ", run.image().task_count(), " tasks ran"));
}

class EngineScheduler final : public Scheduler {
 public:
  explicit EngineScheduler(const EngineOptions& options)
      : options_(options), node_(options.threads) {}

  absl::StatusOr<Phases> Execute(const TaskGraph& graph) override {
    if (options_.find_dependencies) {
      PTO_ASSIGN_OR_RETURN(buffer_, node_.Allocate(graph));
    }
    const double start = Seconds();
    PTO_ASSIGN_OR_RETURN(image_, Build(graph, options_.find_dependencies));
    const double built = Seconds();
    run_ = node_.engine().Prepare(SpecOf(image_, buffer_, options_.record));
    node_.Execute(run_);
    const double ended = Seconds();
    PTO_RETURN_IF_ERROR(CheckSucceeded(*run_));
    return Phases{built - start, ended - built};
  }

  void Clear() override {
    run_.reset();
    image_.reset();
    buffer_.reset();
  }

 private:
  const EngineOptions options_;
  Node node_;
  std::shared_ptr<engine::HostAllocation> buffer_;
  Image image_;
  std::shared_ptr<engine::Run> run_;
};

class RegisteredImage final : public RegisteredGraph {
 public:
  absl::Status Compile(const TaskGraph& graph) {
    const double start = Seconds();
    PTO_ASSIGN_OR_RETURN(image_, Build(graph, true));
    compile_seconds_ = Seconds() - start;
    for (std::shared_ptr<engine::HostAllocation>& buffer : buffers_) {
      PTO_ASSIGN_OR_RETURN(buffer, node_.Allocate(graph));
    }
    return absl::OkStatus();
  }

  double compile_seconds() const override { return compile_seconds_; }

  absl::StatusOr<double> Relaunch() override {
    std::swap(buffers_[0], buffers_[1]);
    const double start = Seconds();
    const std::shared_ptr<engine::Run> run =
        node_.engine().Prepare(SpecOf(image_, buffers_[0], /*record=*/false));
    node_.engine().Start(run);
    const double took = Seconds() - start;
    node_.Finish();
    PTO_RETURN_IF_ERROR(CheckSucceeded(*run));
    return took;
  }

 private:
  // One thread, so that nothing runs before it is told to.
  Node node_{1};
  std::array<std::shared_ptr<engine::HostAllocation>, 2> buffers_;
  Image image_;
  double compile_seconds_ = 0;
};

}  // namespace

std::unique_ptr<Scheduler> NewEngineScheduler(const EngineOptions& options) {
  return std::make_unique<EngineScheduler>(options);
}

absl::StatusOr<std::unique_ptr<RegisteredGraph>> RegisterGraph(const TaskGraph& graph) {
  auto registered = std::make_unique<RegisteredImage>();
  PTO_RETURN_IF_ERROR(registered->Compile(graph));
  return std::unique_ptr<RegisteredGraph>(std::move(registered));
}

}  // namespace pto::bench
