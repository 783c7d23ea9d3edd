#include "client/job/reference.h"

#include <functional>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "runtime/base/error.h"

namespace pto::job {
namespace {

using Op = v1::Reference;

// Limit for the elements of a product, which can be much larger than its inputs.
constexpr int64_t kMaxProduct = int64_t{1} << 30;

absl::Status Refuse(absl::string_view message) { return Error(reason::kFieldInvalid, message); }

size_t InputCount(v1::Reference::Op op) {
  switch (op) {
    case Op::COPY:
    case Op::SCALE:
    case Op::REDUCE_SUM:
      return 1;
    case Op::ADD:
    case Op::SUB:
    case Op::MUL:
    case Op::AXPY:
    case Op::MATMUL:
      return 2;
    default:
      return 0;
  }
}

absl::StatusOr<Numbers> ElementWise(const Numbers& a, const Numbers& b,
                                    const std::function<double(double, double)>& f) {
  if (a.values.size() != b.values.size()) {
    return Refuse(absl::StrCat("expected inputs of the same size, got ", ShapeText(a.shape),
                               " and ", ShapeText(b.shape)));
  }
  Numbers out = a;
  for (size_t i = 0; i < out.values.size(); ++i) out.values[i] = f(a.values[i], b.values[i]);
  return out;
}

absl::StatusOr<Numbers> MatrixProduct(const Numbers& a, const Numbers& b) {
  if (a.shape.size() != 2 || b.shape.size() != 2 || a.shape[1] != b.shape[0]) {
    return Refuse(absl::StrCat("expected matrices of M x K and K x N, got ", ShapeText(a.shape),
                               " and ", ShapeText(b.shape)));
  }
  const int64_t m = a.shape[0], k = a.shape[1], n = b.shape[1];
  int64_t count = 0;
  if (__builtin_mul_overflow(m, n, &count) || count > kMaxProduct) {
    return Refuse(absl::StrCat("the product of ", ShapeText(a.shape), " and ", ShapeText(b.shape),
                               " has more than ", kMaxProduct, " elements"));
  }
  Numbers out{{m, n}, std::vector<double>(count)};
  for (int64_t row = 0; row < m; ++row) {
    for (int64_t inner = 0; inner < k; ++inner) {
      const double factor = a.values[row * k + inner];
      for (int64_t column = 0; column < n; ++column) {
        out.values[row * n + column] += factor * b.values[inner * n + column];
      }
    }
  }
  return out;
}

}  // namespace

Numbers ToNumbers(const Array& array) {
  Numbers numbers{array.shape, std::vector<double>(array.size())};
  for (int64_t i = 0; i < array.size(); ++i) numbers.values[i] = array.Get(i);
  return numbers;
}

absl::StatusOr<Numbers> Compute(v1::Reference::Op op, const std::vector<const Numbers*>& inputs,
                                double scalar) {
  const size_t wanted = InputCount(op);
  if (wanted == 0) return Refuse("expected an operation");
  if (inputs.size() != wanted) {
    return Refuse(absl::StrCat(v1::Reference::Op_Name(op), " takes ", wanted, " inputs, got ",
                               inputs.size()));
  }
  const Numbers& a = *inputs[0];
  const Numbers& b = *inputs[wanted - 1];
  switch (op) {
    case Op::ADD:
      return ElementWise(a, b, std::plus<>());
    case Op::SUB:
      return ElementWise(a, b, std::minus<>());
    case Op::MUL:
      return ElementWise(a, b, std::multiplies<>());
    case Op::AXPY:
      return ElementWise(a, b, [scalar](double x, double y) { return scalar * x + y; });
    case Op::SCALE:
      return ElementWise(a, a, [scalar](double x, double) { return scalar * x; });
    case Op::MATMUL:
      return MatrixProduct(a, b);
    case Op::REDUCE_SUM:
      return Numbers{{1}, {std::accumulate(a.values.begin(), a.values.end(), 0.0)}};
    default:
      return a;
  }
}

absl::StatusOr<absl::flat_hash_map<std::string, Numbers>> ComputeReferences(
    const JobFile& file, const absl::flat_hash_map<std::string, const Array*>& buffers) {
  absl::flat_hash_map<std::string, Numbers> results;
  // Buffers converted for the operations, each once. Inputs point into both maps, so their elements
  // must not move.
  absl::flat_hash_map<std::string, Numbers> converted;
  results.reserve(file.job.references_size());
  converted.reserve(buffers.size());
  for (int i = 0; i < file.job.references_size(); ++i) {
    const v1::Reference& reference = file.job.references(i);
    const std::string path = absl::StrCat("references[", i, "]");
    if (reference.name().empty()) return file.places.Fault(path + ".name", "expected a name");
    if (results.contains(reference.name()) || buffers.contains(reference.name())) {
      return file.places.Fault(path + ".name",
                               absl::StrCat("'", reference.name(), "' is already used"));
    }
    if (InputCount(reference.op()) == 0) {
      return file.places.Fault(path + ".op", "expected an operation such as ADD");
    }
    std::vector<const Numbers*> inputs;
    for (int j = 0; j < reference.inputs_size(); ++j) {
      const std::string& input = reference.inputs(j);
      const auto buffer = buffers.find(input);
      if (buffer != buffers.end()) {
        if (!converted.contains(input)) converted[input] = ToNumbers(*buffer->second);
        inputs.push_back(&converted.at(input));
      } else if (results.contains(input)) {
        inputs.push_back(&results.at(input));
      } else {
        return file.places.Fault(
            absl::StrCat(path, ".inputs[", j, "]"),
            absl::StrCat("there is no buffer or earlier reference '", input, "'"));
      }
    }
    absl::StatusOr<Numbers> result = Compute(reference.op(), inputs, reference.scalar());
    if (!result.ok()) return file.places.Fault(path + ".inputs", result.status().message());
    results[reference.name()] = *std::move(result);
  }
  return results;
}

}  // namespace pto::job
