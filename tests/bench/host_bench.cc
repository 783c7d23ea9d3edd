// Kernels in a kernel host against the same kernels in the process of the engine, on two executors:
// what a run of one task, many independent tasks, tasks of 20 us and a chain of tasks cost there.
// And the same with a whole daemon: see host_daemon_lines.h.
//
//   bazel run --config=release //tests/bench:host_bench

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "runtime/base/log.h"
#include "runtime/base/pause.h"
#include "runtime/host/testing/host_world.h"
#include "tests/bench/host_daemon_lines.h"
#include "tests/bench/report.h"
#include "tests/bench/samples.h"

namespace pto::bench {
namespace {

using host::testing::HostTask;
using host::testing::HostWorld;

constexpr int kRounds = 5;
constexpr int64_t kHelpNs = 20'000;

int32_t ComputeHere(const pto_context* context) {
  const double until = Seconds() + static_cast<double>(context->scalars[0].i64) / 1e9;
  while (Seconds() < until) {
  }
  return 0;
}

class HostBench {
 public:
  explicit HostBench(Report& report) : report_(report) {
    PTO_CHECK(world_.AddKernel(host_, "noop").ok(), "no kernel");
    world_.AddBuiltIn();
  }

  void OneTask() {
    std::vector<double> built_in;
    std::vector<double> hosted;
    const auto here = world_.Compile({{.kernel = "nothing"}});
    const auto there = world_.Compile({{.kernel = "noop"}});
    for (int i = 0; i < 4000; ++i) {
      built_in.push_back(Time(here));
      hosted.push_back(Time(there));
    }
    // No bound: a built-in kernel is a call in the thread that waits for the run.
    Add("one_task_p50", Median(hosted) * 1e6, Median(built_in) * 1e6, 0, "us");
  }

  void Independent() {
    constexpr size_t kTasks = 100'000;
    Compare("independent", kTasks, 3, [](const std::string& kernel) {
      return std::vector<HostTask>(kTasks, HostTask{.kernel = kernel});
    });
  }

  // Tasks of 20 us, which both executors and both threads of the host have to do.
  void ShortTasks() {
    static constexpr int64_t kNanos = 20'000;
    static const pto_kernel_info kInfo = [] {
      static constexpr pto_scalar_info kNumber = {"ns", PTO_INTEGER};
      pto_kernel_info info = {};
      info.struct_size = sizeof info;
      info.name = "compute_here";
      info.description = "Computes for so many nanoseconds.";
      info.function = &ComputeHere;
      info.default_core = PTO_AIV;
      info.scalars = &kNumber;
      info.scalar_count = 1;
      return info;
    }();
    PTO_CHECK(world_.kernels.Add(kInfo).ok() && world_.AddKernel(host_, "compute").ok(),
              "no kernel");
    constexpr size_t kTasks = 2000;
    const auto make = [](const std::string& kernel) {
      return std::vector<HostTask>(kTasks, HostTask{.kernel = kernel, .scalars = {kNanos}});
    };
    const auto here = world_.Compile(make("compute_here"));
    const auto there = world_.Compile(make("compute"));
    Rounds built_in;
    Rounds hosted;
    for (int round = 0; round < 2 * kRounds; ++round) {
      built_in.Add(Time(here) / kTasks);
      hosted.Add(Time(there) / kTasks);
    }
    Add("task_of_20us", hosted.median() * 1e6, built_in.median() * 1e6, 1.05, "us");
  }

  // Against two threads that answer each other through one word: the bound of any hand-over.
  void Chain() {
    constexpr uint32_t kTasks = 10'000;
    std::vector<HostTask> tasks(kTasks, HostTask{.kernel = "noop"});
    for (uint32_t i = 1; i < kTasks; ++i) tasks[i].after = {i - 1};
    const auto image = world_.Compile(tasks);
    Rounds chain;
    Rounds pong;
    for (int round = 0; round < kRounds; ++round) {
      chain.Add(Time(image) / kTasks);
      pong.Add(PingPong());
    }
    Add("chain_per_task", chain.lowest() * 1e6, pong.lowest() * 1e6, 4, "us", "ping_pong");
  }

 private:
  double Time(const std::shared_ptr<const engine::GraphImage>& image) {
    const double begin = Seconds();
    const std::shared_ptr<engine::Run> run = world_.Start(image, 0, kHelpNs);
    const absl::Status ended = world_.Await(*run);
    PTO_CHECK(ended.ok(), std::string(ended.message()));
    return Seconds() - begin;
  }

  template <typename Make>
  void Compare(const std::string& name, size_t tasks, double bound, Make make) {
    const auto here = world_.Compile(make("nothing"));
    const auto there = world_.Compile(make("noop"));
    Rounds built_in;
    Rounds hosted;
    for (int round = 0; round < kRounds; ++round) {
      built_in.Add(Time(here) / static_cast<double>(tasks));
      hosted.Add(Time(there) / static_cast<double>(tasks));
    }
    Add(name + "_per_task", hosted.lowest() * 1e6, built_in.lowest() * 1e6, bound, "us");
  }

  static double PingPong() {
    constexpr uint32_t kTurns = 100'000;
    alignas(64) std::atomic<uint32_t> word{0};
    std::thread other([&] {
      for (uint32_t turn = 1; turn < 2 * kTurns; turn += 2) {
        while (word.load(std::memory_order_acquire) != turn) Pause();
        word.store(turn + 1, std::memory_order_release);
      }
    });
    const double begin = Seconds();
    for (uint32_t turn = 0; turn < 2 * kTurns; turn += 2) {
      word.store(turn + 1, std::memory_order_release);
      while (word.load(std::memory_order_acquire) != turn + 2) Pause();
    }
    const double taken = Seconds() - begin;
    other.join();
    return taken / kTurns;
  }

  void Add(const std::string& name, double value, double against, double bound,
           const std::string& unit, const std::string& reference = "built_in") {
    Line line;
    line.name = name;
    line.value = value;
    line.unit = unit;
    line.against = reference;
    line.against_value = against;
    if (bound > 0) line.target = Target::AtMost(bound);
    report_.Add(line);
  }

  Report& report_;
  HostWorld world_;
  HostWorld::Host host_ = world_.AddHost();
};

}  // namespace
}  // namespace pto::bench

int main() {
  pto::bench::Report report(pto::bench::Report::Format::kTable);
  pto::bench::HostBench bench(report);
  bench.OneTask();
  bench.Independent();
  bench.ShortTasks();
  bench.Chain();
  pto::bench::MeasureHostsOfDaemon(report);
  return report.ok() ? 0 : 1;
}
