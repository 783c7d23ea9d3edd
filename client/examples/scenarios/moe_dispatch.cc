// Dispatches tokens to experts, two on each rank: prepare, send, receive and assemble. Data and
// counts travel by copies that need no core, a notification reports that a sender's data has
// arrived, and the assembly waits for all of them.

#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "client/examples/scenarios/list.h"
#include "client/examples/scenarios/scene.h"
#include "runtime/base/status_macros.h"

namespace pto::scenarios {
namespace {

constexpr int64_t kWidth = 128;
constexpr int64_t kExpertsPerRank = 2;
constexpr int64_t kCountsRow = 32;  // counts from each sender that a rank has room for

// A rank has one token for each expert; this is also the width of everything else.
class Routing {
 public:
  explicit Routing(uint32_t ranks) : ranks_(ranks), tokens_(kExpertsPerRank * ranks) {}

  int64_t ranks() const { return ranks_; }
  int64_t tokens() const { return tokens_; }

  // In the first repetition token t is for expert t, in each later one for the next expert.
  int64_t ExpertOf(int64_t token, int repetition) const { return (token + repetition) % tokens_; }
  int64_t TokenOf(int64_t expert, int repetition) const {
    return (expert + tokens_ - repetition % tokens_) % tokens_;
  }
  double Token(int64_t rank, int64_t token, int64_t i, int repetition) const {
    return 1000.0 * static_cast<double>(rank) + 10.0 * static_cast<double>(token) +
           static_cast<double>(i) / 128 + repetition % 8;
  }

 private:
  int64_t ranks_;
  int64_t tokens_;
};

absl::StatusOr<Domain> MakeWindows(Scene& scene, const Routing& routing) {
  const auto rows = static_cast<uint64_t>(routing.tokens());
  const uint64_t count = rows * kWidth;
  return scene.MakeDomain("experts",
                          {{"tokens", v1::F32, count},
                           {"order", v1::I32, rows},
                           {"choices", v1::I32, rows * rows},
                           {"ones", v1::I32, rows},
                           {"packed", v1::F32, count},
                           {"local-counts", v1::I32, rows},
                           {"received", v1::F32, count},
                           {"recv-counts", v1::I32, scene.ranks() * uint64_t{kCountsRow}},
                           {"by-expert", v1::I32, rows},
                           {"assembled", v1::F32, count},
                           {"expert-token-nums", v1::I32, kExpertsPerRank},
                           {"delay", v1::F32, kDelayFloats}},
                          /*signals=*/1);
}

// The constants: how to order the received rows, which alternate between the first and the second
// expert for each sender.
absl::Status WriteTables(const Domain& domain, uint32_t rank, const Routing& routing) {
  std::vector<int32_t> by_expert;
  for (int64_t expert = 0; expert < kExpertsPerRank; ++expert) {
    for (int64_t from = 0; from < routing.ranks(); ++from) {
      by_expert.push_back(static_cast<int32_t>(from * kExpertsPerRank + expert));
    }
  }
  PTO_RETURN_IF_ERROR(WindowOf(domain, rank, "by-expert").Write(by_expert));
  return WindowOf(domain, rank, "ones")
      .Write(std::vector<int32_t>(static_cast<size_t>(routing.tokens()), 1));
}

// The tokens, and the router's output: choices[t][e] is 1 if token t is for expert e.
absl::Status WriteInputs(const Domain& domain, uint32_t rank, const Routing& routing,
                         int repetition) {
  const int64_t tokens = routing.tokens();
  std::vector<float> in;
  std::vector<int32_t> order(static_cast<size_t>(tokens));
  std::vector<int32_t> choices(static_cast<size_t>(tokens * tokens));
  for (int64_t t = 0; t < tokens; ++t) {
    const int64_t expert = routing.ExpertOf(t, repetition);
    order[static_cast<size_t>(expert)] = static_cast<int32_t>(t);
    choices[static_cast<size_t>(t * tokens + expert)] = 1;
    for (int64_t i = 0; i < kWidth; ++i) {
      in.push_back(static_cast<float>(routing.Token(rank, t, i, repetition)));
    }
  }
  PTO_RETURN_IF_ERROR(WindowOf(domain, rank, "tokens").Write(in));
  PTO_RETURN_IF_ERROR(WindowOf(domain, rank, "order").Write(order));
  PTO_RETURN_IF_ERROR(WindowOf(domain, rank, "choices").Write(choices));
  // A receiver that does not wait finds this value.
  PTO_RETURN_IF_ERROR(Spoil(WindowOf(domain, rank, "received")));
  std::vector<int32_t> counts(static_cast<size_t>(routing.ranks() * kCountsRow));
  for (size_t i = 0; i < counts.size(); ++i) counts[i] = i % kCountsRow < kExpertsPerRank ? -1 : 0;
  return WindowOf(domain, rank, "recv-counts").Write(counts);
}

// The tasks of all ranks, in an order in which only the notifications keep the receivers behind the
// senders.
class Tasks {
 public:
  Tasks(GraphBuilder& graph, const Scene& scene, const Domain& domain)
      : graph_(graph), scene_(scene), domain_(domain), tokens_(kExpertsPerRank * scene.ranks()) {}

  void Add() {
    const uint32_t ranks = scene_.ranks();
    for (uint32_t r = 0; r < ranks; ++r) Prepare(r);
    std::vector<TaskRef> own;
    for (uint32_t r = 0; r < ranks; ++r) own.push_back(Send(r, r, graph_.Join()));
    for (uint32_t r = 0; r < ranks; ++r) ReceiveAndAssemble(r, own[r]);
    // The last rank's messages to others come later than everything else.
    const TaskRef late = Delay(graph_, scene_.chip(ranks - 1),
                               View(ranks - 1, "delay", v1::F32, {kDelayFloats}), own.back());
    for (uint32_t from = 0; from < ranks; ++from) {
      const TaskRef start = from + 1 == ranks ? late : graph_.Join();
      for (uint32_t to = 0; to < ranks; ++to) {
        if (to == from) continue;
        const TaskRef sent = Send(from, to, start);
        graph_.Notify(WindowSignal(graph_, domain_, to, 0), 1, v1::ADD).After(sent);
      }
    }
  }

 private:
  TensorRef View(uint32_t rank, const char* name, v1::DType dtype, absl::Span<const int64_t> shape,
                 int64_t offset = 0) {
    return WindowTensor(graph_, domain_, rank, name, dtype, shape, offset);
  }
  TensorRef Rows(uint32_t rank, const char* name) {
    return View(rank, name, v1::F32, {tokens_, kWidth});
  }

  // The tokens in order of their experts, and the number of tokens for each.
  void Prepare(uint32_t rank) {
    graph_
        .Task("take_rows", scene_.chip(rank),
              {Rows(rank, "tokens"), View(rank, "order", v1::I32, {tokens_}), Rows(rank, "packed")})
        .Name(absl::StrCat("pack ", rank));
    graph_
        .Task("matmul", scene_.chip(rank),
              {View(rank, "ones", v1::I32, {1, tokens_}),
               View(rank, "choices", v1::I32, {tokens_, tokens_}),
               View(rank, "local-counts", v1::I32, {1, tokens_})})
        .Name(absl::StrCat("count ", rank));
  }

  // The tokens for the experts of a rank, and their counts.
  TaskRef Send(uint32_t from, uint32_t to, const TaskRef& start) {
    constexpr int64_t kPart = kExpertsPerRank * kWidth;
    const TaskRef data =
        graph_
            .Copy(View(to, "received", v1::F32, {kExpertsPerRank, kWidth}, from * kPart),
                  View(from, "packed", v1::F32, {kExpertsPerRank, kWidth}, to * kPart))
            .After(start);
    const TaskRef counts =
        graph_
            .Copy(View(to, "recv-counts", v1::I32, {kExpertsPerRank}, from * kCountsRow),
                  View(from, "local-counts", v1::I32, {kExpertsPerRank}, to * kExpertsPerRank))
            .After(start);
    return graph_.Join({data, counts});
  }

  // Received data creates no dependency: only its notifications do, and the rank's own part.
  void ReceiveAndAssemble(uint32_t rank, const TaskRef& own) {
    const int64_t ranks = scene_.ranks();
    const TaskRef others = graph_.WaitFor(WindowSignal(graph_, domain_, rank, 0), v1::GE, ranks - 1)
                               .Name(absl::StrCat("receive ", rank));
    graph_
        .Task("take_rows", scene_.chip(rank),
              {Rows(rank, "received"), View(rank, "by-expert", v1::I32, {tokens_}),
               Rows(rank, "assembled")})
        .Name(absl::StrCat("assemble ", rank))
        .NoDependency(0)
        .After({own, others});
    const TensorRef counts =
        graph_.Tensor(UniqueName("counts"), WindowOf(domain_, rank, "recv-counts"), v1::I32,
                      {ranks, kExpertsPerRank}, {kCountsRow, 1});
    graph_
        .Task("matmul", scene_.chip(rank),
              {View(rank, "ones", v1::I32, {1, ranks}), counts,
               View(rank, "expert-token-nums", v1::I32, {1, kExpertsPerRank})})
        .Name(absl::StrCat("add up counts ", rank))
        .NoDependency(1)
        .After({own, others});
  }

  GraphBuilder& graph_;
  const Scene& scene_;
  const Domain& domain_;
  const int64_t tokens_;
};

absl::Status CheckRank(const Domain& domain, uint32_t rank, const Routing& routing,
                       int repetition) {
  const auto counts = [&](const char* name, int64_t count) {
    return WindowOf(domain, rank, name).Read<int32_t>(static_cast<uint64_t>(count));
  };
  const auto what = [&](const char* name) { return absl::StrCat(name, " of rank ", rank); };
  PTO_ASSIGN_OR_RETURN(const std::vector<int32_t> local, counts("local-counts", routing.tokens()));
  PTO_RETURN_IF_ERROR(Expect(what("local-counts"), local, [](size_t) { return 1; }));
  PTO_ASSIGN_OR_RETURN(const std::vector<int32_t> received,
                       counts("recv-counts", routing.ranks() * kCountsRow));
  PTO_RETURN_IF_ERROR(Expect(what("recv-counts"), received,
                             [](size_t i) { return i % kCountsRow < kExpertsPerRank ? 1 : 0; }));
  PTO_ASSIGN_OR_RETURN(const std::vector<int32_t> sums,
                       counts("expert-token-nums", kExpertsPerRank));
  PTO_RETURN_IF_ERROR(
      Expect(what("expert-token-nums"), sums, [&](size_t) { return routing.ranks(); }));
  PTO_ASSIGN_OR_RETURN(const std::vector<float> assembled,
                       WindowOf(domain, rank, "assembled")
                           .Read<float>(static_cast<uint64_t>(routing.tokens() * kWidth)));
  return Expect(what("assembled"), assembled, [&](size_t at) {
    const int64_t row = static_cast<int64_t>(at) / kWidth;
    const int64_t from = row % routing.ranks();
    const int64_t expert = int64_t{rank} * kExpertsPerRank + row / routing.ranks();
    return routing.Token(from, routing.TokenOf(expert, repetition),
                         static_cast<int64_t>(at) % kWidth, repetition);
  });
}

}  // namespace

absl::Status MoeDispatch(Client& client, const Options& options) {
  PTO_ASSIGN_OR_RETURN(Scene scene, Scene::Create(client, options));
  const Routing routing(scene.ranks());
  PTO_ASSIGN_OR_RETURN(const Domain domain, MakeWindows(scene, routing));
  for (uint32_t r = 0; r < scene.ranks(); ++r) {
    PTO_RETURN_IF_ERROR(WriteTables(domain, r, routing));
  }
  GraphBuilder graph;
  Tasks(graph, scene, domain).Add();
  return scene.RunGraph(
      graph,
      [&](int repetition) -> absl::Status {
        for (uint32_t r = 0; r < scene.ranks(); ++r) {
          PTO_RETURN_IF_ERROR(WriteInputs(domain, r, routing, repetition));
        }
        return absl::OkStatus();
      },
      [&](int repetition) -> absl::Status {
        for (uint32_t r = 0; r < scene.ranks(); ++r) {
          PTO_RETURN_IF_ERROR(CheckRank(domain, r, routing, repetition));
        }
        return absl::OkStatus();
      });
}

}  // namespace pto::scenarios
