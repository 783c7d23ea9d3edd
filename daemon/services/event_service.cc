#include "daemon/services/event_service.h"

#include "daemon/services/event_stream.h"

namespace pto::daemon {

void EventService::Register(rpc::Server& server) {
  server.AddService(&service_);
  server.ServerStream(&v1::EventService::AsyncService::RequestWatchEvents, &service_,
                      [this](const v1::WatchEventsRequest& request, const grpc::ServerContext&) {
                        return EventStream::Make(node_, streams_, request);
                      });
}

}  // namespace pto::daemon
