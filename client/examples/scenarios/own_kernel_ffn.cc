// A feed-forward layer over several chips with nothing but kernels that this program uploads: the
// first weights are split by columns and the second by rows, so that each rank computes with its
// part alone, and a kernel that notifies and waits sums the results of all ranks.

#include <cmath>
#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "client/examples/scenarios/list.h"
#include "client/examples/scenarios/scene.h"
#include "runtime/base/status_macros.h"

namespace pto::scenarios {
namespace {

// kernels/own_ffn.cc as a shared object.
constexpr unsigned char kObject[] = {
#include "client/examples/scenarios/kernels/own_ffn.inc"
};

constexpr int64_t kTokens = 16;
constexpr int64_t kModel = 48;
constexpr int64_t kHidden = 24;  // on each rank
constexpr uint32_t kBlocks = 3;

// Small numbers without a pattern that a wrong index would hide in.
float Number(uint64_t seed, uint64_t i) {
  const uint64_t mixed = (seed * 1'000'003 + i) * 0x9e3779b97f4a7c15ull;
  return static_cast<float>(static_cast<double>(mixed >> 40) / (1 << 24) - 0.5);
}

std::vector<float> Numbers(uint64_t seed, int64_t count) {
  std::vector<float> numbers(static_cast<size_t>(count));
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = Number(seed, i);
  return numbers;
}

// Other inputs in each repetition, so that an earlier result is wrong.
std::vector<float> Tokens(int repetition) {
  return Numbers(7 + static_cast<uint64_t>(repetition), kTokens * kModel);
}
std::vector<float> FirstWeights(uint32_t rank) { return Numbers(100 + rank, kModel * kHidden); }
std::vector<float> SecondWeights(uint32_t rank) { return Numbers(200 + rank, kHidden * kModel); }

// The whole layer, without any kernel.
std::vector<double> Golden(uint32_t ranks, int repetition) {
  const std::vector<float> x = Tokens(repetition);
  std::vector<double> y(kTokens * kModel);
  for (uint32_t r = 0; r < ranks; ++r) {
    const std::vector<float> first = FirstWeights(r), second = SecondWeights(r);
    for (size_t t = 0; t < kTokens; ++t) {
      for (size_t h = 0; h < kHidden; ++h) {
        double hidden = 0;
        for (size_t i = 0; i < kModel; ++i) {
          hidden += static_cast<double>(x[t * kModel + i]) * first[i * kHidden + h];
        }
        hidden /= 1 + std::exp(-hidden);
        for (size_t i = 0; i < kModel; ++i) {
          y[t * kModel + i] += hidden * second[h * kModel + i];
        }
      }
    }
  }
  return y;
}

absl::Status Upload(Session& session) {
  const absl::string_view object(reinterpret_cast<const char*>(kObject), sizeof kObject);
  for (const char* kernel : {"own_matmul", "own_silu", "own_all_reduce"}) {
    KernelOptions options;
    options.entry = kernel;
    options.file_name = "own_ffn.so";
    PTO_RETURN_IF_ERROR(session.RegisterKernelObject(object, options).status());
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status OwnKernelFfn(Client& client, const Options& options) {
  PTO_ASSIGN_OR_RETURN(Scene scene, Scene::Create(client, options));
  PTO_RETURN_IF_ERROR(Upload(scene.session()));
  const uint32_t ranks = scene.ranks();
  PTO_ASSIGN_OR_RETURN(const Domain domain,
                       scene.MakeDomain("ffn",
                                        {{"x", v1::F32, kTokens * kModel},
                                         {"w1", v1::F32, kModel * kHidden},
                                         {"h", v1::F32, kTokens * kHidden},
                                         {"w2", v1::F32, kHidden * kModel},
                                         {"partial", v1::F32, kTokens * kModel},
                                         {"y", v1::F32, kTokens * kModel},
                                         {"slots", v1::F32, uint64_t{ranks} * kTokens * kModel}},
                                        ranks * kBlocks));
  GraphBuilder graph;
  std::vector<GroupMember> members;
  for (uint32_t r = 0; r < ranks; ++r) {
    const auto matrix = [&](const char* name, int64_t rows, int64_t columns) {
      return WindowTensor(graph, domain, r, name, v1::F32, {rows, columns});
    };
    const auto flat = [&](const char* name) {
      return WindowTensor(graph, domain, r, name, v1::F32, {kTokens * kModel});
    };
    const TensorRef h = matrix("h", kTokens, kHidden);
    graph
        .Task("own_matmul", scene.chip(r),
              {matrix("x", kTokens, kModel), matrix("w1", kModel, kHidden), h})
        .Blocks(kBlocks);
    graph.Task("own_silu", scene.chip(r), {h}).Blocks(kBlocks);
    graph
        .Task("own_matmul", scene.chip(r),
              {h, matrix("w2", kHidden, kModel), matrix("partial", kTokens, kModel)})
        .Blocks(kBlocks);
    const TensorRef arrived = graph.Tensor(UniqueName("arrived"), domain.Signals(r).value(),
                                           v1::I64, {static_cast<int64_t>(ranks) * kBlocks});
    members.push_back(
        {scene.chip(r),
         {flat("partial"), flat("y"), matrix("slots", ranks, kTokens * kModel), arrived}});
    PTO_RETURN_IF_ERROR(WindowOf(domain, r, "w1").Write(FirstWeights(r)));
    PTO_RETURN_IF_ERROR(WindowOf(domain, r, "w2").Write(SecondWeights(r)));
  }
  graph.Group("own_all_reduce", members).Blocks(kBlocks).SyncStart();
  return scene.RunGraph(
      graph,
      [&](int repetition) -> absl::Status {
        for (uint32_t r = 0; r < ranks; ++r) {
          PTO_RETURN_IF_ERROR(WindowOf(domain, r, "x").Write(Tokens(repetition)));
          PTO_RETURN_IF_ERROR(Spoil(WindowOf(domain, r, "y")));
          PTO_RETURN_IF_ERROR(Spoil(WindowOf(domain, r, "slots")));
        }
        return absl::OkStatus();
      },
      [&](int repetition) -> absl::Status {
        const std::vector<double> golden = Golden(ranks, repetition);
        for (uint32_t r = 0; r < ranks; ++r) {
          PTO_ASSIGN_OR_RETURN(const std::vector<float> y,
                               WindowOf(domain, r, "y").Read<float>(kTokens * kModel));
          PTO_RETURN_IF_ERROR(Expect(absl::StrCat("y of rank ", r), y,
                                     [&](size_t i) { return golden[i]; },
                                     {.absolute = 1e-5, .relative = 1e-5}));
        }
        return absl::OkStatus();
      });
}

}  // namespace pto::scenarios
