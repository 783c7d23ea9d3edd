// Two ranks that exchange data without waiting on a core: asynchronous copies, notifications, and
// waits for them.

#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/examples/scenarios/list.h"
#include "client/examples/scenarios/scene.h"
#include "runtime/base/status_macros.h"

namespace pto::scenarios {
namespace {

constexpr int64_t kSide = 128;
constexpr int64_t kCount = kSide * kSide;
// This rank sends later than the other, which has to wait for it.
constexpr uint32_t kLateRank = 1;

uint32_t Other(uint32_t rank) { return 1 - rank; }

float In(uint32_t rank, size_t i) {
  return static_cast<float>(i % 251) / 10 + static_cast<float>(rank);
}

// The buffers of all three scenarios on each rank.
absl::StatusOr<Domain> MakeWindows(Scene& scene) {
  PTO_ASSIGN_OR_RETURN(Domain domain, scene.MakeDomain("pair",
                                                       {{"in", v1::F32, kCount},
                                                        {"out", v1::F32, kCount},
                                                        {"ones", v1::F32, kCount},
                                                        {"mailbox", v1::F32, kCount},
                                                        {"result", v1::F32, kCount},
                                                        {"delay", v1::F32, kDelayFloats}},
                                                       /*signals=*/1));
  for (uint32_t r = 0; r < 2; ++r) {
    std::vector<float> in(kCount);
    for (size_t i = 0; i < in.size(); ++i) in[i] = In(r, i);
    PTO_RETURN_IF_ERROR(WindowOf(domain, r, "in").Write(in));
    PTO_RETURN_IF_ERROR(WindowOf(domain, r, "ones").Write(std::vector<float>(kCount, 1)));
  }
  return domain;
}

// A graph, the buffer that its consumers could read too early, the number of notifications for each
// rank, and the expected result.
struct Pair {
  void (*add_tasks)(GraphBuilder& graph, const Scene& scene, const Domain& domain);
  const char* handed_over;
  uint64_t notified;
  double (*want)(uint32_t rank, size_t i);
};

absl::Status CheckRank(const Domain& domain, uint32_t rank, const Pair& pair) {
  PTO_ASSIGN_OR_RETURN(const std::vector<float> result,
                       WindowOf(domain, rank, "result").Read<float>(kCount));
  PTO_RETURN_IF_ERROR(Expect(absl::StrCat("result of rank ", rank), result,
                             [&](size_t i) { return pair.want(rank, i); }, {.absolute = 1e-5}));
  PTO_ASSIGN_OR_RETURN(const std::vector<uint64_t> signals, domain.ReadSignals(rank));
  return Expect(absl::StrCat("signal of rank ", rank), signals,
                [&](size_t) { return pair.notified; });
}

absl::Status RunPair(Client& client, const Options& options, const Pair& pair) {
  PTO_ASSIGN_OR_RETURN(Scene scene, Scene::Create(client, options));
  PTO_ASSIGN_OR_RETURN(const Domain domain, MakeWindows(scene));
  GraphBuilder graph;
  pair.add_tasks(graph, scene, domain);
  return scene.RunGraph(
      graph,
      [&](int) -> absl::Status {
        for (uint32_t r = 0; r < 2; ++r) {
          PTO_RETURN_IF_ERROR(Spoil(WindowOf(domain, r, pair.handed_over)));
          PTO_RETURN_IF_ERROR(Spoil(WindowOf(domain, r, "result")));
        }
        return absl::OkStatus();
      },
      [&](int) -> absl::Status {
        for (uint32_t r = 0; r < 2; ++r) PTO_RETURN_IF_ERROR(CheckRank(domain, r, pair));
        return absl::OkStatus();
      });
}

TensorRef Matrix(GraphBuilder& graph, const Domain& domain, uint32_t rank, const char* name) {
  return WindowTensor(graph, domain, rank, name, v1::F32, {kSide, kSide});
}

TaskRef DelayRank(GraphBuilder& graph, const Scene& scene, const Domain& domain, uint32_t rank) {
  return Delay(graph, scene.chip(rank),
               WindowTensor(graph, domain, rank, "delay", v1::F32, {kDelayFloats}), graph.Join());
}

}  // namespace

absl::Status AsyncCompletion(Client& client, const Options& options) {
  const auto add_tasks = [](GraphBuilder& graph, const Scene& scene, const Domain& domain) {
    for (uint32_t r = 0; r < 2; ++r) {
      const TensorRef out = Matrix(graph, domain, r, "out");
      graph.Copy(out, Matrix(graph, domain, Other(r), "in"));
      graph.Task("add", scene.chip(r),
                 {out, Matrix(graph, domain, r, "ones"), Matrix(graph, domain, r, "result")});
    }
  };
  return RunPair(client, options, {add_tasks, "out", 0, [](uint32_t rank, size_t i) {
                                     return double{In(Other(rank), i)} + 1;
                                   }});
}

absl::Status AsyncNotify(Client& client, const Options& options) {
  const auto add_tasks = [](GraphBuilder& graph, const Scene& scene, const Domain& domain) {
    const TaskRef late = DelayRank(graph, scene, domain, kLateRank);
    std::vector<TaskRef> produced;
    for (uint32_t r = 0; r < 2; ++r) {
      TaskRef task = graph
                         .Task("scale", scene.chip(r),
                               {Matrix(graph, domain, r, "in"), Matrix(graph, domain, r, "out")})
                         .Scalar(2.0);
      if (r == kLateRank) task.After(late);
      produced.push_back(task);
    }
    // Readers of the token run after the peer's notification: nothing else delays them, and they
    // must read what the peer wrote before.
    for (uint32_t r = 0; r < 2; ++r) {
      const TensorRef token = Matrix(graph, domain, r, "mailbox");
      graph.WaitFor(WindowSignal(graph, domain, r, 0), token, v1::GE, 1);
      graph.Task("add", scene.chip(r),
                 {Matrix(graph, domain, r, "out"), token, Matrix(graph, domain, r, "result")});
    }
    for (uint32_t r = 0; r < 2; ++r) {
      const TaskRef sent =
          graph.Copy(Matrix(graph, domain, Other(r), "mailbox"), Matrix(graph, domain, r, "ones"))
              .NoDependency(0)
              .After(produced[r]);
      graph.Notify(WindowSignal(graph, domain, Other(r), 0), 1, v1::ADD).After(sent);
    }
  };
  return RunPair(client, options, {add_tasks, "mailbox", 1, [](uint32_t rank, size_t i) {
                                     return 2 * double{In(rank, i)} + 1;
                                   }});
}

absl::Status DeferredNotify(Client& client, const Options& options) {
  const auto add_tasks = [](GraphBuilder& graph, const Scene& scene, const Domain& domain) {
    // The mailbox creates no dependency, and no edge leads from the copy to the consumer: only the
    // signal shows that the data has arrived.
    for (uint32_t r = 0; r < 2; ++r) {
      const TaskRef arrived = graph.WaitFor(WindowSignal(graph, domain, r, 0), v1::GE, 1);
      graph
          .Task("copy", scene.chip(r),
                {Matrix(graph, domain, r, "mailbox"), Matrix(graph, domain, r, "result")})
          .NoDependency(0)
          .After(arrived);
    }
    const TaskRef late = DelayRank(graph, scene, domain, kLateRank);
    for (uint32_t r = 0; r < 2; ++r) {
      TaskRef sent =
          graph.Copy(Matrix(graph, domain, Other(r), "mailbox"), Matrix(graph, domain, r, "in"));
      if (r == kLateRank) sent.After(late);
      graph.Notify(WindowSignal(graph, domain, Other(r), 0), 1, v1::ADD).After(sent);
    }
  };
  return RunPair(client, options, {add_tasks, "mailbox", 1, [](uint32_t rank, size_t i) {
                                     return double{In(Other(rank), i)};
                                   }});
}

}  // namespace pto::scenarios
