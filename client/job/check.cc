#include "client/job/check.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/job/initial_values.h"
#include "client/job/reference.h"
#include "client/job/replay.h"
#include "runtime/base/status_macros.h"

namespace pto::job {
namespace {

std::vector<int64_t> IndexIn(absl::Span<const int64_t> shape, int64_t flat) {
  std::vector<int64_t> index(shape.size());
  for (size_t i = shape.size(); i-- > 0;) {
    index[i] = flat % shape[i];
    flat /= shape[i];
  }
  return index;
}

double Difference(double a, double b) {
  if (a == b || (std::isnan(a) && std::isnan(b))) return 0;
  const double difference = std::fabs(a - b);
  return std::isnan(difference) ? std::numeric_limits<double>::infinity() : difference;
}

// Data that the checks of a job share, computed once on first use.
class Expectations {
 public:
  Expectations(const PreparedJob& job, const std::vector<std::string>& memory)
      : job_(job), memory_(memory) {}

  absl::StatusOr<std::vector<double>> For(const v1::Check& check, const std::string& path) {
    const NamedView& named = job_.views.at(check.tensor());
    switch (check.expected_case()) {
      case v1::Check::kValues: {
        PTO_ASSIGN_OR_RETURN(const Array values, MakeValues(check.values(), named.view.dtype(),
                                                            named.view.shape(), job_.folder));
        return ToNumbers(values).values;
      }
      case v1::Check::kEquals: {
        const NamedView& other = job_.views.at(check.equals());
        return ToNumbers(other.view.Extract(memory_[other.buffer])).values;
      }
      case v1::Check::kReference:
        return job_.references.at(check.reference()).values;
      case v1::Check::kReplay:
        if (replayed_.empty()) {
          PTO_ASSIGN_OR_RETURN(replayed_, Replay(job_));
        }
        return ToNumbers(named.view.Extract(replayed_[named.buffer])).values;
      case v1::Check::EXPECTED_NOT_SET:
        break;
    }
    return job_.file.places.Fault(path, "expected one of values, equals, reference, replay");
  }

 private:
  const PreparedJob& job_;
  const std::vector<std::string>& memory_;
  std::vector<std::string> replayed_;
};

}  // namespace

CheckResult Compare(const Array& actual, const std::vector<double>& expected,
                    const v1::Tolerance& tolerance) {
  CheckResult result;
  result.elements = actual.size();
  for (int64_t i = 0; i < actual.size(); ++i) {
    // The type may not be able to store the expected value exactly.
    char memory[8] = {};
    StoreElement(actual.dtype, expected[i], memory);
    const double want = LoadElement(actual.dtype, memory);
    const double have = actual.Get(i);
    const double error = Difference(have, want);
    result.max_error = std::max(result.max_error, error);
    const double allowed =
        tolerance.absolute() + (std::isfinite(want) ? tolerance.relative() * std::fabs(want) : 0.0);
    if (error <= allowed) continue;
    if (result.mismatches++ == 0) {
      result.index = IndexIn(actual.shape, i);
      result.actual = have;
      result.expected = want;
    }
  }
  return result;
}

std::string Describe(const CheckResult& result) {
  if (result.ok()) {
    return absl::StrCat("ok (", result.elements, " elements, max error ", result.max_error, ")");
  }
  return absl::StrCat("FAILED: ", result.mismatches, " of ", result.elements,
                      " elements differ, the first at [", absl::StrJoin(result.index, ","),
                      "]: got ", result.actual, ", expected ", result.expected, " (max error ",
                      result.max_error, ")");
}

absl::StatusOr<std::vector<CheckResult>> RunChecks(const PreparedJob& job,
                                                   const std::vector<std::string>& memory) {
  Expectations expectations(job, memory);
  std::vector<CheckResult> results;
  for (int i = 0; i < job.file.job.checks_size(); ++i) {
    const v1::Check& check = job.file.job.checks(i);
    const std::string path = absl::StrCat("checks[", i, "]");
    PTO_ASSIGN_OR_RETURN(const std::vector<double> expected, expectations.For(check, path));
    const NamedView& named = job.views.at(check.tensor());
    const Array actual = named.view.Extract(memory[named.buffer]);
    if (static_cast<int64_t>(expected.size()) != actual.size()) {
      return job.file.places.Fault(
          path, absl::StrCat("'", check.tensor(), "' has ", actual.size(),
                             " elements, but the expected value has ", expected.size()));
    }
    CheckResult& result = results.emplace_back(Compare(actual, expected, check.tolerance()));
    result.tensor = check.tensor();
  }
  return results;
}

}  // namespace pto::job
