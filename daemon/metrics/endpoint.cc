#include "daemon/metrics/endpoint.h"

#include <utility>

#include "daemon/model/run_stats.h"
#include "prometheus/text_serializer.h"
#include "runtime/base/status_macros.h"

namespace pto::daemon::metrics {

Endpoint::Endpoint(Node& node, std::string version)
    : busy_(BusySampler::Start(node.engine(), node.event_timers(), node.clock(),
                               [&node] { return node.sessions().size() > 0; })),
      // A session is there before the call that has created it ends.
      calls_([busy = busy_.get()] { busy->Wake(); }),
      collector_(Collector::Sources{&node, &RunStats::Process(), &calls_, &Refusals::InStreams(),
                                    busy_.get(), std::move(version)}) {}

absl::StatusOr<std::unique_ptr<Endpoint>> Endpoint::Start(Node& node, const std::string& listen,
                                                          std::string version) {
  PTO_ASSIGN_OR_RETURN(const ListenAddress address, ListenAddress::Parse(listen));
  std::unique_ptr<Endpoint> endpoint(new Endpoint(node, std::move(version)));
  PTO_ASSIGN_OR_RETURN(endpoint->server_, ScrapeServer::Start(address, [self = endpoint.get()] {
                         return prometheus::TextSerializer().Serialize(self->collector_.Collect());
                       }));
  return endpoint;
}

}  // namespace pto::daemon::metrics
