#pragma once

#include "daemon/node/node.h"
#include "daemon/rpc/server.h"
#include "daemon/services/stop_list.h"
#include "pto/v1/event.grpc.pb.h"

namespace pto::daemon {

// Serves pto.v1.EventService. The node outlives it.
class EventService {
 public:
  explicit EventService(Node& node) : node_(node) {}

  void Register(rpc::Server& server);

  // Ends all streams after they have sent the remaining events. For shutdown.
  void StopStreams() { streams_.StopAll(); }

 private:
  Node& node_;
  StopList streams_;
  v1::EventService::AsyncService service_;
};

}  // namespace pto::daemon
