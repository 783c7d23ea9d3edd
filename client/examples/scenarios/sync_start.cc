// Tasks whose blocks start together, competing for one chip. Each block writes its number to its
// own line, so tasks wait for each other only because of cores.
//
// The reference system's MIX tasks write a line from each of a cluster's three cores; here only the
// cube core does. The vector cores can run a kernel, but with the same arguments, and every
// built-in kernel writes according to its block index, on any core. Three cores would write the
// same number to the same line. A MIX block still needs its whole cluster.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/examples/scenarios/list.h"
#include "client/examples/scenarios/scene.h"
#include "runtime/base/status_macros.h"

namespace pto::scenarios {
namespace {

constexpr int64_t kLine = 16;  // floats in 64 bytes

struct Blocks {
  v1::Core core;
  uint32_t count;
  bool sync_start;
};

absl::Status RunBlocks(Client& client, const Options& options,
                       std::vector<Blocks> (*make)(uint32_t clusters)) {
  PTO_ASSIGN_OR_RETURN(Scene scene, Scene::Create(client, options));
  PTO_ASSIGN_OR_RETURN(const uint32_t clusters, ClustersOf(client, scene.chip(0)));
  std::vector<Blocks> tasks = make(clusters);
  int64_t lines = 0;
  for (Blocks& task : tasks) {
    task.count = std::max(task.count, 1u);
    lines += task.count;
  }
  const auto floats = static_cast<uint64_t>(lines * kLine);
  PTO_ASSIGN_OR_RETURN(const Domain domain, scene.MakeDomain("chip", {{"lines", v1::F32, floats}}));
  const Buffer buffer = WindowOf(domain, 0, "lines");
  GraphBuilder graph;
  int64_t line = 0;
  for (const Blocks& task : tasks) {
    const int64_t count = task.count;
    TaskRef added = graph
                        .Task("iota", scene.chip(0),
                              {graph.Tensor(UniqueName("lines"), buffer, v1::F32, {count}, {kLine},
                                            line * kLine)})
                        .Scalar(0.0)
                        .Scalar(1.0)
                        .Blocks(task.count)
                        .Core(task.core);
    if (task.sync_start) added.SyncStart();
    line += count;
  }
  return scene.RunGraph(
      graph, [&](int) { return buffer.Write(std::vector<float>(floats, -1)); },
      [&](int) -> absl::Status {
        PTO_ASSIGN_OR_RETURN(const std::vector<float> have, buffer.Read<float>(floats));
        std::vector<double> want(floats, -1);
        size_t at = 0;
        for (const Blocks& task : tasks) {
          for (uint32_t block = 0; block < task.count; ++block) want[kLine * at++] = block;
        }
        return Expect("line", have, [&](size_t i) { return want[i]; });
      });
}

}  // namespace

absl::Status SyncStart(Client& client, const Options& options) {
  return RunBlocks(client, options, [](uint32_t c) {
    return std::vector<Blocks>{{v1::MIX, c / 12, true},
                               {v1::MIX, c / 3, true},
                               {v1::MIX, c / 12, false},
                               {v1::MIX, c / 2, true}};
  });
}

absl::Status SyncStartVector(Client& client, const Options& options) {
  return RunBlocks(client, options, [](uint32_t c) {
    const uint32_t a = 2 * c;
    return std::vector<Blocks>{{v1::AIV, a / 12, true},
                               {v1::AIV, a / 3, true},
                               {v1::AIV, a / 12, false},
                               {v1::AIV, a / 2, true}};
  });
}

absl::Status SyncStartEdge(Client& client, const Options& options) {
  return RunBlocks(client, options, [](uint32_t c) {
    return std::vector<Blocks>{{v1::MIX, 1, true},         {v1::MIX, c / 3, true},
                               {v1::MIX, c / 3 + 1, true}, {v1::MIX, c - 1, true},
                               {v1::MIX, c, true},         {v1::MIX, c, false}};
  });
}

absl::Status SyncStartStress(Client& client, const Options& options) {
  return RunBlocks(client, options, [](uint32_t c) {
    std::vector<Blocks> tasks;
    for (int round = 0; round < 6; ++round) {
      for (int i = 0; i < 4; ++i) tasks.push_back({v1::MIX, c / 6, false});
      for (int i = 0; i < 2; ++i) tasks.push_back({v1::MIX, c / 2, true});
      for (int i = 0; i < 2; ++i) tasks.push_back({v1::AIV, c / 3, true});
      tasks.push_back({v1::AIV, c / 6, false});
    }
    return tasks;
  });
}

// Three times the tasks of the reference system, whose blocks write three lines: the same number of
// lines.
absl::Status Starvation(Client& client, const Options& options) {
  return RunBlocks(client, options, [](uint32_t c) {
    std::vector<Blocks> tasks;
    for (int wave = 0; wave < 3; ++wave) {
      for (int i = 0; i < 18; ++i) tasks.push_back({v1::MIX, std::min(c, 4u), false});
      for (int i = 0; i < 2; ++i) tasks.push_back({v1::MIX, std::min(c, 6u), true});
    }
    return tasks;
  });
}

}  // namespace pto::scenarios
