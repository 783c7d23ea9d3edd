#include "client/job/tensor_report.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace pto::job {

v1::TensorReport Summarize(const std::string& name, const Array& array, uint32_t first) {
  v1::TensorReport report;
  report.set_tensor(name);
  report.set_dtype(array.dtype);
  report.mutable_shape()->Add(array.shape.begin(), array.shape.end());
  double min = 0, max = 0, sum = 0;
  for (int64_t i = 0; i < array.size(); ++i) {
    const double value = array.Get(i);
    min = i == 0 ? value : std::min(min, value);
    max = i == 0 ? value : std::max(max, value);
    sum += value;
    if (i < static_cast<int64_t>(first)) report.add_first(value);
  }
  report.set_min(min);
  report.set_max(max);
  report.set_mean(array.size() == 0 ? 0 : sum / static_cast<double>(array.size()));
  return report;
}

std::string Describe(const v1::TensorReport& report) {
  const std::vector<int64_t> shape(report.shape().begin(), report.shape().end());
  std::string text = absl::StrCat(report.tensor(), ": ", pto::v1::DType_Name(report.dtype()), " ",
                                  ShapeText(shape), ", min ", report.min(), ", max ", report.max(),
                                  ", mean ", report.mean());
  if (report.first_size() > 0) {
    const bool more = ElementCount(shape).value_or(0) > report.first_size();
    absl::StrAppend(&text, ": [", absl::StrJoin(report.first(), ", "), more ? ", …]" : "]");
  }
  return text;
}

}  // namespace pto::job
