#include "daemon/metrics/rpc_stats.h"

#include "runtime/base/ticks.h"

namespace pto::daemon::metrics {

uint32_t RpcStats::AddMethod(absl::string_view name) {
  MutexLock lock(mutex_);
  methods_.emplace_back(name);
  return static_cast<uint32_t>(methods_.size() - 1);
}

void RpcStats::OnEnd(uint32_t method, const absl::Status& status, uint64_t ticks) {
  Method& ended = methods_[method];
  const auto code = static_cast<size_t>(status.code());
  ended.codes[code < kCodes ? code : static_cast<size_t>(absl::StatusCode::kUnknown)].fetch_add(
      1, std::memory_order_relaxed);
  ended.times.Observe(
      static_cast<int64_t>(static_cast<double>(ticks) * 1000 / TicksPerMicrosecond()));
  refusals_.Count(status);
  also_();
}

std::vector<RpcStats::MethodTotals> RpcStats::Look() const {
  std::vector<MethodTotals> all;
  MutexLock lock(mutex_);
  for (const Method& method : methods_) {
    MethodTotals totals;
    totals.name = method.name;
    for (size_t i = 0; i < kCodes; ++i) {
      totals.codes[i] = method.codes[i].load(std::memory_order_relaxed);
    }
    totals.times = method.times.Look();
    all.push_back(std::move(totals));
  }
  return all;
}

}  // namespace pto::daemon::metrics
