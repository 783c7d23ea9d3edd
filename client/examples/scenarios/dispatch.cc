// Where tasks run, and whether: on several chips, on contended chips, or not at all.

#include <cstdint>
#include <string>
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
    PTO_RETURN_IF_ERROR(WindowOf(domain, r, "b").Write(std::vector<float>(kCount, 0.5f)));
    sums.push_back(WindowTensor(graph, domain, r, "sum", v1::F32, {kCount}));
    graph.Task("add", scene.chip(r),
               {WindowTensor(graph, domain, r, "a", v1::F32, {kCount}),
                WindowTensor(graph, domain, r, "b", v1::F32, {kCount}), sums[r]});
  }
  // Sent to the first chip one after the other, each when it is ready.
  graph.Task("fill", scene.chip(0), {all}).Scalar(0.0);
  const TensorRef landing = WindowTensor(graph, domain, 0, "a", v1::F32, {kCount});
  for (uint32_t r = 0; r < scene.ranks(); ++r) {
    graph.Copy(landing, sums[r]);
    graph.Task("add", scene.chip(0), {all, landing, all});
  }
  // Element i of a is r, with a different offset in each repetition.
  const double ranks = scene.ranks();
  const auto increase = [](size_t i, int repetition) {
    return static_cast<double>((i + static_cast<size_t>(repetition)) % 64);
  };
  return scene.RunGraph(
      graph,
      [&](int repetition) -> absl::Status {
        std::vector<float> a(kCount);
        for (uint32_t r = 0; r < scene.ranks(); ++r) {
          for (size_t i = 0; i < a.size(); ++i) {
            a[i] = static_cast<float>(r + increase(i, repetition));
          }
          PTO_RETURN_IF_ERROR(WindowOf(domain, r, "a").Write(a));
        }
        return absl::OkStatus();
      },
      [&](int repetition) -> absl::Status {
        PTO_ASSIGN_OR_RETURN(const std::vector<float> sum,
                             WindowOf(domain, 0, "all").Read<float>(kCount));
        return Expect("all", sum, [&](size_t i) {
          return ranks * (ranks - 1) / 2 + ranks / 2 + ranks * increase(i, repetition);
        });
      });
}

absl::Status GroupReservation(Client& client, const Options& options) {
  PTO_ASSIGN_OR_RETURN(Scene scene, Scene::Create(client, options));
  PTO_ASSIGN_OR_RETURN(const uint32_t clusters, ClustersOf(client, scene.chip(0)));
  // What each task writes: a different number on each of its chips, in its own buffer.
  struct Group {
    std::string name;
    std::vector<uint32_t> ranks;
    std::vector<int32_t> values;
    std::string source() const { return absl::StrCat(name, "-values"); }
  };
  const std::vector<Group> groups = {{"first", {0, 1}, {10, 11}},
                                     {"second", {1, 2}, {31, 32}},
                                     {"single-a", {2}, {20}},
                                     {"single-b", {0}, {1}}};
  std::vector<WindowBufferSpec> buffers;
  for (const Group& group : groups) {
    buffers.push_back({group.name, v1::I32, 1});
    buffers.push_back({group.source(), v1::I32, group.values.size()});
  }
  PTO_ASSIGN_OR_RETURN(const Domain domain, scene.MakeDomain("chips", buffers));
  GraphBuilder graph;
  for (const Group& group : groups) {
    const auto count = static_cast<int64_t>(group.ranks.size());
    std::vector<GroupMember> members;
    for (const uint32_t r : group.ranks) {
      members.push_back({scene.chip(r),
                         {WindowTensor(graph, domain, r, group.source(), v1::I32, {count}),
                          WindowTensor(graph, domain, r, group.name, v1::I32, {1})}});
    }
    // Member m gets number m of the first member. Every task needs all clusters of its chips, so
    // the tasks compete for them.
    graph.Group("scatter", members).Scalar(0).Core(v1::MIX).Blocks(clusters);
  }
  // The numbers differ in each repetition, so that those of an earlier one are wrong.
  const auto increase = [](int repetition) { return 100 * (repetition % 1000); };
  return scene.RunGraph(
      graph,
      [&](int repetition) -> absl::Status {
        for (const Group& group : groups) {
          std::vector<int32_t> values = group.values;
          for (int32_t& value : values) value += increase(repetition);
          PTO_RETURN_IF_ERROR(WindowOf(domain, group.ranks[0], group.source()).Write(values));
        }
        return absl::OkStatus();
      },
      [&](int repetition) -> absl::Status {
        for (const Group& group : groups) {
          for (size_t m = 0; m < group.ranks.size(); ++m) {
            PTO_ASSIGN_OR_RETURN(const std::vector<int32_t> out,
                                 WindowOf(domain, group.ranks[m], group.name).Read<int32_t>(1));
            PTO_RETURN_IF_ERROR(
                Expect(absl::StrCat(group.name, " on rank ", group.ranks[m]), out,
                       [&](size_t) { return group.values[m] + increase(repetition); }));
          }
        }
        return absl::OkStatus();
      });
}

absl::Status PredicatedDispatch(Client& client, const Options& options) {
  static constexpr int64_t kTasks = 16;
  PTO_ASSIGN_OR_RETURN(Scene scene, Scene::Create(client, options));
  PTO_ASSIGN_OR_RETURN(const Domain domain, scene.MakeDomain("chip", {{"given", v1::I32, kTasks},
                                                                      {"flags", v1::I32, kTasks},
                                                                      {"out", v1::F32, kTasks}}));
  GraphBuilder graph;
  // A task of the same graph writes the numbers that the predicates test.
  graph.Task("copy", scene.chip(0),
             {WindowTensor(graph, domain, 0, "given", v1::I32, {kTasks}),
              WindowTensor(graph, domain, 0, "flags", v1::I32, {kTasks})});
  for (int64_t i = 0; i < kTasks; ++i) {
    const TensorRef flag = WindowTensor(graph, domain, 0, "flags", v1::I32, {}, i);
    graph.Task("fill", scene.chip(0), {WindowTensor(graph, domain, 0, "out", v1::F32, {1}, i)})
        .Scalar(static_cast<double>(i))
        .If(flag, v1::GE, kTasks / 2);
  }
  // 0, 1, 2, … in the first repetition; shifted by one in each later one.
  const auto given = [](size_t i, int repetition) {
    return static_cast<int32_t>((i + static_cast<size_t>(repetition)) % kTasks);
  };
  return scene.RunGraph(
      graph,
      [&](int repetition) -> absl::Status {
        std::vector<int32_t> numbers(kTasks);
        for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = given(i, repetition);
        PTO_RETURN_IF_ERROR(WindowOf(domain, 0, "given").Write(numbers));
        return WindowOf(domain, 0, "out").Write(std::vector<float>(kTasks, -1));
      },
      [&](int repetition) -> absl::Status {
        PTO_ASSIGN_OR_RETURN(const std::vector<float> out,
                             WindowOf(domain, 0, "out").Read<float>(kTasks));
        return Expect("out", out, [&](size_t i) {
          return given(i, repetition) >= kTasks / 2 ? static_cast<double>(i) : -1.0;
        });
      });
}

}  // namespace pto::scenarios
