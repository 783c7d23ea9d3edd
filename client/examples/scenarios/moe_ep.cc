// A layer of experts that are spread over the ranks: every token goes to six of them, on any rank
// (dispatch), each weights it, and the results are summed (combine).

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "client/examples/scenarios/list.h"
#include "client/examples/scenarios/moe_golden.h"
#include "client/examples/scenarios/moe_routes.h"
#include "client/examples/scenarios/scene.h"
#include "runtime/base/status_macros.h"

namespace pto::scenarios {
namespace {

constexpr int64_t kWidth = kMoeWidth;

// The contents of the windows, by name; `most` is the largest number of routes that a rank
// receives.
std::vector<WindowBufferSpec> Buffers(uint32_t ranks, int64_t most) {
  const auto count = [](int64_t rows, int64_t width = 1) {
    return static_cast<uint64_t>(rows * width);
  };
  return {{"x", v1::BF16, count(kMoeTokens, kWidth)},
          {"token", v1::I32, count(kMoeRoutes)},
          {"weight", v1::F32, count(kMoeRoutes)},
          {"place", v1::I32, count(kMoeRoutes)},
          // Element [i,j] is 1 if route i leads to rank j.
          {"leads-to", v1::I64, count(kMoeRoutes, ranks)},
          {"ones", v1::I64, count(kMoeRoutes)},
          // The number of routes to and from each rank: in rows, and in elements.
          {"sent", v1::I64, ranks},
          {"received", v1::I64, ranks},
          {"sent-x", v1::I64, ranks},
          {"received-x", v1::I64, ranks},
          {"send-x", v1::BF16, count(kMoeRoutes, kWidth)},
          {"recv-x", v1::BF16, count(most, kWidth)},
          {"recv-w", v1::F32, count(most)},
          {"recv-y", v1::BF16, count(most, kWidth)},
          {"back-y", v1::BF16, count(kMoeRoutes, kWidth)},
          {"y", v1::BF16, count(kMoeTokens, kWidth)}};
}

// The destination of every route, chosen by the client. The chips count them.
absl::Status WriteRoutes(const Domain& domain, uint32_t rank, const MoeRank& routes) {
  const size_t ranks = routes.sent.size();
  std::vector<int64_t> leads_to(kMoeRoutes * ranks);
  size_t route = 0;
  for (size_t to = 0; to < ranks; ++to) {
    for (int64_t i = 0; i < routes.sent[to]; ++i) leads_to[ranks * route++ + to] = 1;
  }
  PTO_RETURN_IF_ERROR(WindowOf(domain, rank, "token").Write(routes.token));
  PTO_RETURN_IF_ERROR(WindowOf(domain, rank, "weight").Write(routes.weight));
  PTO_RETURN_IF_ERROR(WindowOf(domain, rank, "place").Write(routes.place));
  PTO_RETURN_IF_ERROR(WindowOf(domain, rank, "leads-to").Write(leads_to));
  return WindowOf(domain, rank, "ones").Write(std::vector<int64_t>(kMoeRoutes, 1));
}

// The histogram, the exchange of the counts, and the same counts in elements.
void AddCounting(GraphBuilder& graph, const Scene& scene, const Domain& domain) {
  const int64_t ranks = scene.ranks();
  const auto counts = [&](uint32_t r, const char* name) {
    return WindowTensor(graph, domain, r, name, v1::I64, {ranks});
  };
  std::vector<GroupMember> members;
  for (uint32_t r = 0; r < ranks; ++r) {
    graph
        .Task("matmul", scene.chip(r),
              {WindowTensor(graph, domain, r, "ones", v1::I64, {1, kMoeRoutes}),
               WindowTensor(graph, domain, r, "leads-to", v1::I64, {kMoeRoutes, ranks}),
               WindowTensor(graph, domain, r, "sent", v1::I64, {1, ranks})})
        .Name(absl::StrCat("count ", r));
    members.push_back({scene.chip(r), {counts(r, "sent"), counts(r, "received")}});
  }
  graph.Group("all_to_all", members).Name("publish counts");
  constexpr double kWide = kWidth;
  for (uint32_t r = 0; r < ranks; ++r) {
    graph.Task("scale", scene.chip(r), {counts(r, "sent"), counts(r, "sent-x")}).Scalar(kWide);
    graph.Task("scale", scene.chip(r), {counts(r, "received"), counts(r, "received-x")})
        .Scalar(kWide);
  }
}

void AddTasks(GraphBuilder& graph, const Scene& scene, const Domain& domain,
              const std::vector<MoeRank>& routes) {
  const uint32_t ranks = scene.ranks();
  const auto flat = [&](uint32_t r, const char* name, v1::DType dtype, int64_t count) {
    return WindowTensor(graph, domain, r, name, dtype, {count});
  };
  const auto matrix = [&](uint32_t r, const char* name, int64_t rows) {
    return WindowTensor(graph, domain, r, name, v1::BF16, {rows, kWidth});
  };
  constexpr uint32_t kBlocks = 4;

  AddCounting(graph, scene, domain);
  std::vector<GroupMember> rows_out;
  std::vector<GroupMember> weights_out;
  std::vector<GroupMember> rows_back;
  for (uint32_t r = 0; r < ranks; ++r) {
    const int64_t received = routes[r].all_received;
    const auto counts = [&](const char* name) { return flat(r, name, v1::I64, ranks); };
    graph
        .Task("take_rows", scene.chip(r),
              {matrix(r, "x", kMoeTokens), flat(r, "token", v1::I32, kMoeRoutes),
               matrix(r, "send-x", kMoeRoutes)})
        .Name(absl::StrCat("pack ", r))
        .Blocks(kBlocks);
    rows_out.push_back({scene.chip(r),
                        {flat(r, "send-x", v1::BF16, kMoeRoutes * kWidth), counts("sent-x"),
                         flat(r, "recv-x", v1::BF16, received * kWidth), counts("received-x")}});
    weights_out.push_back({scene.chip(r),
                           {flat(r, "weight", v1::F32, kMoeRoutes), counts("sent"),
                            flat(r, "recv-w", v1::F32, received), counts("received")}});
    rows_back.push_back({scene.chip(r),
                         {flat(r, "recv-y", v1::BF16, received * kWidth), counts("received-x"),
                          flat(r, "back-y", v1::BF16, kMoeRoutes * kWidth), counts("sent-x")}});
  }
  graph.Group("all_to_all_v", weights_out).Name("dispatch weights");
  graph.Group("all_to_all_v", rows_out).Name("dispatch");
  for (uint32_t r = 0; r < ranks; ++r) {
    const int64_t received = routes[r].all_received;
    graph
        .Task("scale_rows", scene.chip(r),
              {matrix(r, "recv-x", received), flat(r, "recv-w", v1::F32, received),
               matrix(r, "recv-y", received)})
        .Name(absl::StrCat("experts ", r))
        .Blocks(kBlocks);
  }
  graph.Group("all_to_all_v", rows_back).Name("combine");
  for (uint32_t r = 0; r < ranks; ++r) {
    graph
        .Task("sum_rows", scene.chip(r),
              {matrix(r, "back-y", kMoeRoutes),
               WindowTensor(graph, domain, r, "place", v1::I32, {kMoeTokens, kMoeChoices}),
               matrix(r, "y", kMoeTokens)})
        .Name(absl::StrCat("add up ", r))
        .Blocks(kBlocks);
  }
}

absl::Status CheckRank(const Domain& domain, uint32_t rank, const MoeRank& routes,
                       const MoeGolden& golden) {
  const auto read = [&](const char* name, int64_t rows) {
    return WindowOf(domain, rank, name).Read<uint16_t>(static_cast<uint64_t>(rows * kWidth));
  };
  for (const auto& [name, want] :
       {std::pair("sent", &routes.sent), std::pair("received", &routes.received)}) {
    PTO_ASSIGN_OR_RETURN(const std::vector<int64_t> have,
                         WindowOf(domain, rank, name).Read<int64_t>(want->size()));
    PTO_RETURN_IF_ERROR(Expect(absl::StrCat(name, " of rank ", rank), have,
                               [want = want](size_t i) { return (*want)[i]; }));
  }
  PTO_ASSIGN_OR_RETURN(const std::vector<uint16_t> recv_x, read("recv-x", routes.all_received));
  PTO_ASSIGN_OR_RETURN(const std::vector<uint16_t> recv_y, read("recv-y", routes.all_received));
  PTO_RETURN_IF_ERROR(golden.CheckReceived(rank, recv_x, recv_y));
  PTO_ASSIGN_OR_RETURN(const std::vector<uint16_t> y, read("y", kMoeTokens));
  return golden.CheckOutput(rank, y);
}

}  // namespace

absl::Status MoeExpertParallel(Client& client, const Options& options) {
  PTO_ASSIGN_OR_RETURN(Scene scene, Scene::Create(client, options));
  const std::vector<MoeRank> routes = MakeMoeRoutes(scene.ranks());
  int64_t most = 0;
  for (const MoeRank& rank : routes) most = std::max(most, rank.all_received);
  PTO_ASSIGN_OR_RETURN(const Domain domain,
                       scene.MakeDomain("experts", Buffers(scene.ranks(), most)));
  for (uint32_t r = 0; r < scene.ranks(); ++r) {
    PTO_RETURN_IF_ERROR(WriteRoutes(domain, r, routes[r]));
  }
  GraphBuilder graph;
  AddTasks(graph, scene, domain, routes);
  MoeExperts experts;
  absl::optional<MoeGolden> golden;
  return scene.RunGraph(
      graph,
      [&](int repetition) -> absl::Status {
        golden.emplace(routes, experts, repetition);
        for (uint32_t r = 0; r < scene.ranks(); ++r) {
          PTO_RETURN_IF_ERROR(WindowOf(domain, r, "x").Write(golden->Input(r)));
        }
        return absl::OkStatus();
      },
      [&](int) -> absl::Status {
        for (uint32_t r = 0; r < scene.ranks(); ++r) {
          PTO_RETURN_IF_ERROR(CheckRank(domain, r, routes[r], *golden));
        }
        return absl::OkStatus();
      });
}

}  // namespace pto::scenarios
