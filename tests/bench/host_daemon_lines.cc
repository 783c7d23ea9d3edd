#include "tests/bench/host_daemon_lines.h"

#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/time.h"
#include "client/client.h"
#include "runtime/base/log.h"
#include "tests/bench/samples.h"
#include "tests/harness/daemon_process.h"
#include "tests/integration/own_kernels.h"

namespace pto::bench {
namespace {

void Check(const absl::Status& status) { PTO_CHECK(status.ok(), status.ToString().c_str()); }

template <typename T>
T Get(absl::StatusOr<T> value) {
  Check(value.status());
  return *std::move(value);
}

int64_t MonotonicNanos() {
  timespec time = {};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

// The processor time of a process, in seconds.
double ProcessorSeconds(int64_t pid) {
  double sum = 0;
  for (const auto& task :
       std::filesystem::directory_iterator(absl::StrCat("/proc/", pid, "/task"))) {
    std::ifstream stat(task.path() / "schedstat");
    double nanos = 0;
    if (stat >> nanos) sum += nanos / 1e9;
  }
  return sum;
}

double ResidentMiB(int64_t pid) {
  std::ifstream in(absl::StrCat("/proc/", pid, "/status"));
  for (std::string word; in >> word;) {
    double kib = 0;
    if (word == "VmRSS:" && in >> kib) return kib / 1024;
  }
  return 0;
}

// Ids of graphs have no underscores.
std::string GraphOf(const std::string& kernel) { return absl::StrReplaceAll(kernel, {{"_", "-"}}); }

class DaemonLines {
 public:
  explicit DaemonLines(Report& report)
      : report_(report),
        client_(testing::ConnectTo(daemon_)),
        session_(Get(client_.CreateSession())) {
    for (const char* const kernel : {"noop", "write_time"}) {
      KernelOptions options;
      options.entry = kernel;
      options.id = absl::StrCat("own_", kernel);
      Check(session_.RegisterKernel(testing::TestKernels(), options).status());
    }
  }

  void OneTask() {
    for (const char* const kernel : {"noop", "own_noop"}) {
      GraphBuilder graph;
      graph.Task(kernel, 0, {});
      Check(session_.Register(GraphOf(kernel), graph).status());
    }
    LatencyRounds built_in;
    LatencyRounds own;
    for (int round = 0; round < 10; ++round) {
      built_in.Add(Launches(GraphOf("noop")));
      own.Add(Launches(GraphOf("own_noop")));
    }
    Line line;
    line.name = "one_task_run_p50";
    line.value = own.p50_us();
    line.unit = "us";
    line.against = "built_in_run";
    line.against_value = built_in.p50_us();
    line.target = Target::AtMost(1.6);
    report_.Add(line);
  }

  // A thread of this process stores to memory of the session, as a kernel of it would; a task waits
  // for the word, and the next one notes when it starts.
  void ForeignStore() {
    const auto words = Get(session_.CreateTensor<int64_t>(0, {64}));
    const MappedBuffer map = Get(words.buffer().Map());
    const std::span<int64_t> data = map.as<int64_t>();
    GraphBuilder graph;
    const TaskRef wait =
        graph.WaitFor(graph.Tensor("word", words.buffer(), v1::I64, {1}, {}, 0), v1::GE, 1);
    graph.Task("own_write_time", 0, {graph.Tensor("time", words.buffer(), v1::I64, {1}, {}, 32)})
        .After(wait);
    Check(session_.Register("store", graph).status());
    std::vector<double> late;
    for (int i = 0; i < 300; ++i) {
      std::atomic_ref(data[0]).store(0);
      const Run run = Get(session_.Launch("store"));
      // Long enough for the wait to have begun, and for everybody to sleep.
      usleep(2000);
      const int64_t stored_ns = MonotonicNanos();
      std::atomic_ref(data[0]).store(1);
      Check(run.Wait().status());
      late.push_back(static_cast<double>(data[32] - stored_ns) / 1e3);
    }
    AddAbsolute("foreign_store_to_start_p50", Median(late), "us", 50);
  }

  void Idle() {
    const int64_t pid = Get(client_.ListHosts()).at(0).pid();
    // What it does after its last run.
    usleep(500'000);
    constexpr double kSeconds = 3;
    const double before = ProcessorSeconds(pid);
    usleep(static_cast<useconds_t>(kSeconds * 1e6));
    AddAbsolute("idle_host_cpu", (ProcessorSeconds(pid) - before) / kSeconds * 100, "%", 0.1);
    AddAbsolute("idle_host_memory", ResidentMiB(pid), "MiB", 20);
  }

 private:
  std::vector<double> Launches(const std::string& graph) {
    RunOptions options;
    options.wait = absl::Seconds(10);
    std::vector<double> seconds;
    for (int i = 0; i < 500; ++i) {
      const double begin = Seconds();
      Check(session_.Launch(graph, options).status());
      seconds.push_back(Seconds() - begin);
    }
    return seconds;
  }

  void AddAbsolute(const std::string& name, double value, const std::string& unit, double bound) {
    Line line;
    line.name = name;
    line.value = value;
    line.unit = unit;
    line.against = "bound";
    line.against_value = bound;
    line.target = Target::AtMost(1);
    report_.Add(line);
  }

  Report& report_;
  testing::DaemonProcess daemon_;
  Client client_;
  Session session_;
};

}  // namespace

void MeasureHostsOfDaemon(Report& report) {
  DaemonLines lines(report);
  lines.OneTask();
  lines.ForeignStore();
  lines.Idle();
}

}  // namespace pto::bench
