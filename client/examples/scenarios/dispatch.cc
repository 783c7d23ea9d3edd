// Where tasks run, and whether: on several chips, on chips that others want too, or not at all.

#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/examples/scenarios/list.h"
#include "client/examples/scenarios/scene.h"
#include "runtime/base/status_macros.h"

namespace pto::scenarios {

absl::Status MultiChipDispatch(Client& client, const Options& options) {
  constexpr int64_t kCount = 16'384;
  PTO_ASSIGN_OR_RETURN(Scene scene, Scene::Create(client, options));
  PTO_ASSIGN_OR_RETURN(const Domain domain, scene.MakeDomain("chips", {{"a", v1::F32, kCount},
                                                                       {"b", v1::F32, kCount},
                                                                       {"sum", v1::F32, kCount},
                                                                       {"all", v1::F32, kCount}}));
  GraphBuilder graph;
  const TensorRef all = WindowTensor(graph, domain, 0, "all", v1::F32, {kCount});
  std::vector<TensorRef> sums;
  for (uint32_t r = 0; r < scene.ranks(); ++r) {
    PTO_RETURN_IF_ERROR(
        WindowOf(domain, r, "a").Write(std::vector<float>(kCount, static_cast<float>(r))));
    PTO_RETURN_IF_ERROR(WindowOf(domain, r, "b").Write(std::vector<float>(kCount, 0.5f)));
    sums.push_back(WindowTensor(graph, domain, r, "sum", v1::F32, {kCount}));
    graph.Task("add", scene.chip(r),
               {WindowTensor(graph, domain, r, "a", v1::F32, {kCount}),
                WindowTensor(graph, domain, r, "b", v1::F32, {kCount}), sums[r]});
  }
  // One after the other to the first chip, each when it is ready.
  graph.Task("fill", scene.chip(0), {all}).Scalar(0.0);
  const TensorRef landing = WindowTensor(graph, domain, 0, "a", v1::F32, {kCount});
  for (uint32_t r = 0; r < scene.ranks(); ++r) {
    graph.Copy(landing, sums[r]);
    graph.Task("add", scene.chip(0), {all, landing, all});
  }
  const double ranks = scene.ranks();
  return scene.RunGraph(
      graph, [&] { return WindowOf(domain, 0, "a").Write(std::vector<float>(kCount, 0)); },
      [&]() -> absl::Status {
        PTO_ASSIGN_OR_RETURN(const std::vector<float> sum,
                             WindowOf(domain, 0, "all").Read<float>(kCount));
        return Expect("all", sum, [&](size_t) { return ranks * (ranks - 1) / 2 + ranks / 2; });
      });
}

absl::Status GroupReservation(Client& client, const Options& options) {
  PTO_ASSIGN_OR_RETURN(Scene scene, Scene::Create(client, options));
  // What each task writes, on every chip that it runs on.
  struct Group {
    const char* name;
    std::vector<uint32_t> ranks;
    double value;
  };
  const std::vector<Group> groups = {
      {"first", {0, 1}, 10}, {"second", {1, 2}, 31}, {"single-a", {2}, 20}, {"single-b", {0}, 1}};
  std::vector<WindowBufferSpec> buffers;
  for (const Group& group : groups) buffers.push_back({group.name, v1::F32, 48});
  PTO_ASSIGN_OR_RETURN(const Domain domain, scene.MakeDomain("chips", buffers));
  GraphBuilder graph;
  for (const Group& group : groups) {
    std::vector<GroupMember> members;
    for (const uint32_t r : group.ranks) {
      members.push_back(
          {scene.chip(r), {WindowTensor(graph, domain, r, group.name, v1::F32, {48})}});
    }
    // As wide as a chip, so that they get in each other's way.
    graph.Group("fill", members).Scalar(group.value).Blocks(24);
  }
  return scene.RunGraph(
      graph,
      [&]() -> absl::Status {
        for (const Group& group : groups) {
          for (const uint32_t r : group.ranks) {
            PTO_RETURN_IF_ERROR(WindowOf(domain, r, group.name).Write(std::vector<float>(48, -1)));
          }
        }
        return absl::OkStatus();
      },
      [&]() -> absl::Status {
        for (const Group& group : groups) {
          for (const uint32_t r : group.ranks) {
            PTO_ASSIGN_OR_RETURN(const std::vector<float> out,
                                 WindowOf(domain, r, group.name).Read<float>(48));
            PTO_RETURN_IF_ERROR(Expect(absl::StrCat(group.name, " on rank ", r), out,
                                       [&](size_t) { return group.value; }));
          }
        }
        return absl::OkStatus();
      });
}

absl::Status PredicatedDispatch(Client& client, const Options& options) {
  static constexpr int64_t kTasks = 16;
  PTO_ASSIGN_OR_RETURN(Scene scene, Scene::Create(client, options));
  PTO_ASSIGN_OR_RETURN(const Domain domain, scene.MakeDomain("chip", {{"flags", v1::I32, kTasks},
                                                                      {"out", v1::F32, kTasks}}));
  GraphBuilder graph;
  // The numbers that decide are written by a task of the same graph: 0, 1, 2, …
  graph.Task("iota", scene.chip(0), {WindowTensor(graph, domain, 0, "flags", v1::I32, {kTasks})})
      .Scalar(0.0)
      .Scalar(1.0);
  graph.Task("fill", scene.chip(0), {WindowTensor(graph, domain, 0, "out", v1::F32, {kTasks})})
      .Scalar(0.0);
  for (int64_t i = 0; i < kTasks; ++i) {
    const TensorRef flag = WindowTensor(graph, domain, 0, "flags", v1::I32, {}, i);
    graph.Task("fill", scene.chip(0), {WindowTensor(graph, domain, 0, "out", v1::F32, {1}, i)})
        .Scalar(static_cast<double>(i))
        .If(flag, v1::GE, kTasks / 2);
  }
  return scene.RunGraph(
      graph, [] { return absl::OkStatus(); },
      [&]() -> absl::Status {
        PTO_ASSIGN_OR_RETURN(const std::vector<float> out,
                             WindowOf(domain, 0, "out").Read<float>(kTasks));
        return Expect("out", out, [](size_t i) {
          return i >= static_cast<size_t>(kTasks / 2) ? static_cast<double>(i) : 0.0;
        });
      });
}

}  // namespace pto::scenarios
