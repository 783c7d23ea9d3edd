#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "daemon/metrics/refusals.h"
#include "daemon/model/histogram.h"
#include "daemon/rpc/call_observer.h"
#include "runtime/base/mutex.h"

namespace pto::daemon::metrics {

// Counts calls by method and code, and refusals by reason. All methods are added before the first
// call; Look may come at any time. Thread-safe.
class RpcStats final : public rpc::CallObserver {
 public:
  static constexpr size_t kCodes = 17;

  struct MethodTotals {
    std::string name;
    std::array<uint64_t, kCodes> codes = {};
    Histogram::Snapshot times;
  };

  // `also` is called at the end of each call.
  explicit RpcStats(std::function<void()> also = [] {}) : also_(std::move(also)) {}

  uint32_t AddMethod(absl::string_view name) override;
  void OnEnd(uint32_t method, const absl::Status& status, uint64_t ticks) override;

  std::vector<MethodTotals> Look() const;
  // Calls that were refused because something was used up, by reason.
  Refusals::Counts refusals() const { return refusals_.Look(); }

 private:
  struct Method {
    explicit Method(absl::string_view given) : name(given) {}
    const std::string name;
    std::array<std::atomic<uint64_t>, kCodes> codes = {};
    Histogram times;
  };

  const std::function<void()> also_;
  mutable Mutex mutex_;
  // Grows with the mutex held, because a scrape may come while the server starts. OnEnd needs no
  // lock, because it does not grow any more by then.
  std::deque<Method> methods_;
  Refusals refusals_;
};

}  // namespace pto::daemon::metrics
