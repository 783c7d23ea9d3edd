// Time and memory to build graphs whose dependencies are found, per task, by shape:
//   bazel run --config=release //runtime/graph:access_map_bench -- [TASKS [SHAPE]]
// For comparison, the same edges are named by the tasks, and none has to be found.

#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <initializer_list>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "kernels/registry.h"
#include "runtime/base/log.h"
#include "runtime/graph/builder.h"

namespace pto {
namespace {

int32_t DoNothing(const pto_context*) { return 0; }

constexpr pto_argument_info kReads3[] = {{"out", PTO_INOUT, PTO_DTYPE_ALL},
                                         {"a", PTO_INPUT, PTO_DTYPE_ALL},
                                         {"b", PTO_INPUT, PTO_DTYPE_ALL},
                                         {"c", PTO_INPUT, PTO_DTYPE_ALL}};
constexpr pto_argument_info kReader[] = {{"in", PTO_INPUT, PTO_DTYPE_ALL}};
constexpr uint32_t kSize = sizeof(pto_kernel_info);
// k0 to k3 update their first argument and read as many more; read only reads.
constexpr pto_kernel_info kKernels[] = {
    {kSize, "k0", "", &DoNothing, nullptr, PTO_AIV, kReads3, 1, nullptr, 0, 0},
    {kSize, "k1", "", &DoNothing, nullptr, PTO_AIV, kReads3, 2, nullptr, 0, 0},
    {kSize, "k2", "", &DoNothing, nullptr, PTO_AIV, kReads3, 3, nullptr, 0, 0},
    {kSize, "k3", "", &DoNothing, nullptr, PTO_AIV, kReads3, 4, nullptr, 0, 0},
    {kSize, "read", "", &DoNothing, nullptr, PTO_AIV, kReader, 1, nullptr, 0, 0},
};

class Graph {
 public:
  Graph(const GraphTarget& target, bool find) : builder_(target, {find}), find_(find) {
    for (const pto_kernel_info& info : kKernels) builder_.AddKernel(info.name).value();
    slot_ = builder_.AddSlot("data");
  }

  // Tiles of `height` by `width` elements of a matrix, row by row.
  void AddTiles(int64_t rows, int64_t columns, int64_t height, int64_t width) {
    const int64_t pitch = columns * width;
    const uint32_t layout = builder_.AddLayout(PTO_F32, {height, width}, {pitch, 1}).value();
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t column = 0; column < columns; ++column) {
        builder_.AddTensor(slot_, layout, row * height * pitch + column * width).value();
      }
    }
  }
  uint32_t AddAll(int64_t elements) {
    const uint32_t layout = builder_.AddLayout(PTO_F32, {elements}, {}).value();
    return builder_.AddTensor(slot_, layout, 0).value();
  }

  // `after` counts only when nothing is found.
  void Add(uint32_t kernel, std::initializer_list<uint32_t> args,
           std::initializer_list<uint32_t> after) {
    TaskInput task;
    task.kernel = kernel;
    task.args = args;
    if (!find_) task.dependencies = after;
    builder_.AddTask(task).value();
  }

  std::shared_ptr<const GraphImage> Build() { return builder_.Build().value(); }

 private:
  GraphBuilder builder_;
  const bool find_;
  uint32_t slot_ = 0;
};

// Of this thread: other work on the machine counts less than on a clock.
double CpuNanoseconds() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e9 + static_cast<double>(time.tv_nsec);
}

using Fill = std::function<uint32_t(Graph&)>;

// What to measure; empty means all.
std::string shape;

void Measure(const GraphTarget& target, const std::string& name, const Fill& fill) {
  if (!shape.empty() && shape != name) return;
  for (const bool find : {false, true}) {
    double best = 1e30;
    uint64_t edges = 0;
    double bytes = 0;
    for (int round = 0; round < 9; ++round) {
      const double begin = CpuNanoseconds();
      Graph graph(target, find);
      const uint32_t tasks = fill(graph);
      const std::shared_ptr<const GraphImage> image = graph.Build();
      best = std::min(best, (CpuNanoseconds() - begin) / tasks);
      edges = image->edge_count();
      bytes = static_cast<double>(image->bytes()) / tasks;
    }
    std::printf("%-16s %-6s %8.1f ns/task %10llu edges %6.0f image bytes/task\n", name.c_str(),
                find ? "found" : "named", best, static_cast<unsigned long long>(edges), bytes);
  }
}

void MeasureAll(uint32_t tasks) {
  KernelRegistry kernels;
  for (const pto_kernel_info& info : kKernels) PTO_CHECK(kernels.Add(info).ok(), "refused");
  GraphTarget target;
  target.kernels = &kernels;
  target.chip_clusters = {24};
  const auto side = static_cast<uint32_t>(std::sqrt(tasks));

  Measure(target, "chain", [&](Graph& graph) {
    graph.AddTiles(1, 1, 16, 16);
    graph.Add(0, {0}, {});
    for (uint32_t i = 1; i < tasks; ++i) graph.Add(0, {0}, {i - 1});
    return tasks;
  });
  Measure(target, "independent", [&](Graph& graph) {
    graph.AddTiles(side, side, 16, 16);
    for (uint32_t i = 0; i < side * side; ++i) graph.Add(0, {i}, {});
    return side * side;
  });
  Measure(target, "wavefront", [&](Graph& graph) {
    graph.AddTiles(side, side, 16, 16);
    for (uint32_t row = 0; row < side; ++row) {
      for (uint32_t column = 0; column < side; ++column) {
        const uint32_t at = row * side + column;
        if (row == 0 && column == 0) {
          graph.Add(0, {at}, {});
        } else if (row == 0 || column == 0) {
          const uint32_t from = row == 0 ? at - 1 : at - side;
          graph.Add(1, {at, from}, {from});
        } else {
          graph.Add(2, {at, at - 1, at - side}, {at - 1, at - side});
        }
      }
    }
    return side * side;
  });
  Measure(target, "random", [&](Graph& graph) {
    std::mt19937 random(1);
    graph.AddTiles(side, side, 16, 16);
    graph.Add(0, {0}, {});
    for (uint32_t i = 1; i < side * side; ++i) {
      const uint32_t a = random() % i, b = random() % i, c = random() % i;
      graph.Add(3, {i, a, b, c}, {a, b, c});
    }
    return side * side;
  });
  Measure(target, "column tiles", [&](Graph& graph) {
    graph.AddTiles(1, tasks / 10, 64, 4);
    for (uint32_t i = 0; i < tasks; ++i) {
      const uint32_t column = i % (tasks / 10);
      if (i < tasks / 10) {
        graph.Add(0, {column}, {});
      } else {
        graph.Add(0, {column}, {i - tasks / 10});
      }
    }
    return tasks;
  });
  // All is written, tile after tile is read, all is written, ...
  Measure(target, "tiles and all", [&](Graph& graph) {
    graph.AddTiles(side, side, 16, 16);
    const uint32_t all = graph.AddAll(int64_t{side} * side * 256);
    for (uint32_t round = 0; round < 3; ++round) {
      graph.Add(0, {all}, {});
      for (uint32_t i = 0; i < side * side; ++i) graph.Add(4, {i}, {round * (side * side + 1)});
    }
    graph.Add(0, {all}, {});
    return 3 * side * side + 4;
  });
  Measure(target, "readers", [&](Graph& graph) {
    graph.AddTiles(1, 1, 16, 16);
    for (uint32_t i = 0; i < tasks; ++i) graph.Add(4, {0}, {});
    graph.Add(0, {0}, {});
    return tasks + 1;
  });
}

}  // namespace
}  // namespace pto

int main(int argc, char** argv) {
  if (argc > 2) pto::shape = argv[2];
  pto::MeasureAll(argc > 1 ? static_cast<uint32_t>(std::atoi(argv[1])) : 1'000'000);
}
