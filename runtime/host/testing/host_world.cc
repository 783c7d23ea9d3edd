#include "runtime/host/testing/host_world.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/error.h"
#include "runtime/base/log.h"
#include "runtime/base/sanitized.h"
#include "runtime/chip/sim/sim_chip.h"
#include "runtime/graph/builder.h"
#include "runtime/host/host_lane.h"

namespace pto::host::testing {
namespace {

// Programs and libraries are where the tests begin.
constexpr char kProgram[] = "runtime/host/kernel_host";
constexpr char kObjects[] = "runtime/host/testing/kernels/";

int32_t Nothing(const pto_context*) { return 0; }

}  // namespace

HostOptions TestHostOptions(const std::string& name) {
  HostOptions options;
  options.name = name;
  options.command.arguments = {kProgram};
  options.runners = 2;
  if (kSanitized) {
    // A sanitizer needs much memory, threads and files.
    options.sandbox.system_calls = options.sandbox.file_system = 0;
    return options;
  }
  options.sandbox.data_bytes = uint64_t{512} << 20;
  options.sandbox.files = 64;
  options.sandbox.file_bytes = uint64_t{64} << 20;
  return options;
}

FileDescriptor TestObject(const std::string& file) {
  std::ifstream in(absl::StrCat(kObjects, file, ".so"), std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  PTO_CHECK(!bytes.empty(), "a test object is missing");
  FileDescriptor memory(memfd_create(file.c_str(), MFD_CLOEXEC));
  PTO_CHECK(write(memory.get(), bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()),
            "a test object cannot be copied");
  return memory;
}

size_t OpenDescriptors() {
  const auto files = std::filesystem::directory_iterator("/proc/self/fd");
  return static_cast<size_t>(std::distance(begin(files), end(files)));
}

std::vector<int> Children() {
  std::vector<int> children;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream in(task.path() / "children");
    for (int pid = 0; in >> pid;) children.push_back(pid);
  }
  return children;
}

HostWorld::HostWorld(absl::Duration lane_grace)
    : chips_(engine::testing::MakeTestChips(std::vector<uint32_t>(kChips, 2))) {
  const auto budget = std::make_shared<engine::SharingBudget>(64, uint64_t{1} << 30);
  for (const std::shared_ptr<engine::Chip>& chip : chips_) {
    memory_.push_back(chip->memory().AllocateHost(kBytes).value());
    do {
      PTO_CHECK(memory_.back()->PrepareShare(budget).ok(), "test memory cannot be shared");
    } while (!memory_.back()->ShareSome().value());
  }
  engine::Engine::Options options;
  options.chips = chips_;
  options.timers = &timers_;
  options.executors = 2;
  options.lane_grace_ns = absl::ToInt64Nanoseconds(lane_grace);
  engine_ = std::make_unique<engine::Engine>(std::move(options));
}

HostWorld::~HostWorld() { engine_.reset(); }

HostWorld::Host HostWorld::AddHost(HostOptions options) {
  Host host;
  host.keeper = supervisor.Start(std::move(options));
  host.port = engine_->AddLane(std::make_shared<HostLane>(host.keeper));
  for (const auto& memory : memory_) {
    PTO_CHECK(host.keeper->AddMemory(memory).ok(), "test memory is refused");
  }
  return host;
}

absl::Status HostWorld::AddKernel(Host& host, const std::string& entry, const std::string& name) {
  const auto hosted = host.keeper->Load(TestObject(), entry, "test_kernels.so", absl::Seconds(20));
  if (!hosted.ok()) return hosted.status();
  pto_kernel_info info = (*hosted)->info();
  if (!name.empty()) info.name = name.c_str();
  const auto kernel = Kernel::OnLane(info, hosted->get(), *hosted, host.port);
  if (!kernel.ok()) return kernel.status();
  return kernels.Add(*kernel);
}

absl::Status HostWorld::AddFile(Host& host, const std::string& object, HostAbi abi,
                                const std::string& name, const std::string& signature) {
  HostedObject load;
  load.object = FileDescriptor(
      open(absl::StrCat("tests/kernels/", object, ".so").c_str(), O_RDONLY | O_CLOEXEC));
  PTO_CHECK(load.object.valid(), object);
  load.file_name = object + ".so";
  load.abi = abi;
  load.name = name;
  load.signature = signature;
  const auto hosted = host.keeper->Load(std::move(load), absl::Seconds(20));
  if (!hosted.ok()) return hosted.status();
  const auto kernel = Kernel::OnLane((*hosted)->info(), hosted->get(), *hosted, host.port);
  if (!kernel.ok()) return kernel.status();
  return kernels.Add(*kernel);
}

void HostWorld::AddDomain(Host& host, uint64_t number, uint64_t offset, uint64_t bytes) {
  HostedDomain domain;
  domain.number = number;
  for (const auto& memory : memory_) {
    domain.windows.push_back({memory->chip(), memory->data() + offset, bytes});
  }
  PTO_CHECK(host.keeper->AddDomain(domain).ok(), "a test domain is refused");
}

void HostWorld::AddBuiltIn() {
  static const pto_kernel_info kInfo = [] {
    pto_kernel_info info = {};
    info.struct_size = sizeof info;
    info.name = "nothing";
    info.description = "Does nothing.";
    info.function = &Nothing;
    info.default_core = PTO_AIV;
    return info;
  }();
  PTO_CHECK(kernels.Add(kInfo).ok(), "a test kernel is refused");
}

std::shared_ptr<const engine::GraphImage> HostWorld::Compile(const std::vector<HostTask>& tasks) {
  engine::GraphTarget target;
  target.kernels = &kernels;
  target.chip_clusters = std::vector<uint32_t>(kChips, 2);
  engine::GraphBuilder builder(target, engine::GraphBuilder::Options{.find_dependencies = false});
  for (uint32_t chip = 0; chip < kChips; ++chip) builder.AddSlot(absl::StrCat("memory", chip));
  const auto tensors = [&](const HostTask& task, uint32_t chip) {
    std::vector<uint32_t> args;
    for (const TestView& view : task.args) {
      const uint32_t layout = builder.AddLayout(view.dtype, {view.count}, {}).value();
      args.push_back(builder.AddTensor(chip, layout, view.first).value());
    }
    return args;
  };
  for (const HostTask& task : tasks) {
    engine::TaskInput input;
    input.kernel = builder.AddKernel(task.kernel).value();
    std::vector<uint32_t> vector_kernels;
    for (const std::string& kernel : task.vector_kernels) {
      vector_kernels.push_back(kernel.empty() ? engine::ImageDetail::kNone
                                              : builder.AddKernel(kernel).value());
    }
    input.vector_kernels = vector_kernels;
    std::vector<engine::ScalarInput> scalars;
    for (const int64_t value : task.scalars) {
      scalars.emplace_back();
      // Of whatever type the kernel takes.
      scalars.back().kind = engine::ScalarInput::Kind::kBits;
      scalars.back().bits = static_cast<uint64_t>(value);
    }
    input.scalars = scalars;
    std::vector<uint32_t> args;
    std::vector<std::vector<uint32_t>> member_args;
    std::vector<engine::TaskInput::Member> members;
    for (const uint32_t chip : task.members) member_args.push_back(tensors(task, chip));
    for (size_t i = 0; i < task.members.size(); ++i) {
      members.push_back({task.members[i], member_args[i]});
    }
    if (task.members.empty()) args = tensors(task, task.chip);
    input.args = args;
    input.members = members;
    input.chip = task.chip;
    input.block_num = task.block_num;
    input.dependencies = task.after;
    input.timeout_ns = task.timeout_ns;
    input.require_sync_start = task.together;
    const absl::StatusOr<uint32_t> added = builder.AddTask(input);
    PTO_CHECK(added.ok(), std::string(added.status().message()));
  }
  return builder.Build().value();
}

std::shared_ptr<engine::Run> HostWorld::Start(const std::vector<HostTask>& tasks,
                                              int64_t timeout_ns) {
  return Start(Compile(tasks), timeout_ns);
}

std::shared_ptr<engine::Run> HostWorld::Start(std::shared_ptr<const engine::GraphImage> image,
                                              int64_t timeout_ns, int64_t help_ns) {
  auto slots = std::make_shared<engine::RunSlots>();
  for (const auto& memory : memory_) slots->push_back({memory, 0});
  engine::RunSpec spec;
  spec.image = std::move(image);
  spec.slots = std::move(slots);
  const auto observer = std::make_shared<engine::testing::TestObserver>();
  spec.observer = observer;
  spec.timeout_ns = timeout_ns;
  std::shared_ptr<engine::Run> run = engine_->Prepare(std::move(spec));
  observers_[run.get()] = observer;
  engine_->Start(run, help_ns);
  return run;
}

absl::Status HostWorld::Await(engine::Run& run) {
  observers_[&run]->WaitFinished();
  const std::vector<absl::Status> errors = run.errors();
  if (!errors.empty()) return errors[0];
  return run.state() == engine::RunState::kSucceeded
             ? absl::OkStatus()
             : absl::InternalError("it has not succeeded, and says no reason");
}

void HostWorld::Notify(uint32_t chip, int64_t word, int64_t value) {
  PTO_CHECK(engine_->Notify(memory<int64_t>(chip) + word, PTO_I64, PTO_SET, value).ok(),
            "a signal is refused");
}

void HostWorld::Cancel(engine::Run& run) {
  engine_->Stop(run, engine::RunState::kCancelled, Error(reason::kRunCancelled, "by the test"));
}

}  // namespace pto::host::testing
