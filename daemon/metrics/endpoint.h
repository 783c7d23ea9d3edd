#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "daemon/metrics/busy_sampler.h"
#include "daemon/metrics/collector.h"
#include "daemon/metrics/rpc_stats.h"
#include "daemon/metrics/scrape_server.h"
#include "daemon/node/node.h"

namespace pto::daemon::metrics {

// The daemon's metrics, served while it exists. Made before the gRPC server, which tells it of
// calls, and destroyed after it.
class Endpoint {
 public:
  // The node outlives it. `listen` is a ListenAddress. Errors: CONFIG_INVALID, LISTEN_FAILED.
  static absl::StatusOr<std::unique_ptr<Endpoint>> Start(Node& node, const std::string& listen,
                                                         std::string version);
  ~Endpoint() { busy_->Stop(); }
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  const std::string& address() const { return server_->address(); }
  rpc::CallObserver* calls() { return &calls_; }

 private:
  Endpoint(Node& node, std::string version);

  const std::shared_ptr<BusySampler> busy_;
  RpcStats calls_;
  const Collector collector_;
  std::unique_ptr<ScrapeServer> server_;
};

}  // namespace pto::daemon::metrics
