#include "runtime/graph/work_estimate.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "kernels/pto_kernel.h"
#include "runtime/base/error.h"

namespace pto::engine {
namespace {

// Estimates tasks one after the other. Most are like the one before, and cost only a comparison.
class Estimator {
 public:
  explicit Estimator(const GraphImage& image) : image_(image) {}

  // The sum of all calls of a task, on its first chip.
  double TaskNs(uint32_t task) {
    const pto_kernel_info& kernel = image_.kernel(task);
    if (kernel.cost == nullptr) return 0;
    const absl::Span<const uint32_t> args = image_.args(task);
    bool same = &kernel == kernel_;
    kernel_ = &kernel;
    for (size_t i = 0; i < args.size(); ++i) {
      const uint32_t layout = image_.tensors()[args[i]].layout;
      if (same && layouts_[i] == layout) continue;
      same = false;
      Fill(layout, i);
    }
    if (!same) cost_ns_ = kernel.cost(tensors_, static_cast<uint32_t>(args.size()));
    return cost_ns_;
  }

 private:
  void Fill(uint32_t layout, size_t argument) {
    layouts_[argument] = layout;
    const Layout& from = image_.layouts()[layout];
    pto_tensor& to = tensors_[argument];
    to.dtype = from.dtype;
    to.ndim = from.ndim;
    std::memcpy(to.shape, from.shape.data(), sizeof to.shape);
    std::memcpy(to.strides, from.strides.data(), sizeof to.strides);
  }

  const GraphImage& image_;
  const pto_kernel_info* kernel_ = nullptr;
  double cost_ns_ = 0;
  uint32_t layouts_[PTO_MAX_ARGS] = {};
  pto_tensor tensors_[PTO_MAX_ARGS] = {};
};

// The shortest limit, and what it is the limit of.
struct Limit {
  double ns = std::numeric_limits<double>::infinity();
  const char* of = "";

  void Add(int64_t limit_ns, const char* what) {
    if (limit_ns <= 0 || static_cast<double>(limit_ns) >= ns) return;
    ns = static_cast<double>(limit_ns);
    of = what;
  }
};

std::string TimeText(double ns) {
  constexpr double kLongestNs = 1e18;  // some thirty years
  const absl::Duration time = absl::Nanoseconds(std::min(ns, kLongestNs));
  if (time > absl::Minutes(1)) return absl::FormatDuration(absl::Floor(time, absl::Seconds(1)));
  if (time > absl::Seconds(1))
    return absl::FormatDuration(absl::Floor(time, absl::Milliseconds(10)));
  return absl::FormatDuration(time);
}

}  // namespace

double LongestTaskNs(const GraphImage& image) {
  Estimator estimator(image);
  double longest = 0;
  for (uint32_t task = 0; task < image.task_count(); ++task) {
    longest = std::max(longest, estimator.TaskNs(task));
  }
  return longest;
}

absl::Status CheckWork(const GraphImage& image, const WorkLimits& limits, double longest_ns) {
  // Most runs end here. Tasks with their own limit have more than the shortest one, or are rare.
  Limit shortest;
  shortest.Add(limits.run_ns, "");
  shortest.Add(limits.task_ns, "");
  shortest.Add(limits.call_ns, "");
  const bool has_own_limits = (image.traits() & kTaskTimed) != 0;
  if (!has_own_limits && longest_ns >= 0 && longest_ns <= kHopeless * shortest.ns) {
    return absl::OkStatus();
  }
  Estimator estimator(image);
  for (uint32_t task = 0; task < image.task_count(); ++task) {
    const double all_ns = estimator.TaskNs(task);
    if (all_ns <= kHopeless * shortest.ns && !has_own_limits) continue;
    const uint32_t calls = std::max(image.tasks()[task].block_num, 1u);
    const double task_ns = all_ns / std::min(calls, std::max(limits.threads, 1u));
    const ImageDetail* const detail = image.detail(task);
    Limit limit;
    limit.Add(limits.run_ns, "the run");
    double estimate = task_ns;
    if (detail != nullptr && detail->timeout_ns > 0) {
      limit.Add(detail->timeout_ns, "the task");
    } else if (limits.task_ns > 0) {
      limit.Add(limits.task_ns, "the task");
    } else if (limits.call_ns > 0 && static_cast<double>(limits.call_ns) < limit.ns) {
      limit.Add(limits.call_ns, "a call of a kernel");
      estimate = all_ns / calls;
    }
    if (estimate <= kHopeless * limit.ns) continue;
    const absl::string_view name = image.task_name(task);
    const std::string want = TimeText(limit.ns);
    const std::string have = TimeText(estimate);
    return Error(reason::kTaskTooLong,
                 absl::StrCat("task ", task, name.empty() ? "" : absl::StrCat(" '", name, "'"),
                              ": ", image.kernel(task).name, " would take at least ", have,
                              ", and ", limit.of, " has ", want))
        .With("task", task)
        .With("kernel", image.kernel(task).name)
        .With("estimate", have)
        .With("limit", want);
  }
  return absl::OkStatus();
}

}  // namespace pto::engine
