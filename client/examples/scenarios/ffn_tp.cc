// A feed-forward layer whose weights are split over the ranks: each rank multiplies its part, and
// the partial products are summed over all ranks. No edge is named: the daemon finds that the
// collective reads what the products write.

#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/examples/scenarios/list.h"
#include "client/examples/scenarios/scene.h"
#include "runtime/base/status_macros.h"

namespace pto::scenarios {
namespace {

constexpr int64_t kSide = 64;
constexpr int64_t kCount = kSide * kSide;

// x = (i + 0.25 r) / 32, times `factor`, which differs in each repetition, so that the sum of an
// earlier one is wrong.
std::vector<float> Input(uint32_t rank, int factor) {
  std::vector<float> x(kCount);
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<float>((static_cast<double>(i) + 0.25 * rank) / 32 * factor);
  }
  return x;
}

int Factor(int repetition) { return 1 + repetition % 7; }

std::vector<float> Weights(uint32_t rank) {
  std::vector<float> w(kCount);
  for (size_t i = 0; i < w.size(); ++i) {
    w[i] = static_cast<float>((static_cast<double>(i) + 0.5 * (rank + 1)) / 48);
  }
  return w;
}

// Adds the task that multiplies a rank's matrices.
void AddProduct(const std::vector<float>& x, const std::vector<float>& w,
                std::vector<double>& sum) {
  for (size_t row = 0; row < kSide; ++row) {
    for (size_t i = 0; i < kSide; ++i) {
      for (size_t column = 0; column < kSide; ++column) {
        sum[row * kSide + column] +=
            static_cast<double>(x[row * kSide + i]) * w[i * kSide + column];
      }
    }
  }
}

}  // namespace

absl::Status FfnTensorParallel(Client& client, const Options& options) {
  PTO_ASSIGN_OR_RETURN(Scene scene, Scene::Create(client, options));
  PTO_ASSIGN_OR_RETURN(const Domain domain, scene.MakeDomain("tp", {{"x", v1::F32, kCount},
                                                                    {"w", v1::F32, kCount},
                                                                    {"partial", v1::F32, kCount},
                                                                    {"y", v1::F32, kCount}}));
  GraphBuilder graph;
  std::vector<GroupMember> members;
  std::vector<double> golden(kCount);
  for (uint32_t r = 0; r < scene.ranks(); ++r) {
    const auto matrix = [&](const char* name) {
      return WindowTensor(graph, domain, r, name, v1::F32, {kSide, kSide});
    };
    const TensorRef partial = matrix("partial");
    graph.Task("matmul", scene.chip(r), {matrix("x"), matrix("w"), partial});
    members.push_back({scene.chip(r), {partial, matrix("y")}});
    const std::vector<float> w = Weights(r);
    PTO_RETURN_IF_ERROR(WindowOf(domain, r, "w").Write(w));
    AddProduct(Input(r, 1), w, golden);
  }
  graph.Group("all_reduce", members).Scalar(1).Scalar(0).Scalar(0);
  return scene.RunGraph(
      graph,
      [&](int repetition) -> absl::Status {
        for (uint32_t r = 0; r < scene.ranks(); ++r) {
          PTO_RETURN_IF_ERROR(WindowOf(domain, r, "x").Write(Input(r, Factor(repetition))));
        }
        return absl::OkStatus();
      },
      [&](int repetition) -> absl::Status {
        for (uint32_t r = 0; r < scene.ranks(); ++r) {
          PTO_ASSIGN_OR_RETURN(const std::vector<float> y,
                               WindowOf(domain, r, "y").Read<float>(kCount));
          // Ranks differ by less than a hundredth, and most by much less: the value of one rank
          // must not be accepted for another.
          PTO_RETURN_IF_ERROR(Expect(absl::StrCat("y of rank ", r), y,
                                     [&](size_t i) { return golden[i] * Factor(repetition); },
                                     {.absolute = 1e-4, .relative = 1e-5}));
        }
        return absl::OkStatus();
      });
}

}  // namespace pto::scenarios
