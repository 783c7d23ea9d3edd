#include "daemon/services/event_service.h"

#include "daemon/services/event_stream.h"

namespace pto::daemon {

void EventService::Register(rpc::Server& server) {
  server.AddService(&service_);
  server.ServerStream(&v1::EventService::AsyncService::RequestWatchEvents, &service_,
                      [this, gate = Gate(node_, "pto.v1.EventService/WatchEvents")](
                          const v1::WatchEventsRequest& request, const grpc::ServerContext&) {
                        return EventStream::Make(node_, gate, streams_, request);
                      });
}

}  // namespace pto::daemon
