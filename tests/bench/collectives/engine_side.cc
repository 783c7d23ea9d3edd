#include "tests/bench/collectives/engine_side.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "kernels/builtin_kernels.h"
#include "runtime/base/status_macros.h"
#include "runtime/chip/sim/sim_chip.h"
#include "runtime/graph/builder.h"
#include "tests/bench/samples.h"

namespace pto::bench {
namespace {

constexpr uint32_t kClusters = 24;
constexpr uint32_t kExecutors = 2;
constexpr uint32_t kMostTasks = 20'000;
constexpr uint32_t kFewestTasks = 4;
constexpr int64_t kSum = 1;
constexpr uint32_t kRoot = 0;

const char* KernelOf(Op op) {
  switch (op) {
    case Op::kAllReduce:
      return "all_reduce";
    case Op::kAllGather:
      return "all_gather";
    default:
      return OpName(op);
  }
}

std::vector<int64_t> ScalarsOf(Op op) {
  switch (op) {
    case Op::kAllReduce:
      return {kSum, 0, 0};
    case Op::kReduceScatter:
      return {kSum};
    case Op::kBroadcast:
      return {kRoot};
    default:
      return {};
  }
}

engine::GraphTarget Target(uint32_t ranks) {
  engine::GraphTarget target;
  target.kernels = &BuiltinKernels();
  target.chip_clusters.assign(ranks, kClusters);
  return target;
}

}  // namespace

EngineSide::EngineSide(uint32_t ranks) : ranks_(ranks) {
  engine::Engine::Options options;
  for (uint32_t i = 0; i < ranks; ++i) {
    options.chips.push_back(engine::SimChip::Create(i, kClusters));
  }
  options.timers = &timers_;
  options.executors = kExecutors;
  engine_ = std::make_unique<engine::Engine>(std::move(options));
}

absl::StatusOr<EngineSide::Image> EngineSide::Build(const CollectiveCase& measured, bool chain,
                                                    uint32_t count) const {
  engine::GraphBuilder builder(Target(ranks_));
  engine::TaskInput task;
  PTO_ASSIGN_OR_RETURN(task.kernel, builder.AddKernel(KernelOf(measured.op)));
  std::vector<engine::ScalarInput> scalars;
  for (const int64_t value : ScalarsOf(measured.op)) {
    engine::ScalarInput& scalar = scalars.emplace_back();
    scalar.kind = engine::ScalarInput::Kind::kInteger;
    scalar.i64 = value;
  }
  task.scalars = scalars;
  const bool tensors = measured.op != Op::kBarrier;
  const auto in = static_cast<int64_t>(measured.bytes / sizeof(float));
  const auto out = static_cast<int64_t>(measured.out_bytes() / sizeof(float));
  PTO_ASSIGN_OR_RETURN(const uint32_t in_layout, builder.AddLayout(PTO_F32, {in}, {}));
  PTO_ASSIGN_OR_RETURN(const uint32_t out_layout, builder.AddLayout(PTO_F32, {out}, {}));
  std::vector<uint32_t> slots;
  for (uint32_t r = 0; r < ranks_; ++r) slots.push_back(builder.AddSlot(absl::StrCat("rank", r)));
  std::vector<std::vector<uint32_t>> args(ranks_);
  std::vector<engine::TaskInput::Member> members;
  for (uint32_t i = 0; i < count; ++i) {
    if (i == 0 || !chain) {
      members.clear();
      for (uint32_t r = 0; r < ranks_; ++r) {
        args[r].clear();
        if (tensors) {
          const int64_t first = i * (in + out);
          PTO_ASSIGN_OR_RETURN(uint32_t tensor, builder.AddTensor(slots[r], in_layout, first));
          args[r].push_back(tensor);
          // The root of a broadcast already has its output, as in MPI.
          if (measured.op != Op::kBroadcast || r != kRoot) {
            PTO_ASSIGN_OR_RETURN(tensor, builder.AddTensor(slots[r], out_layout, first + in));
          }
          args[r].push_back(tensor);
        }
        members.push_back({r, args[r]});
      }
    }
    task.members = members;
    // Without tensors, dependencies must be explicit.
    const uint32_t before = i - 1;
    if (chain && !tensors && i > 0) task.dependencies = absl::MakeConstSpan(&before, 1);
    PTO_RETURN_IF_ERROR(builder.AddTask(task).status());
  }
  return builder.Build();
}

absl::StatusOr<double> EngineSide::Execute(const Image& image) {
  engine::RunSpec spec;
  spec.image = image;
  spec.slots = slots_;
  spec.record_level = engine::RecordLevel::kNone;
  const std::shared_ptr<engine::Run> run = engine_->Prepare(std::move(spec));
  const double start = Seconds();
  engine_->Start(run);
  if (!engine_->WaitIdle(absl::Minutes(2))) return absl::DeadlineExceededError("a run hangs");
  const double took = Seconds() - start;
  if (run->state() != engine::RunState::kSucceeded) {
    return run->errors().empty() ? absl::InternalError("a run failed") : run->errors()[0];
  }
  return took;
}

absl::StatusOr<double> EngineSide::Measure(const CollectiveCase& measured, bool chain,
                                           double seconds) {
  const uint64_t each = std::max<uint64_t>(measured.bytes + measured.out_bytes(), 64);
  const uint64_t room = chain ? each : each * kMostTasks;
  slots_ = std::make_shared<engine::RunSlots>();
  for (uint32_t r = 0; r < ranks_; ++r) {
    PTO_ASSIGN_OR_RETURN(const std::shared_ptr<engine::HostAllocation> memory,
                         engine_->chips()[r]->memory().AllocateHost(room));
    std::memset(memory->data(), 0, room);
    slots_->push_back({memory, 0});
  }
  PTO_ASSIGN_OR_RETURN(Image image, Build(measured, chain, kFewestTasks));
  PTO_RETURN_IF_ERROR(Execute(image).status());
  PTO_ASSIGN_OR_RETURN(const double few, Execute(image));
  const double wanted = seconds / 4 / (few / kFewestTasks);
  const auto count =
      static_cast<uint32_t>(std::clamp(wanted, double{kFewestTasks}, double{kMostTasks}));
  PTO_ASSIGN_OR_RETURN(image, Build(measured, chain, count));
  Rounds rounds;
  const double until = Seconds() + seconds;
  for (int i = 0; i < 3 || (Seconds() < until && i < 100); ++i) {
    PTO_ASSIGN_OR_RETURN(const double took, Execute(image));
    rounds.Add(took / count * 1e6);
  }
  slots_.reset();
  return rounds.lowest();
}

absl::StatusOr<double> EngineSide::Chain(const CollectiveCase& measured, double seconds) {
  return Measure(measured, true, seconds);
}

absl::StatusOr<double> EngineSide::Independent(const CollectiveCase& measured, double seconds) {
  return Measure(measured, false, seconds);
}

}  // namespace pto::bench
