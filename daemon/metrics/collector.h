#pragma once

#include <memory>
#include <string>
#include <vector>

#include "daemon/metrics/busy_sampler.h"
#include "daemon/metrics/refusals.h"
#include "daemon/metrics/rpc_stats.h"
#include "daemon/model/run_stats.h"
#include "daemon/node/node.h"
#include "prometheus/collectable.h"
#include "prometheus/metric_family.h"

namespace pto::daemon::metrics {

// All exported metrics. README.md describes each, and a test compares the two. Values are collected
// on request. Thread-safe.
class Collector final : public prometheus::Collectable {
 public:
  struct Sources {
    Node* node = nullptr;
    const RunStats* runs = nullptr;
    const RpcStats* calls = nullptr;
    const Refusals* in_streams = nullptr;
    const BusySampler* busy = nullptr;
    std::string version;
  };

  // The sources outlive it.
  explicit Collector(Sources sources) : sources_(std::move(sources)) {}

  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  const Sources sources_;
};

}  // namespace pto::daemon::metrics
