// The cost of a daemon in which everything waits.

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "tests/harness/daemon_process.h"
#include "tests/harness/sanitizer.h"
#include "tests/integration/world.h"

namespace pto::testing {
namespace {

constexpr uint32_t kChips = 16;
constexpr uint32_t kVectorBlocks = 48;  // all vector cores of a chip
constexpr uint32_t kCubeBlocks = 24;    // and all its cube cores

// What all threads of a process have had of the CPUs.
struct CpuUse {
  absl::Duration time;
  int64_t turns = 0;  // how often one of them ran
};
CpuUse CpuUseOf(pid_t pid) {
  CpuUse use;
  for (const auto& thread :
       std::filesystem::directory_iterator(absl::StrCat("/proc/", pid, "/task"))) {
    std::ifstream file(thread.path() / "schedstat");
    int64_t nanoseconds = 0, waited = 0, turns = 0;
    if (!(file >> nanoseconds >> waited >> turns)) continue;
    use.time += absl::Nanoseconds(nanoseconds);
    use.turns += turns;
  }
  return use;
}

// On each chip, blocks that wait for the chip's signal hold all cores.
v1::GraphSpec HoldAllCores() {
  v1::GraphSpec graph;
  for (uint32_t chip = 0; chip < kChips; ++chip) {
    v1::TensorSpec& signal = *graph.add_tensors();
    signal.set_name(absl::StrCat("signal", chip));
    signal.set_dtype(v1::I64);
    for (const v1::Core core : {v1::AIV, v1::AIC}) {
      v1::TaskSpec& task = *graph.add_tasks();
      task.set_kernel("hold");
      task.set_chip(absl::StrCat("chips/", chip));
      task.add_args(signal.name());
      task.add_scalars()->set_i64(1);
      task.mutable_launch()->set_core(core);
      task.mutable_launch()->set_block_num(core == v1::AIV ? kVectorBlocks : kCubeBlocks);
    }
  }
  return graph;
}

TEST(IdleTest, ADaemonWithAThousandWaitingFibersTakesNoCpu) {
  DaemonProcess daemon({absl::StrCat("--sim-chips=", kChips)});
  Api& api = daemon.api();
  const std::string session = MakeSession(api);
  for (uint32_t chip = 0; chip < kChips; ++chip) {
    MakeBuffer(api, session, absl::StrCat("signal", chip), 8, chip);
  }
  const v1::Run run = Submit(api, session, HoldAllCores());
  ASSERT_TRUE(Eventually([&] {
    uint32_t busy = 0;
    for (uint32_t chip = 0; chip < kChips; ++chip) busy += GetChip(api, chip).busy_cores();
    return busy == kChips * (kVectorBlocks + kCubeBlocks);
  }));

  // Not a synchronisation: the test measures how little happens in this time.
  const absl::Duration window = absl::Seconds(3);
  const absl::Duration before = CpuUseOf(daemon.pid()).time;
  std::this_thread::sleep_for(absl::ToChronoMilliseconds(window));
  const absl::Duration used = CpuUseOf(daemon.pid()).time - before;
  RecordProperty("cpu", absl::FormatDuration(used));
  std::printf("%u waiting fibers: %s of CPU in %s\n", kChips * (kVectorBlocks + kCubeBlocks),
              absl::FormatDuration(used).c_str(), absl::FormatDuration(window).c_str());
  EXPECT_LT(used, window / (kAddressSanitizer ? 10 : 100));

  EXPECT_EQ(GetRun(api, run.name()).state(), v1::Run::RUNNING);
  CancelRun(api, run.name());
  EXPECT_EQ(WaitForRun(api, run.name()).state(), v1::Run::CANCELLED);
}

// Two of its threads look at the chips each second, and two of gRPC's at their timers.
TEST(IdleTest, ADaemonThatNobodyUsesSleeps) {
  DaemonProcess daemon({"--sim-chips=8", "--metrics-listen=127.0.0.1:0"});
  const std::string session = MakeSession(daemon.api());
  DeleteSession(daemon.api(), session);

  // Not synchronisations: the test counts what happens in this time.
  std::this_thread::sleep_for(std::chrono::seconds(1));
  const absl::Duration window = absl::Seconds(4);
  const int64_t before = CpuUseOf(daemon.pid()).turns;
  std::this_thread::sleep_for(absl::ToChronoMilliseconds(window));
  const int64_t turns = CpuUseOf(daemon.pid()).turns - before;
  std::printf("idle: threads ran %lld times in %s\n", static_cast<long long>(turns),
              absl::FormatDuration(window).c_str());
  EXPECT_LT(turns, 25 * absl::ToInt64Seconds(window));
}

}  // namespace
}  // namespace pto::testing
