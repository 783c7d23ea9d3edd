// An open run of millions of tasks, or of a million segments. Its memory depends on how many tasks
// have not ended, and the time for a segment does not depend on how many came before.

#include <gtest/gtest.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <memory>
#include <utility>
#include <vector>

#include "kernels/registry.h"
#include "runtime/engine/open_run.h"
#include "runtime/engine/testing/engine_testing.h"
#include "runtime/engine/testing/open_run_testing.h"

namespace pto::engine {
namespace {

using ::pto::engine::testing::OpenRunWatcher;

// What is not optimised, or checked while it runs, takes much longer for each.
#ifdef NDEBUG
constexpr uint32_t kTasks = 10'000'000;
constexpr uint32_t kSegments = 1'000'000;
#else
constexpr uint32_t kTasks = 1'000'000;
constexpr uint32_t kSegments = 100'000;
#endif
constexpr uint32_t kOfSegment = 1000;
constexpr uint32_t kCells = 64;
constexpr uint64_t kMaxLive = 20'000;
constexpr int64_t kMaxGrowth = 8 << 20;

int32_t Nothing(const pto_context*) { return 0; }

const KernelRegistry& Kernels() {
  static const KernelRegistry* const kernels = [] {
    static const pto_argument_info arguments[] = {{"from", PTO_INPUT, PTO_DTYPE_ALL},
                                                  {"to", PTO_INOUT, PTO_DTYPE_ALL}};
    static const pto_kernel_info info = {sizeof(pto_kernel_info),
                                         "nothing",
                                         "Does nothing.",
                                         &Nothing,
                                         nullptr,
                                         PTO_AIV,
                                         arguments,
                                         2,
                                         nullptr,
                                         0,
                                         0,
                                         0,
                                         0};
    auto* registry = new KernelRegistry;
    EXPECT_TRUE(registry->Add(info).ok());
    return registry;
  }();
  return *kernels;
}

int64_t ResidentBytes() {
  std::ifstream file("/proc/self/statm");
  int64_t total = 0;
  int64_t resident = 0;
  file >> total >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

// Time of the CPU for all threads: what else runs on the machine does not count.
int64_t CpuNanos() {
  timespec now = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return now.tv_sec * int64_t{1'000'000'000} + now.tv_nsec;
}

TEST(OpenRunLongTest, MemoryDoesNotGrowWithTheTasksThatHaveEnded) {
  Engine::Options options;
  options.chips = engine::testing::MakeTestChips({2});
  options.executors = 2;
  Engine engine(std::move(options));
  const std::shared_ptr<HostAllocation> memory =
      engine.chips()[0]->memory().AllocateHost(kCells * sizeof(uint64_t)).value();
  const auto slots = std::make_shared<const RunSlots>(RunSlots{{memory, 0}});
  const auto watcher = std::make_shared<OpenRunWatcher>();
  OpenRun::Options run_options;
  run_options.engine = &engine;
  run_options.observer = watcher;
  run_options.record_level = RecordLevel::kFailed;
  const std::shared_ptr<OpenRun> run = OpenRun::Make(run_options);

  GraphTarget target;
  target.kernels = &Kernels();
  target.chip_clusters = {2};
  OpenGraph graph(target);
  TaskInput task;
  task.kernel = graph.AddKernel("nothing").value();
  const uint32_t slot = graph.AddSlot("cells");
  const uint32_t layout = graph.AddLayout(PTO_U64, {}, {}).value();
  std::vector<uint32_t> cells;
  for (uint32_t i = 0; i < kCells; ++i) {
    cells.push_back(graph.AddTensor(slot, layout, i).value());
  }

  int64_t first = 0;  // when all is warm
  int64_t most = 0;
  for (uint32_t i = 0; i < kTasks; ++i) {
    const uint32_t args[] = {cells[(i * 7 + 3) % kCells], cells[i % kCells]};
    task.args = args;
    ASSERT_TRUE(graph.AddTask(task).ok());
    if (graph.uncut_tasks() < kOfSegment) continue;
    run->Append(graph.Cut().value(), slots);
    watcher->WaitUntil([&] { return run->live_tasks() < kMaxLive; });
    graph.ForgetBefore(run->ended_before());
    if (i < kTasks / 10) {
      first = std::max(first, ResidentBytes());
    } else {
      most = std::max(most, ResidentBytes());
    }
  }
  run->Close();
  watcher->WaitFinished();
  EXPECT_EQ(run->state(), RunState::kSucceeded);
  EXPECT_EQ(run->counts().done, kTasks);
  EXPECT_LT(most - first, kMaxGrowth);
  RecordProperty("resident_kib", static_cast<int>(most >> 10));
  RecordProperty("growth_kib", static_cast<int>((most - first) >> 10));
}

// Segments of one task each.
TEST(OpenRunLongTest, ASegmentTakesAsLongHoweverManyCameBefore) {
  constexpr uint64_t kLive = 1000;
  Engine::Options options;
  options.chips = engine::testing::MakeTestChips({2});
  options.executors = 2;
  Engine engine(std::move(options));
  const std::shared_ptr<HostAllocation> memory =
      engine.chips()[0]->memory().AllocateHost(kCells * sizeof(uint64_t)).value();
  const auto slots = std::make_shared<const RunSlots>(RunSlots{{memory, 0}});
  const auto watcher = std::make_shared<OpenRunWatcher>();
  OpenRun::Options run_options;
  run_options.engine = &engine;
  run_options.observer = watcher;
  run_options.record_level = RecordLevel::kFailed;
  const std::shared_ptr<OpenRun> run = OpenRun::Make(run_options);

  GraphTarget target;
  target.kernels = &Kernels();
  target.chip_clusters = {2};
  OpenGraph graph(target);
  TaskInput task;
  task.kernel = graph.AddKernel("nothing").value();
  const uint32_t slot = graph.AddSlot("cells");
  const uint32_t layout = graph.AddLayout(PTO_U64, {}, {}).value();
  std::vector<uint32_t> cells;
  for (uint32_t i = 0; i < kCells; ++i) {
    cells.push_back(graph.AddTensor(slot, layout, i).value());
  }

  constexpr uint32_t kTenth = kSegments / 10;
  int64_t begin_ns = CpuNanos();
  double first_ns = 0;  // for each of the first tenth
  int64_t warm = 0;
  uint64_t first_work = 0;
  for (uint32_t i = 0; i < kSegments; ++i) {
    if (i == kTenth) {
      first_ns = static_cast<double>(CpuNanos() - begin_ns) / kTenth;
      first_work = graph.work();
      warm = ResidentBytes();
    }
    if (i == kSegments - kTenth) begin_ns = CpuNanos();
    const uint32_t args[] = {cells[(i * 7 + 3) % kCells], cells[i % kCells]};
    task.args = args;
    ASSERT_TRUE(graph.AddTask(task).ok());
    ASSERT_TRUE(run->Append(graph.Cut().value(), slots));
    watcher->WaitUntil([&] { return run->live_tasks() < kLive; });
    graph.ForgetBefore(run->ended_before());
  }
  const double last_ns = static_cast<double>(CpuNanos() - begin_ns) / kTenth;
  const int64_t growth = ResidentBytes() - warm;
  run->Close();
  watcher->WaitFinished();
  EXPECT_EQ(run->state(), RunState::kSucceeded);
  EXPECT_EQ(run->counts().done, kSegments);
  std::printf(
      "%u segments: %.0f ns for each of the first tenth, %.0f ns of the last; %.2f steps "
      "of the first, %.2f of all; resident +%lld KiB\n",
      kSegments, first_ns, last_ns, static_cast<double>(first_work) / kTenth,
      static_cast<double>(graph.work()) / kSegments, static_cast<long long>(growth >> 10));
  EXPECT_LE(last_ns, 2 * first_ns);
  EXPECT_LE(graph.work() / 10, 2 * first_work);
  EXPECT_LT(growth, kMaxGrowth);
}

}  // namespace
}  // namespace pto::engine
