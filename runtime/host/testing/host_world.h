#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "kernels/registry.h"
#include "runtime/base/timer.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/lane/lane_port.h"
#include "runtime/engine/testing/engine_testing.h"
#include "runtime/host/host_keeper.h"
#include "runtime/host/host_supervisor.h"

namespace pto::host::testing {

// A view of a chip's memory, in elements.
struct TestView {
  int64_t first = 0;
  int64_t count = 1;
  uint32_t dtype = PTO_I64;
};

struct HostTask {
  std::string kernel;
  std::vector<TestView> args = {};
  std::vector<int64_t> scalars = {};  // integers and numbers of domains
  uint32_t chip = 0;
  std::vector<uint32_t> members = {};  // chips, in place of `chip`
  std::vector<std::string> vector_kernels = {};
  uint32_t block_num = 1;
  std::vector<uint32_t> after = {};
  int64_t timeout_ns = 0;
  bool together = false;
};

// The options of a host that runs the program of //runtime/host:kernel_host, as tests want it.
HostOptions TestHostOptions(const std::string& name = "host");

// The kernels of testing/kernels, in a file that only memory has.
FileDescriptor TestObject(const std::string& file = "test_kernels");

// The descriptors and the children of this process.
size_t OpenDescriptors();
std::vector<int> Children();

// An engine with two chips and 1 MiB of memory on each, which hosts see.
class HostWorld {
 public:
  static constexpr uint32_t kChips = 2;
  static constexpr uint64_t kBytes = uint64_t{1} << 20;

  explicit HostWorld(absl::Duration lane_grace = absl::Seconds(5));
  ~HostWorld();

  // A host with the memory of all chips.
  struct Host {
    std::shared_ptr<HostKeeper> keeper;
    std::shared_ptr<engine::LanePort> port;
  };
  Host AddHost(HostOptions options = TestHostOptions());
  // Adds a kernel of TestObject under its name, or another.
  absl::Status AddKernel(Host& host, const std::string& entry, const std::string& name = "");
  // Adds a kernel of our own ABI: an object of tests/kernels, without its suffix.
  absl::Status AddOwn(Host& host, const std::string& object) {
    return AddFile(host, object, HostAbi::kOwn, "", "");
  }
  // Adds a kernel of the PTO ABI: an object of tests/kernels, without its suffix.
  absl::Status AddPto(Host& host, const std::string& object, const std::string& name,
                      const std::string& signature) {
    return AddFile(host, object, HostAbi::kPto, name, signature);
  }
  // Makes the memory of all chips the windows of a domain, of which chip i is rank i.
  void AddDomain(Host& host, uint64_t number, uint64_t offset = 0, uint64_t bytes = kBytes);
  // A kernel that runs in this process, and does nothing.
  void AddBuiltIn();

  std::shared_ptr<engine::Run> Start(const std::vector<HostTask>& tasks, int64_t timeout_ns = 0);
  // The same in two steps, to start one image several times.
  std::shared_ptr<const engine::GraphImage> Compile(const std::vector<HostTask>& tasks);
  std::shared_ptr<engine::Run> Start(std::shared_ptr<const engine::GraphImage> image,
                                     int64_t timeout_ns, int64_t help_ns = 0);
  // The first error of a run that has ended; OK if it succeeded.
  absl::Status Await(engine::Run& run);
  absl::Status Run(const std::vector<HostTask>& tasks) { return Await(*Start(tasks)); }
  void Cancel(engine::Run& run);
  engine::Engine& engine() { return *engine_; }
  // Changes a word of a chip's memory from outside.
  void Notify(uint32_t chip, int64_t word, int64_t value);

  template <typename T>
  T* memory(uint32_t chip) {
    return reinterpret_cast<T*>(memory_[chip]->data());
  }

  KernelRegistry kernels;
  HostSupervisor supervisor;

 private:
  absl::Status AddFile(Host& host, const std::string& object, HostAbi abi, const std::string& name,
                       const std::string& signature);

  std::vector<std::shared_ptr<engine::Chip>> chips_;
  std::vector<std::shared_ptr<engine::HostAllocation>> memory_;
  // A run forgets its observer when it has ended.
  std::map<const engine::Run*, std::shared_ptr<engine::testing::TestObserver>> observers_;
  TimerQueue timers_{Clock::Real()};
  TimerThread timer_thread_{timers_};
  std::unique_ptr<engine::Engine> engine_;
};

}  // namespace pto::host::testing
