// A feed-forward network of two layers, y = (x·w1 + b1)∘(x·w1 + b1) · w2 + b2, registered once
// and launched for several inputs. Checks every output.

#include <cmath>
#include <cstdio>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/client.h"
#include "runtime/base/status_macros.h"

namespace {

constexpr int64_t kRows = 16, kIn = 32, kHidden = 64, kOut = 8;
constexpr int kBatches = 4;

using Matrix = std::vector<float>;

// Small numbers that differ by position.
Matrix Fill(int64_t count, int seed) {
  Matrix out(count);
  for (int64_t i = 0; i < count; ++i) {
    out[i] = static_cast<float>((i * 37 + seed * 101) % 64) / 64.0f - 0.5f;
  }
  return out;
}

// a[rows, inner] · b[inner, columns] + bias, in double arithmetic.
std::vector<double> Layer(const std::vector<double>& a, const Matrix& b, const Matrix& bias,
                          int64_t inner, int64_t columns) {
  std::vector<double> out(bias.begin(), bias.end());
  for (int64_t row = 0; row < kRows; ++row) {
    for (int64_t i = 0; i < inner; ++i) {
      for (int64_t column = 0; column < columns; ++column) {
        out[row * columns + column] += a[row * inner + i] * b[i * columns + column];
      }
    }
  }
  return out;
}

absl::Status RunNetwork() {
  PTO_ASSIGN_OR_RETURN(pto::Client client, pto::Client::Connect());
  PTO_ASSIGN_OR_RETURN(pto::Session session, client.CreateSession());
  const Matrix w1 = Fill(kIn * kHidden, 1), b1 = Fill(kRows * kHidden, 2);
  const Matrix w2 = Fill(kHidden * kOut, 3), b2 = Fill(kRows * kOut, 4);

  pto::GraphBuilder graph;
  auto tensor = [&](std::vector<int64_t> shape,
                    const Matrix& values) -> absl::StatusOr<pto::Tensor<float>> {
    PTO_ASSIGN_OR_RETURN(auto made, session.CreateTensor<float>(0, std::move(shape)));
    if (!values.empty()) PTO_RETURN_IF_ERROR(made.Write(values));
    return made;
  };
  PTO_ASSIGN_OR_RETURN(auto x, tensor({kRows, kIn}, {}));
  PTO_ASSIGN_OR_RETURN(auto weights_1, tensor({kIn, kHidden}, w1));
  PTO_ASSIGN_OR_RETURN(auto bias_1, tensor({kRows, kHidden}, b1));
  PTO_ASSIGN_OR_RETURN(auto weights_2, tensor({kHidden, kOut}, w2));
  PTO_ASSIGN_OR_RETURN(auto bias_2, tensor({kRows, kOut}, b2));
  PTO_ASSIGN_OR_RETURN(auto product_1, tensor({kRows, kHidden}, {}));
  PTO_ASSIGN_OR_RETURN(auto hidden, tensor({kRows, kHidden}, {}));
  PTO_ASSIGN_OR_RETURN(auto squared, tensor({kRows, kHidden}, {}));
  PTO_ASSIGN_OR_RETURN(auto product_2, tensor({kRows, kOut}, {}));
  PTO_ASSIGN_OR_RETURN(auto y, tensor({kRows, kOut}, {}));

  const pto::TensorRef p1 = graph.Tensor(product_1), p2 = graph.Tensor(product_2);
  const pto::TensorRef h = graph.Tensor(hidden), hh = graph.Tensor(squared);
  // The daemon finds the order from their reads and writes.
  graph.Task("matmul", 0, {graph.Tensor(x), graph.Tensor(weights_1), p1});
  graph.Task("add", 0, {p1, graph.Tensor(bias_1), h});
  graph.Task("mul", 0, {h, h, hh});
  graph.Task("matmul", 0, {hh, graph.Tensor(weights_2), p2});
  graph.Task("add", 0, {p2, graph.Tensor(bias_2), graph.Tensor(y)});
  PTO_RETURN_IF_ERROR(session.Register("ffn", graph).status());

  for (int batch = 0; batch < kBatches; ++batch) {
    const Matrix input = Fill(kRows * kIn, 10 + batch);
    PTO_RETURN_IF_ERROR(x.Write(input));
    PTO_ASSIGN_OR_RETURN(const pto::Run run, session.Launch("ffn"));
    PTO_ASSIGN_OR_RETURN(const pto::v1::Run ended, run.Wait());
    PTO_RETURN_IF_ERROR(pto::StatusOf(ended));
    PTO_ASSIGN_OR_RETURN(const Matrix output, y.Read());

    std::vector<double> expected = Layer({input.begin(), input.end()}, w1, b1, kIn, kHidden);
    for (double& value : expected) value *= value;
    expected = Layer(expected, w2, b2, kHidden, kOut);
    for (size_t i = 0; i < output.size(); ++i) {
      if (!(std::fabs(output[i] - expected[i]) <= 1e-3)) {
        return absl::DataLossError(absl::StrCat("batch ", batch, ", element ", i, ": ", output[i],
                                                " instead of ", expected[i]));
      }
    }
  }
  std::printf("ffn: ok, %d batches of %lld rows\n", kBatches, static_cast<long long>(kRows));
  return absl::OkStatus();
}

}  // namespace

int main() {
  const absl::Status status = RunNetwork();
  if (!status.ok()) std::fprintf(stderr, "ffn: %s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
