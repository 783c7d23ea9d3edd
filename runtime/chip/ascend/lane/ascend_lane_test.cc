// Graphs on an engine with two Ascend chips of the fake: unmodified kernels of the PTO ABI, with
// memory that only the chips can dereference.
#include "runtime/chip/ascend/lane/ascend_lane.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/kernel.h"
#include "kernels/registry.h"
#include "runtime/base/error.h"
#include "runtime/base/log.h"
#include "runtime/base/status_matchers.h"
#include "runtime/base/timer.h"
#include "runtime/chip/ascend/ascend_chip.h"
#include "runtime/chip/ascend/ascend_memory.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/lane/lane_port.h"
#include "runtime/engine/testing/engine_testing.h"
#include "runtime/graph/builder.h"

namespace pto::ascend {
namespace {

using ::pto::testing::HasReason;
using ::pto::testing::IsOk;
using ::testing::HasSubstr;

constexpr uint64_t kBytes = uint64_t{1} << 20;
constexpr int64_t kCount = 1000;

// Lets the engine, which wants addresses of the host, have those of the chip. Nothing of this
// process dereferences them: that would be a fault.
class AddressOnly final : public engine::HostAllocation {
 public:
  explicit AddressOnly(std::shared_ptr<engine::Allocation> memory)
      : HostAllocation(
            memory->chip(), memory->bytes(),
            reinterpret_cast<std::byte*>(static_cast<AscendAllocation&>(*memory).post_address())),
        memory_(std::move(memory)) {}

 private:
  const std::shared_ptr<engine::Allocation> memory_;
};

struct View {
  int64_t first = 0;
  int64_t count = kCount;
  uint32_t dtype = PTO_F32;
};

struct Task {
  std::string kernel;
  std::vector<View> args = {};
  std::vector<engine::ScalarInput> scalars = {};
  uint32_t chip = 0;
  uint32_t blocks = 1;
  bool together = false;
  std::vector<uint32_t> after = {};
};

class AscendLaneTest : public ::testing::Test {
 protected:
  void SetUp() override {
    static int number = 0;
    const std::string folder = absl::StrCat(std::getenv("TEST_TMPDIR"), "/lane-", ++number);
    mkdir(folder.c_str(), 0700);
    setenv("FAKE_CANN_DIR", folder.c_str(), 1);
    setenv("FAKE_CANN_PLAN", plan_.c_str(), 1);
    trace_ = folder + "/trace";
    setenv("FAKE_CANN_TRACE", trace_.c_str(), 1);
    AscendOptions options;
    options.program = "runtime/chip/ascend/host/ptod_chip_host";
    options.cann_path = "tests/fake_cann/cann-9";
    options.start_timeout = absl::Seconds(20);
    AscendChips found = FindAscendChips(0, options);
    ASSERT_THAT(found.trouble, IsOk());
    chips_ = found.chips;
    engine::Engine::Options engine;
    engine.chips = chips_;
    engine.timers = &timers_;
    engine.executors = 2;
    engine.lane_grace_ns = absl::ToInt64Nanoseconds(absl::Seconds(10));
    engine_ = std::make_unique<engine::Engine>(std::move(engine));
    for (uint32_t chip = 0; chip < 2; ++chip) {
      AscendLane::Options lane;
      lane.grace = absl::Milliseconds(100);
      lane.idle_kernels = idle_kernels_;
      ports_.push_back(engine_->AddLane(std::make_shared<AscendLane>(HostOf(chip), lane)));
      NewMemory(chip);
      for (const char* const name : {"pto_vector_add", "pto_scale", "pto_spmd", "pto_faulty"}) {
        AddKernel(chip, name);
      }
    }
  }

  void TearDown() override { engine_.reset(); }

  const std::shared_ptr<ChipHost>& HostOf(uint32_t chip) {
    return static_cast<AscendChip&>(*chips_[chip]).host();
  }

  void NewMemory(uint32_t chip) {
    auto memory = chips_[chip]->memory().Allocate(kBytes);
    ASSERT_THAT(memory, IsOk());
    if (memory_.size() <= chip) memory_.resize(chip + 1);
    memory_[chip] = *std::move(memory);
  }

  // "pto_scale0" for chip 0: a kernel's lane is its chip's.
  void AddKernel(uint32_t chip, const std::string& name) {
    static const std::map<std::string, std::string> signatures = {
        {"pto_vector_add", "in f32[] x, in f32[] y, out f32[] z; core aiv; blocks no"},
        {"pto_scale",
         "in f32[] x, out f32[] y, scalar f32 factor, scalar i32 shift; core aiv; blocks no"},
        {"pto_spmd", "inout i32[] out; core aiv; blocks no"},
        {"pto_faulty", "inout i32[] any, scalar i64 how; core aiv; blocks no"},
    };
    char folder[4096];
    ASSERT_NE(getcwd(folder, sizeof folder), nullptr);
    auto closure = std::make_shared<AscendKernel>();
    closure->path =
        absl::StrCat(folder, name == "pto_faulty" ? "/tests/fake_cann/kernels/" : "/tests/kernels/",
                     name, "_gcc.so");
    closure->entry = "kernel_entry";
    auto signature = host::PtoSignature::Parse(signatures.at(name));
    ASSERT_THAT(signature, IsOk());
    closure->signature = *signature;
    // A fault is told by the first word, so its tensor is not passed.
    if (name == "pto_faulty") closure->signature.tensors[0].hidden = true;
    std::vector<pto_argument_info> arguments;
    for (const auto& tensor : closure->signature.tensors) {
      arguments.push_back({tensor.name.c_str(), tensor.direction, PTO_DTYPE_ALL});
    }
    std::vector<pto_scalar_info> scalars;
    for (const auto& scalar : closure->signature.scalars) {
      const bool real = scalar.kind == host::PtoScalarParameter::Kind::kF32;
      scalars.push_back({scalar.name.c_str(), real ? PTO_FLOAT : PTO_INTEGER});
    }
    const std::string own_name = absl::StrCat(name, chip);
    pto_kernel_info info = {};
    info.struct_size = sizeof info;
    info.name = own_name.c_str();
    info.description = "A kernel of the PTO ABI.";
    info.default_core = PTO_AIV;
    info.arguments = arguments.data();
    info.argument_count = static_cast<uint32_t>(arguments.size());
    info.scalars = scalars.data();
    info.scalar_count = static_cast<uint32_t>(scalars.size());
    const auto kernel = Kernel::OnLane(info, closure.get(), closure, ports_[chip]);
    ASSERT_THAT(kernel, IsOk());
    ASSERT_THAT(kernels_.Add(*kernel), IsOk());
  }

  std::shared_ptr<engine::Run> Start(const std::vector<Task>& tasks) {
    engine::GraphTarget target;
    target.kernels = &kernels_;
    target.chip_clusters = std::vector<uint32_t>(2, chips_[0]->spec().clusters);
    engine::GraphBuilder builder(target, engine::GraphBuilder::Options{.find_dependencies = false});
    for (uint32_t chip = 0; chip < 2; ++chip) builder.AddSlot(absl::StrCat("memory", chip));
    for (const Task& task : tasks) {
      engine::TaskInput input;
      input.kernel = builder.AddKernel(absl::StrCat(task.kernel, task.chip)).value();
      std::vector<uint32_t> args;
      for (const View& view : task.args) {
        const uint32_t layout = builder.AddLayout(view.dtype, {view.count}, {}).value();
        args.push_back(builder.AddTensor(task.chip, layout, view.first).value());
      }
      input.scalars = task.scalars;
      input.args = args;
      input.chip = task.chip;
      input.block_num = task.blocks;
      input.require_sync_start = task.together;
      input.dependencies = task.after;
      const absl::StatusOr<uint32_t> added = builder.AddTask(input);
      PTO_CHECK(added.ok(), std::string(added.status().message()));
    }
    auto slots = std::make_shared<engine::RunSlots>();
    for (const auto& memory : memory_) slots->push_back({std::make_shared<AddressOnly>(memory), 0});
    engine::RunSpec spec;
    spec.image = builder.Build().value();
    spec.slots = std::move(slots);
    const auto observer = std::make_shared<engine::testing::TestObserver>();
    spec.observer = observer;
    std::shared_ptr<engine::Run> run = engine_->Prepare(std::move(spec));
    observers_[run.get()] = observer;
    engine_->Start(run);
    return run;
  }

  absl::Status Await(engine::Run& run) {
    observers_[&run]->WaitFinished();
    const std::vector<absl::Status> errors = run.errors();
    if (!errors.empty()) return errors[0];
    return run.state() == engine::RunState::kSucceeded
               ? absl::OkStatus()
               : absl::InternalError("it has not succeeded, and says no reason");
  }
  absl::Status Run(const std::vector<Task>& tasks) { return Await(*Start(tasks)); }

  void Put(uint32_t chip, int64_t first, const std::vector<float>& values) {
    ASSERT_THAT(
        memory_[chip]->Write(static_cast<uint64_t>(first) * 4, values.data(), values.size() * 4),
        IsOk());
  }
  template <typename T = float>
  std::vector<T> Get(uint32_t chip, int64_t first, size_t count = kCount) {
    std::vector<T> values(count);
    EXPECT_THAT(memory_[chip]->Read(static_cast<uint64_t>(first) * 4, values.data(), count * 4),
                IsOk());
    return values;
  }

  static engine::ScalarInput Float(double value) {
    engine::ScalarInput scalar;
    scalar.kind = engine::ScalarInput::Kind::kFloat;
    scalar.f64 = value;
    return scalar;
  }
  static engine::ScalarInput Integer(int64_t value) {
    engine::ScalarInput scalar;
    scalar.kind = engine::ScalarInput::Kind::kInteger;
    scalar.i64 = value;
    return scalar;
  }

  // Waits until the chip has lost its memory and works again.
  void AwaitRecovery(uint32_t chip, uint64_t epoch) {
    while (HostOf(chip)->epoch() == epoch ||
           !HostOf(chip)->AwaitReady(absl::Milliseconds(5)).ok()) {
      std::this_thread::yield();
    }
    NewMemory(chip);
  }

  bool TraceHas(const std::string& text) const {
    std::ifstream file(trace_);
    std::stringstream all;
    all << file.rdbuf();
    return all.str().find(text) != std::string::npos;
  }

  std::string plan_;
  size_t idle_kernels_ = 128;
  std::string trace_;
  std::vector<std::shared_ptr<engine::Chip>> chips_;
  std::vector<std::shared_ptr<engine::Allocation>> memory_;
  std::vector<std::shared_ptr<engine::LanePort>> ports_;
  KernelRegistry kernels_;
  std::map<const engine::Run*, std::shared_ptr<engine::testing::TestObserver>> observers_;
  TimerQueue timers_{Clock::Real()};
  TimerThread timer_thread_{timers_};
  std::unique_ptr<engine::Engine> engine_;
};

TEST_F(AscendLaneTest, AddsVectorsOnBothChips) {
  std::vector<Task> tasks;
  for (uint32_t chip = 0; chip < 2; ++chip) {
    Put(chip, 0, std::vector<float>(kCount, 2));
    Put(chip, kCount, std::vector<float>(kCount, static_cast<float>(chip)));
    tasks.push_back(
        {.kernel = "pto_vector_add", .args = {{0}, {kCount}, {2 * kCount}}, .chip = chip});
  }
  EXPECT_THAT(Run(tasks), IsOk());
  EXPECT_EQ(Get(0, 2 * kCount), std::vector<float>(kCount, 2));
  EXPECT_EQ(Get(1, 2 * kCount), std::vector<float>(kCount, 3));
}

TEST_F(AscendLaneTest, AChainHasTheRightResult) {
  Put(0, 0, std::vector<float>(kCount, 1));
  Put(0, kCount, std::vector<float>(kCount, 0));
  std::vector<Task> tasks;
  for (uint32_t i = 0; i < 20; ++i) {
    Task task{.kernel = "pto_vector_add",
              .args = {{0}, {(1 + i % 2) * kCount}, {(2 - i % 2) * kCount}}};
    if (i > 0) task.after = {i - 1};
    tasks.push_back(task);
  }
  tasks.push_back({.kernel = "pto_scale",
                   .args = {{kCount}, {3 * kCount}},
                   .scalars = {Float(0.5), Integer(0)},
                   .after = {19}});
  EXPECT_THAT(Run(tasks), IsOk());
  EXPECT_EQ(Get(0, 3 * kCount), std::vector<float>(kCount, 10));
}

TEST_F(AscendLaneTest, BlocksThatStartTogetherAreOneLaunch) {
  EXPECT_THAT(
      Run({{.kernel = "pto_spmd", .args = {{0, 16 * 8, PTO_I32}}, .blocks = 8, .together = true}}),
      IsOk());
  const std::vector<int32_t> out = Get<int32_t>(0, 0, 16 * 8);
  for (int32_t block = 0; block < 8; ++block) {
    EXPECT_EQ(out[16 * block], block);
    EXPECT_EQ(out[16 * block + 1], 8);
  }
}

TEST_F(AscendLaneTest, BlocksOnTheirOwnKnowTheirPlace) {
  EXPECT_THAT(Run({{.kernel = "pto_spmd", .args = {{0, 16 * 6, PTO_I32}}, .blocks = 6}}), IsOk());
  const std::vector<int32_t> out = Get<int32_t>(0, 0, 16 * 6);
  for (int32_t block = 0; block < 6; ++block) {
    EXPECT_EQ(out[16 * block], block);
    EXPECT_EQ(out[16 * block + 1], 6);
  }
}

TEST_F(AscendLaneTest, AKernelThatCrashesFailsItsRunAndTheChipComesBack) {
  for (int i = 0; i < 3; ++i) {
    const uint64_t epoch = HostOf(0)->epoch();
    const absl::Status status =
        Run({{.kernel = "pto_faulty", .args = {{0, 16, PTO_I32}}, .scalars = {Integer(0)}}});
    EXPECT_THAT(status, HasReason(reason::kDeviceFailed));
    EXPECT_THAT(std::string(status.message()), HasSubstr("pto_faulty0"));
    EXPECT_THAT(std::string(status.message()), HasSubstr("AICORE_EXCEPTION 507015"));
    // The other chip does not notice.
    EXPECT_THAT(Run({{.kernel = "pto_spmd", .args = {{0, 16, PTO_I32}}, .chip = 1}}), IsOk());
    AwaitRecovery(0, epoch);
    EXPECT_THAT(Run({{.kernel = "pto_spmd", .args = {{0, 16, PTO_I32}}}}), IsOk());
  }
  EXPECT_FALSE(ports_[0]->lost());
}

class FewKernelsTest : public AscendLaneTest {
 protected:
  FewKernelsTest() { idle_kernels_ = 1; }
};

TEST_F(FewKernelsTest, KernelsThatNobodyUsesAreUnloaded) {
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(Run({{.kernel = "pto_spmd", .args = {{0, 16, PTO_I32}}}}), IsOk());
    EXPECT_THAT(Run({{.kernel = "pto_scale",
                      .args = {{kCount}, {3 * kCount}},
                      .scalars = {Float(0.5), Integer(0)}}}),
                IsOk());
  }
  EXPECT_TRUE(TraceHas("aclrtBinaryUnLoad() = 0"));
}

class CancelTest : public AscendLaneTest {
 protected:
  // Starts a kernel that does not end, and waits until it runs.
  std::shared_ptr<engine::Run> StartEndless() {
    auto run =
        Start({{.kernel = "pto_faulty", .args = {{0, 16, PTO_I32}}, .scalars = {Integer(1)}}});
    while (!TraceHas("aclrtLaunchKernelWithHostArgs(")) std::this_thread::yield();
    return run;
  }

  void Cancel(engine::Run& run) {
    engine_->Stop(run, engine::RunState::kCancelled, Error(reason::kRunCancelled, "by the test"));
    observers_[&run]->WaitFinished();
    EXPECT_EQ(run.state(), engine::RunState::kCancelled);
  }
};

TEST_F(CancelTest, AKernelThatDoesNotEndIsEndedAlone) {
  const uint64_t epoch = HostOf(0)->epoch();
  const auto endless = StartEndless();
  const auto other = Start({{.kernel = "pto_spmd", .args = {{0, 16, PTO_I32}}}});
  Cancel(*endless);
  EXPECT_THAT(Await(*other), IsOk());
  EXPECT_THAT(Run({{.kernel = "pto_spmd", .args = {{0, 16, PTO_I32}}}}), IsOk());
  // Nobody else has lost anything.
  EXPECT_EQ(HostOf(0)->epoch(), epoch);
  EXPECT_EQ(HostOf(0)->starts(), 1u);
}

class CannotAbortTest : public CancelTest {
 protected:
  CannotAbortTest() { plan_ = "aclrtStreamAbort:*=207000"; }
};

TEST_F(CannotAbortTest, AKernelThatCannotBeEndedAloneIsEndedWithItsHost) {
  const uint64_t epoch = HostOf(0)->epoch();
  const auto endless = StartEndless();
  Cancel(*endless);
  AwaitRecovery(0, epoch);
  EXPECT_FALSE(ports_[0]->lost());
  EXPECT_THAT(Run({{.kernel = "pto_spmd", .args = {{0, 16, PTO_I32}}}}), IsOk());
}

TEST_F(AscendLaneTest, MemoryOfAFormerEpochIsRefused) {
  ASSERT_THAT(Run({{.kernel = "pto_spmd", .args = {{0, 16, PTO_I32}}}}), IsOk());
  const uint64_t epoch = HostOf(0)->epoch();
  HostOf(0)->KillProcess("by the test");
  while (HostOf(0)->epoch() == epoch || !HostOf(0)->AwaitReady(absl::Milliseconds(5)).ok()) {
    std::this_thread::yield();
  }
  // Others have the same addresses now.
  const std::shared_ptr<engine::Allocation> stale = memory_[0];
  NewMemory(0);
  const std::shared_ptr<engine::Allocation> fresh = std::exchange(memory_[0], stale);
  const absl::Status refused = Run({{.kernel = "pto_spmd", .args = {{0, 16, PTO_I32}}}});
  EXPECT_THAT(refused, HasReason(reason::kDeviceFailed));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("memory of the task is gone"));
  memory_[0] = fresh;
  EXPECT_EQ(Get<int32_t>(0, 0, 16), std::vector<int32_t>(16, 0));
  EXPECT_THAT(Run({{.kernel = "pto_spmd", .args = {{0, 16, PTO_I32}}}}), IsOk());
}

TEST_F(AscendLaneTest, TheEndOfTheEngineEndsNoHost) {
  EXPECT_THAT(Run({{.kernel = "pto_spmd", .args = {{0, 16, PTO_I32}}}}), IsOk());
  const pid_t pid = HostOf(0)->pid();
  engine_.reset();
  EXPECT_EQ(HostOf(0)->trouble(), "");
  EXPECT_EQ(HostOf(0)->pid(), pid);
}

TEST_F(AscendLaneTest, ARunThatIsCancelledAtOnceEndsAtOnce) {
  for (int i = 0; i < 20; ++i) {
    const auto run = Start({{.kernel = "pto_spmd", .args = {{0, 16, PTO_I32}}}});
    engine_->Stop(*run, engine::RunState::kCancelled, Error(reason::kRunCancelled, "by the test"));
    observers_[run.get()]->WaitFinished();
  }
  EXPECT_EQ(HostOf(0)->starts(), 1u);
  EXPECT_THAT(Run({{.kernel = "pto_spmd", .args = {{0, 16, PTO_I32}}}}), IsOk());
}

TEST_F(AscendLaneTest, ManyRunsAtOnce) {
  std::vector<std::shared_ptr<engine::Run>> runs;
  for (int i = 0; i < 50; ++i) {
    const auto chip = static_cast<uint32_t>(i % 2);
    runs.push_back(Start(
        {{.kernel = "pto_vector_add", .args = {{0}, {kCount}, {(2 + i) * kCount}}, .chip = chip}}));
  }
  for (const auto& run : runs) EXPECT_THAT(Await(*run), IsOk());
}

}  // namespace
}  // namespace pto::ascend
