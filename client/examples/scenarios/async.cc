// Two ranks that give each other data without waiting on a core: copies that end later than they
// begin, notifications, and waits for them.

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

uint32_t Other(uint32_t rank) { return 1 - rank; }

std::vector<float> Numbers(uint32_t rank) {
  std::vector<float> in(kCount);
  for (size_t i = 0; i < in.size(); ++i) {
    in[i] = static_cast<float>(i % 251) / 10 + static_cast<float>(rank);
  }
  return in;
}

// What all three scenarios have on each rank.
absl::StatusOr<Domain> MakeWindows(Scene& scene) {
  PTO_ASSIGN_OR_RETURN(Domain domain, scene.MakeDomain("pair",
                                                       {{"in", v1::F32, kCount},
                                                        {"out", v1::F32, kCount},
                                                        {"ones", v1::F32, kCount},
                                                        {"mailbox", v1::F32, kCount},
                                                        {"result", v1::F32, kCount}},
                                                       /*signals=*/1));
  for (uint32_t r = 0; r < 2; ++r) {
    PTO_RETURN_IF_ERROR(WindowOf(domain, r, "in").Write(Numbers(r)));
    PTO_RETURN_IF_ERROR(WindowOf(domain, r, "ones").Write(std::vector<float>(kCount, 1)));
  }
  return domain;
}

absl::Status CheckResults(const Domain& domain, double (*want)(uint32_t rank, size_t i)) {
  for (uint32_t r = 0; r < 2; ++r) {
    PTO_ASSIGN_OR_RETURN(const std::vector<float> result,
                         WindowOf(domain, r, "result").Read<float>(kCount));
    PTO_RETURN_IF_ERROR(Expect(
        absl::StrCat("result of rank ", r), result, [&](size_t i) { return want(r, i); }, 1e-5));
  }
  return absl::OkStatus();
}

absl::Status ClearResults(const Domain& domain) {
  for (uint32_t r = 0; r < 2; ++r) {
    PTO_RETURN_IF_ERROR(WindowOf(domain, r, "result").Write(std::vector<float>(kCount, -1)));
  }
  return absl::OkStatus();
}

double In(uint32_t rank, size_t i) {
  return static_cast<double>(static_cast<float>(i % 251) / 10 + static_cast<float>(rank));
}

// A graph that `add` fills for each of the two ranks, and its check.
using AddRank = void (*)(GraphBuilder& graph, const Domain& domain, uint32_t rank, uint32_t chip);

absl::Status RunPair(Client& client, const Options& options, AddRank add,
                     double (*want)(uint32_t rank, size_t i)) {
  PTO_ASSIGN_OR_RETURN(Scene scene, Scene::Create(client, options));
  PTO_ASSIGN_OR_RETURN(const Domain domain, MakeWindows(scene));
  GraphBuilder graph;
  for (uint32_t r = 0; r < 2; ++r) add(graph, domain, r, scene.chip(r));
  return scene.RunGraph(
      graph, [&] { return ClearResults(domain); }, [&] { return CheckResults(domain, want); });
}

TensorRef Matrix(GraphBuilder& graph, const Domain& domain, uint32_t rank, const char* name) {
  return WindowTensor(graph, domain, rank, name, v1::F32, {kSide, kSide});
}

}  // namespace

absl::Status AsyncCompletion(Client& client, const Options& options) {
  return RunPair(
      client, options,
      [](GraphBuilder& graph, const Domain& domain, uint32_t rank, uint32_t chip) {
        const TensorRef out = Matrix(graph, domain, rank, "out");
        graph.Copy(out, Matrix(graph, domain, Other(rank), "in"));
        graph.Task(
            "add", chip,
            {out, Matrix(graph, domain, rank, "ones"), Matrix(graph, domain, rank, "result")});
      },
      [](uint32_t rank, size_t i) { return In(Other(rank), i) + 1; });
}

absl::Status AsyncNotify(Client& client, const Options& options) {
  return RunPair(
      client, options,
      [](GraphBuilder& graph, const Domain& domain, uint32_t rank, uint32_t chip) {
        const TensorRef out = Matrix(graph, domain, rank, "out");
        const TensorRef ones = Matrix(graph, domain, rank, "ones");
        const TaskRef produced =
            graph.Task("scale", chip, {Matrix(graph, domain, rank, "in"), out}).Scalar(2.0);
        graph.Notify(WindowSignal(graph, domain, Other(rank), 0), 1, v1::ADD).After(produced);
        // Who reads the token comes after the peer's notification.
        graph.WaitFor(WindowSignal(graph, domain, rank, 0), ones, v1::GE, 1);
        graph.Task("add", chip, {out, ones, Matrix(graph, domain, rank, "result")});
      },
      [](uint32_t rank, size_t i) { return 2 * In(rank, i) + 1; });
}

absl::Status DeferredNotify(Client& client, const Options& options) {
  return RunPair(
      client, options,
      [](GraphBuilder& graph, const Domain& domain, uint32_t rank, uint32_t chip) {
        // The mailbox is not an argument of the consumer's wait, and no edge leads from the copy
        // to it: only the signal says that the data is there.
        const TaskRef sent = graph.Copy(Matrix(graph, domain, Other(rank), "mailbox"),
                                        Matrix(graph, domain, rank, "in"));
        graph.Notify(WindowSignal(graph, domain, Other(rank), 0), 1, v1::ADD).After(sent);
        const TaskRef arrived = graph.WaitFor(WindowSignal(graph, domain, rank, 0), v1::GE, 1);
        graph
            .Task("copy", chip,
                  {Matrix(graph, domain, rank, "mailbox"), Matrix(graph, domain, rank, "result")})
            .NoDependency(0)
            .After(arrived);
      },
      [](uint32_t rank, size_t i) { return In(Other(rank), i); });
}

}  // namespace pto::scenarios
