// The collectives, with the shapes and numbers of the reference system's examples.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/examples/scenarios/list.h"
#include "client/examples/scenarios/scene.h"
#include "runtime/base/status_macros.h"

namespace pto::scenarios {
namespace {

// One collective over all ranks: what it is called, and what goes in and comes out.
struct Collective {
  std::string kernel;
  std::vector<int64_t> scalars;
  int64_t in_count;
  int64_t out_count;
  std::function<double(uint32_t rank, size_t i)> in;
  std::function<double(uint32_t rank, size_t i)> out;
};

absl::Status RunCollective(Scene& scene, const Collective& what) {
  const auto count = [](int64_t elements) { return static_cast<uint64_t>(elements); };
  PTO_ASSIGN_OR_RETURN(const Domain domain,
                       scene.MakeDomain("ranks", {{"in", v1::F32, count(what.in_count)},
                                                  {"out", v1::F32, count(what.out_count)}}));
  GraphBuilder graph;
  std::vector<GroupMember> members;
  for (uint32_t r = 0; r < scene.ranks(); ++r) {
    members.push_back({scene.chip(r),
                       {WindowTensor(graph, domain, r, "in", v1::F32, {what.in_count}),
                        WindowTensor(graph, domain, r, "out", v1::F32, {what.out_count})}});
  }
  TaskRef task = graph.Group(what.kernel, members);
  for (const int64_t scalar : what.scalars) task.Scalar(scalar);

  for (uint32_t r = 0; r < scene.ranks(); ++r) {
    std::vector<float> in(count(what.in_count));
    for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>(what.in(r, i));
    PTO_RETURN_IF_ERROR(WindowOf(domain, r, "in").Write(in));
  }
  const std::vector<float> wrong(count(what.out_count), -1);
  PTO_RETURN_IF_ERROR(scene.RunGraph(
      graph,
      [&]() -> absl::Status {
        for (uint32_t r = 0; r < scene.ranks(); ++r) {
          PTO_RETURN_IF_ERROR(WindowOf(domain, r, "out").Write(wrong));
        }
        return absl::OkStatus();
      },
      [&]() -> absl::Status {
        for (uint32_t r = 0; r < scene.ranks(); ++r) {
          PTO_ASSIGN_OR_RETURN(const std::vector<float> out,
                               WindowOf(domain, r, "out").Read<float>(wrong.size()));
          PTO_RETURN_IF_ERROR(Expect(
              absl::StrCat("out of rank ", r), out, [&](size_t i) { return what.out(r, i); },
              /*tolerance=*/1e-3));
        }
        return absl::OkStatus();
      }));
  return domain.Delete();
}

constexpr int64_t kSum = 1;

double Ramp(uint32_t rank, size_t i) { return static_cast<double>(i) + 100.0 * rank; }

int64_t SizeOr(const Options& options, int64_t own) {
  return options.size > 0 ? options.size : own;
}

absl::Status AllReduce(Client& client, const Options& options, int64_t algorithm) {
  PTO_ASSIGN_OR_RETURN(Scene scene, Scene::Create(client, options));
  const double ranks = scene.ranks();
  const int64_t count = SizeOr(options, 256);
  return RunCollective(
      scene, {"all_reduce", {kSum, algorithm, 0}, count, count, Ramp, [=](uint32_t, size_t i) {
                return ranks * static_cast<double>(i) + 100 * ranks * (ranks - 1) / 2;
              }});
}

}  // namespace

absl::Status AllReduceAuto(Client& client, const Options& options) {
  return AllReduce(client, options, 0);
}
absl::Status AllReduceOneShot(Client& client, const Options& options) {
  return AllReduce(client, options, 1);
}
absl::Status AllReduceTwoShot(Client& client, const Options& options) {
  return AllReduce(client, options, 2);
}
absl::Status AllReduceRing(Client& client, const Options& options) {
  return AllReduce(client, options, 3);
}
absl::Status AllReduceBidirectionalRing(Client& client, const Options& options) {
  return AllReduce(client, options, 4);
}

absl::Status AllGather(Client& client, const Options& options) {
  PTO_ASSIGN_OR_RETURN(Scene scene, Scene::Create(client, options));
  const int64_t count = SizeOr(options, 64);
  return RunCollective(
      scene, {"all_gather", {}, count, count * scene.ranks(), Ramp, [=](uint32_t, size_t i) {
                const auto each = static_cast<size_t>(count);
                return Ramp(static_cast<uint32_t>(i / each), i % each);
              }});
}

absl::Status ReduceScatter(Client& client, const Options& options) {
  PTO_ASSIGN_OR_RETURN(Scene scene, Scene::Create(client, options));
  const double ranks = scene.ranks();
  const int64_t count = SizeOr(options, 64);
  return RunCollective(
      scene,
      {"reduce_scatter", {kSum}, count * scene.ranks(), count, Ramp, [=](uint32_t rank, size_t i) {
         return ranks * static_cast<double>(rank * count) + ranks * static_cast<double>(i) +
                100 * ranks * (ranks - 1) / 2;
       }});
}

absl::Status Broadcast(Client& client, const Options& options) {
  PTO_ASSIGN_OR_RETURN(Scene scene, Scene::Create(client, options));
  const int64_t count = SizeOr(options, 64);
  for (uint32_t root = 0; root < scene.ranks(); ++root) {
    PTO_RETURN_IF_ERROR(
        RunCollective(scene, {"broadcast", {root}, count, count, Ramp, [=](uint32_t, size_t i) {
                                return Ramp(root, i);
                              }}));
  }
  return absl::OkStatus();
}

absl::Status AllToAll(Client& client, const Options& options) {
  PTO_ASSIGN_OR_RETURN(Scene scene, Scene::Create(client, options));
  const int64_t count = SizeOr(options, 64);
  const auto element = [=](uint32_t from, uint32_t to, size_t i) {
    return 1000.0 * from + 100.0 * to + static_cast<double>(i % static_cast<size_t>(count));
  };
  const auto part = [=](size_t i) { return static_cast<uint32_t>(i / static_cast<size_t>(count)); };
  return RunCollective(scene, {"all_to_all",
                               {},
                               count * scene.ranks(),
                               count * scene.ranks(),
                               [=](uint32_t rank, size_t i) { return element(rank, part(i), i); },
                               [=](uint32_t rank, size_t i) { return element(part(i), rank, i); }});
}

}  // namespace pto::scenarios
