// Tokens to experts, two of which live on each rank: prepare, send, receive and assemble. Data
// travels by copies that need no core, a notification says that a sender's has come, and the
// assembly waits for all of them.

#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/examples/scenarios/list.h"
#include "client/examples/scenarios/scene.h"
#include "runtime/base/status_macros.h"

namespace pto::scenarios {
namespace {

constexpr int64_t kWidth = 128;
constexpr uint32_t kExpertsPerRank = 2;

double Token(uint32_t rank, int64_t token, int64_t i) {
  return 1000.0 * rank + 10.0 * static_cast<double>(token) + static_cast<double>(i) / 128;
}

}  // namespace

absl::Status MoeDispatch(Client& client, const Options& options) {
  PTO_ASSIGN_OR_RETURN(Scene scene, Scene::Create(client, options));
  const uint32_t ranks = scene.ranks();
  // A rank has one token for each expert; the experts' numbers are shuffled, so that there is
  // something to prepare.
  const int64_t tokens = int64_t{ranks} * kExpertsPerRank;
  const auto count = static_cast<uint64_t>(tokens * kWidth);
  const auto rows = static_cast<uint64_t>(tokens);
  PTO_ASSIGN_OR_RETURN(const Domain domain, scene.MakeDomain("experts",
                                                             {{"tokens", v1::F32, count},
                                                              {"order", v1::I32, rows},
                                                              {"packed", v1::F32, count},
                                                              {"received", v1::F32, count},
                                                              {"by-expert", v1::I32, rows},
                                                              {"assembled", v1::F32, count}},
                                                             /*signals=*/1));
  const auto matrix = [&](GraphBuilder& graph, uint32_t rank, const char* name) {
    return WindowTensor(graph, domain, rank, name, v1::F32, {tokens, kWidth});
  };
  GraphBuilder graph;
  for (uint32_t r = 0; r < ranks; ++r) {
    // Token t of a rank is for expert (t + r) mod all.
    std::vector<float> in;
    std::vector<int32_t> order(rows);
    std::vector<int32_t> by_expert;
    for (int64_t t = 0; t < tokens; ++t) {
      for (int64_t i = 0; i < kWidth; ++i) in.push_back(static_cast<float>(Token(r, t, i)));
      order[static_cast<size_t>((t + r) % tokens)] = static_cast<int32_t>(t);
    }
    // From each sender come rows for the first and for the second expert in turn.
    for (uint32_t expert = 0; expert < kExpertsPerRank; ++expert) {
      for (uint32_t from = 0; from < ranks; ++from) {
        by_expert.push_back(static_cast<int32_t>(from * kExpertsPerRank + expert));
      }
    }
    PTO_RETURN_IF_ERROR(WindowOf(domain, r, "tokens").Write(in));
    PTO_RETURN_IF_ERROR(WindowOf(domain, r, "order").Write(order));
    PTO_RETURN_IF_ERROR(WindowOf(domain, r, "by-expert").Write(by_expert));

    graph.Task(
        "take_rows", scene.chip(r),
        {matrix(graph, r, "tokens"), WindowTensor(graph, domain, r, "order", v1::I32, {tokens}),
         matrix(graph, r, "packed")});
  }
  const int64_t part = kExpertsPerRank * kWidth;
  for (uint32_t from = 0; from < ranks; ++from) {
    for (uint32_t to = 0; to < ranks; ++to) {
      const TaskRef sent = graph.Copy(WindowTensor(graph, domain, to, "received", v1::F32,
                                                   {kExpertsPerRank, kWidth}, from * part),
                                      WindowTensor(graph, domain, from, "packed", v1::F32,
                                                   {kExpertsPerRank, kWidth}, to * part));
      if (from != to) graph.Notify(WindowSignal(graph, domain, to, 0), 1, v1::ADD).After(sent);
    }
  }
  for (uint32_t r = 0; r < ranks; ++r) {
    const TensorRef received = matrix(graph, r, "received");
    const TaskRef all_here =
        graph.WaitFor(WindowSignal(graph, domain, r, 0), v1::GE, int64_t{ranks} - 1);
    graph
        .Task("take_rows", scene.chip(r),
              {received, WindowTensor(graph, domain, r, "by-expert", v1::I32, {tokens}),
               matrix(graph, r, "assembled")})
        .After(all_here);
  }
  return scene.RunGraph(
      graph,
      [&]() -> absl::Status {
        for (uint32_t r = 0; r < ranks; ++r) {
          PTO_RETURN_IF_ERROR(WindowOf(domain, r, "received").Write(std::vector<float>(count, -1)));
        }
        return absl::OkStatus();
      },
      [&]() -> absl::Status {
        for (uint32_t r = 0; r < ranks; ++r) {
          PTO_ASSIGN_OR_RETURN(const std::vector<float> out,
                               WindowOf(domain, r, "assembled").Read<float>(count));
          PTO_RETURN_IF_ERROR(Expect(
              absl::StrCat("assembled of rank ", r), out,
              [&](size_t at) {
                const int64_t row = static_cast<int64_t>(at) / kWidth;
                const auto from = static_cast<uint32_t>(row % ranks);
                const int64_t expert = int64_t{r} * kExpertsPerRank + row / ranks;
                const int64_t token = (expert + tokens - from) % tokens;
                return Token(from, token, static_cast<int64_t>(at) % kWidth);
              },
              1e-3));
        }
        return absl::OkStatus();
      });
}

}  // namespace pto::scenarios
