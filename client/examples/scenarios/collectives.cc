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

// One collective over all ranks: its name, inputs and outputs.
struct Collective {
  std::string kernel;
  std::vector<int64_t> scalars;
  int64_t in_count;
  int64_t out_count;
  std::function<double(uint32_t rank, size_t i)> in;
  std::function<double(uint32_t rank, size_t i)> out;
  // How much every element of out grows if every element of in grows by one.
  double growth = 1;
};

// The amount added to all inputs in each repetition: leftovers of an earlier one, on any rank and
// at any step of the collective, are wrong in the next. Small enough that all numbers stay exact.
double Increase(int repetition) { return repetition % 1000; }

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
    PTO_RETURN_IF_ERROR(Spoil(WindowOf(domain, r, "out")));
  }
  TaskRef task = graph.Group(what.kernel, members);
  for (const int64_t scalar : what.scalars) task.Scalar(scalar);

  PTO_RETURN_IF_ERROR(scene.RunGraph(
      graph,
      [&](int repetition) -> absl::Status {
        std::vector<float> in(count(what.in_count));
        for (uint32_t r = 0; r < scene.ranks(); ++r) {
          for (size_t i = 0; i < in.size(); ++i) {
            in[i] = static_cast<float>(what.in(r, i) + Increase(repetition));
          }
          PTO_RETURN_IF_ERROR(WindowOf(domain, r, "in").Write(in));
        }
        return absl::OkStatus();
      },
      [&](int repetition) -> absl::Status {
        for (uint32_t r = 0; r < scene.ranks(); ++r) {
          PTO_ASSIGN_OR_RETURN(const std::vector<float> out,
                               WindowOf(domain, r, "out").Read<float>(count(what.out_count)));
          PTO_RETURN_IF_ERROR(Expect(absl::StrCat("out of rank ", r), out, [&](size_t i) {
            return what.out(r, i) + what.growth * Increase(repetition);
          }));
        }
        return absl::OkStatus();
      }));
  return domain.Delete();
}

constexpr int64_t kSum = 1;

// The value of an element; sums of it over 64 ranks are exact in F32.
double Number(size_t i) { return static_cast<double>(i % 65'521); }

double Ramp(uint32_t rank, size_t i) { return Number(i) + 100.0 * rank; }

// The sum of Ramp over all ranks.
double RampSum(uint32_t ranks, size_t i) {
  return ranks * Number(i) + 100.0 * ranks * (ranks - 1.0) / 2;
}

int64_t SizeOr(const Options& options, int64_t own) {
  return options.size > 0 ? options.size : own;
}

absl::Status AllReduce(Client& client, const Options& options, int64_t algorithm) {
  PTO_ASSIGN_OR_RETURN(Scene scene, Scene::Create(client, options));
  const uint32_t ranks = scene.ranks();
  const int64_t count = SizeOr(options, 256);
  return RunCollective(scene, {.kernel = "all_reduce",
                               .scalars = {kSum, algorithm, 0},
                               .in_count = count,
                               .out_count = count,
                               .in = Ramp,
                               .out = [=](uint32_t, size_t i) { return RampSum(ranks, i); },
                               .growth = static_cast<double>(ranks)});
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
  return RunCollective(scene, {.kernel = "all_gather",
                               .scalars = {},
                               .in_count = count,
                               .out_count = count * scene.ranks(),
                               .in = Ramp,
                               .out = [=](uint32_t, size_t i) {
                                 const auto each = static_cast<size_t>(count);
                                 return Ramp(static_cast<uint32_t>(i / each), i % each);
                               }});
}

absl::Status ReduceScatter(Client& client, const Options& options) {
  PTO_ASSIGN_OR_RETURN(Scene scene, Scene::Create(client, options));
  const uint32_t ranks = scene.ranks();
  const int64_t count = SizeOr(options, 64);
  return RunCollective(scene, {.kernel = "reduce_scatter",
                               .scalars = {kSum},
                               .in_count = count * ranks,
                               .out_count = count,
                               .in = Ramp,
                               .out =
                                   [=](uint32_t rank, size_t i) {
                                     return RampSum(ranks, rank * static_cast<size_t>(count) + i);
                                   },
                               .growth = static_cast<double>(ranks)});
}

absl::Status Broadcast(Client& client, const Options& options) {
  PTO_ASSIGN_OR_RETURN(Scene scene, Scene::Create(client, options));
  const int64_t count = SizeOr(options, 64);
  for (uint32_t root = 0; root < scene.ranks(); ++root) {
    PTO_RETURN_IF_ERROR(
        RunCollective(scene, {.kernel = "broadcast",
                              .scalars = {root},
                              .in_count = count,
                              .out_count = count,
                              .in = Ramp,
                              .out = [=](uint32_t, size_t i) { return Ramp(root, i); }}));
  }
  return absl::OkStatus();
}

absl::Status AllToAll(Client& client, const Options& options) {
  PTO_ASSIGN_OR_RETURN(Scene scene, Scene::Create(client, options));
  const int64_t count = SizeOr(options, 64);
  const auto each = static_cast<size_t>(count);
  const auto element = [](uint32_t from, uint32_t to, size_t i) {
    return 1000.0 * from + 100.0 * to + Number(i);
  };
  const auto part = [=](size_t i) { return static_cast<uint32_t>(i / each); };
  return RunCollective(
      scene, {.kernel = "all_to_all",
              .scalars = {},
              .in_count = count * scene.ranks(),
              .out_count = count * scene.ranks(),
              .in = [=](uint32_t rank, size_t i) { return element(rank, part(i), i % each); },
              .out = [=](uint32_t rank, size_t i) { return element(part(i), rank, i % each); }});
}

}  // namespace pto::scenarios
