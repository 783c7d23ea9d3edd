// A layer of experts that are spread over the ranks: every token goes to six of them, wherever
// they are (dispatch), each weighs it, and what comes back is added up (combine).

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/examples/scenarios/bfloat16.h"
#include "client/examples/scenarios/list.h"
#include "client/examples/scenarios/moe_routes.h"
#include "client/examples/scenarios/scene.h"
#include "runtime/base/status_macros.h"

namespace pto::scenarios {
namespace {

constexpr int64_t kWidth = 4096;

// What the windows hold, by names; `most` is the largest number of routes that a rank receives.
std::vector<WindowBufferSpec> Buffers(uint32_t ranks, int64_t most) {
  const auto count = [](int64_t rows, int64_t width = 1) {
    return static_cast<uint64_t>(rows * width);
  };
  return {{"x", v1::BF16, count(kMoeTokens, kWidth)},
          {"token", v1::I32, count(kMoeRoutes)},
          {"weight", v1::F32, count(kMoeRoutes)},
          {"place", v1::I32, count(kMoeRoutes)},
          // How many routes go to and come from each rank, in elements of both kinds.
          {"sent-x", v1::I64, ranks},
          {"received-x", v1::I64, ranks},
          {"sent-w", v1::I64, ranks},
          {"received-w", v1::I64, ranks},
          {"send-x", v1::BF16, count(kMoeRoutes, kWidth)},
          {"recv-x", v1::BF16, count(most, kWidth)},
          {"recv-w", v1::F32, count(most)},
          {"recv-y", v1::BF16, count(most, kWidth)},
          {"back-y", v1::BF16, count(kMoeRoutes, kWidth)},
          {"y", v1::BF16, count(kMoeTokens, kWidth)}};
}

absl::Status WriteInputs(const Domain& domain, uint32_t rank, const MoeRank& routes) {
  std::vector<uint16_t> x;
  for (int64_t t = 0; t < kMoeTokens; ++t) {
    for (int64_t i = 0; i < kWidth; ++i) x.push_back(ToBfloat16(MoeToken(rank, t, i)));
  }
  const auto elements = [](std::vector<int64_t> rows, int64_t width) {
    for (int64_t& row : rows) row *= width;
    return rows;
  };
  PTO_RETURN_IF_ERROR(WindowOf(domain, rank, "x").Write(x));
  PTO_RETURN_IF_ERROR(WindowOf(domain, rank, "token").Write(routes.token));
  PTO_RETURN_IF_ERROR(WindowOf(domain, rank, "weight").Write(routes.weight));
  PTO_RETURN_IF_ERROR(WindowOf(domain, rank, "place").Write(routes.place));
  PTO_RETURN_IF_ERROR(WindowOf(domain, rank, "sent-w").Write(routes.sent));
  PTO_RETURN_IF_ERROR(WindowOf(domain, rank, "received-w").Write(routes.received));
  PTO_RETURN_IF_ERROR(WindowOf(domain, rank, "sent-x").Write(elements(routes.sent, kWidth)));
  return WindowOf(domain, rank, "received-x").Write(elements(routes.received, kWidth));
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
                           {flat(r, "weight", v1::F32, kMoeRoutes), counts("sent-w"),
                            flat(r, "recv-w", v1::F32, received), counts("received-w")}});
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

// Two units in the last place of a sum of this size.
constexpr double kTolerance = 0.25;

absl::Status CheckOutput(const Domain& domain, uint32_t rank) {
  PTO_ASSIGN_OR_RETURN(const std::vector<uint16_t> bits,
                       WindowOf(domain, rank, "y").Read<uint16_t>(kMoeTokens * kWidth));
  std::vector<float> y;
  for (const uint16_t value : bits) y.push_back(FromBfloat16(value));
  return Expect(
      absl::StrCat("y of rank ", rank), y,
      [&](size_t at) {
        const int64_t token = static_cast<int64_t>(at) / kWidth;
        const float x =
            FromBfloat16(ToBfloat16(MoeToken(rank, token, static_cast<int64_t>(at) % kWidth)));
        float sum = 0;
        for (int64_t k = 0; k < kMoeChoices; ++k) {
          sum += FromBfloat16(ToBfloat16(x * MoeWeight(rank, token, k)));
        }
        return static_cast<double>(sum);
      },
      kTolerance);
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
    PTO_RETURN_IF_ERROR(WriteInputs(domain, r, routes[r]));
  }
  GraphBuilder graph;
  AddTasks(graph, scene, domain, routes);
  return scene.RunGraph(
      graph, [] { return absl::OkStatus(); },
      [&]() -> absl::Status {
        for (uint32_t r = 0; r < scene.ranks(); ++r) {
          PTO_RETURN_IF_ERROR(CheckOutput(domain, r));
        }
        return absl::OkStatus();
      });
}

}  // namespace pto::scenarios
