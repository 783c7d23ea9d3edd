// Adds two vectors on every chip of a node, and checks the sums.

#include <cstdio>
#include <numeric>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/client.h"
#include "runtime/base/status_macros.h"

namespace {

constexpr int64_t kCount = 1 << 16;

absl::Status AddVectors() {
  PTO_ASSIGN_OR_RETURN(pto::Client client, pto::Client::Connect());
  PTO_ASSIGN_OR_RETURN(pto::Session session, client.CreateSession());

  std::vector<float> a(kCount), b(kCount, 0.5f);
  std::iota(a.begin(), a.end(), 0.0f);

  pto::GraphBuilder graph;
  std::vector<pto::Tensor<float>> sums;
  for (uint32_t chip = 0; chip < client.node().chip_count(); ++chip) {
    PTO_ASSIGN_OR_RETURN(auto x, session.CreateTensor<float>(chip, {kCount}));
    PTO_ASSIGN_OR_RETURN(auto y, session.CreateTensor<float>(chip, {kCount}));
    PTO_ASSIGN_OR_RETURN(auto sum, session.CreateTensor<float>(chip, {kCount}));
    PTO_RETURN_IF_ERROR(x.Write(a));
    PTO_RETURN_IF_ERROR(y.Write(b));
    graph.Task("add", chip, {graph.Tensor(x), graph.Tensor(y), graph.Tensor(sum)}).Blocks(8);
    sums.push_back(sum);
  }

  PTO_ASSIGN_OR_RETURN(const pto::Run run, session.Submit(graph));
  PTO_ASSIGN_OR_RETURN(const pto::v1::Run ended, run.Wait());
  PTO_RETURN_IF_ERROR(pto::StatusOf(ended));

  for (const pto::Tensor<float>& sum : sums) {
    PTO_ASSIGN_OR_RETURN(const std::vector<float> values, sum.Read());
    for (int64_t i = 0; i < kCount; ++i) {
      if (values[i] != a[i] + b[i]) {
        return absl::DataLossError(absl::StrCat("chip ", sum.buffer().chip(), ", element ", i, ": ",
                                                values[i], " instead of ", a[i] + b[i]));
      }
    }
  }
  std::printf("vector_add: ok, %zu chips, %lld elements each\n", sums.size(),
              static_cast<long long>(kCount));
  return absl::OkStatus();
}

}  // namespace

int main() {
  const absl::Status status = AddVectors();
  if (!status.ok()) std::fprintf(stderr, "vector_add: %s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
