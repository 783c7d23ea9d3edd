#pragma once

#include <set>
#include <string>

#include "daemon/rpc/server.h"
#include "grpc/reflection/v1alpha/reflection.grpc.pb.h"

namespace pto::daemon::rpc {

// grpc.reflection.v1alpha.ServerReflection, for the services of a server. A stream is one small
// object: gRPC's own implementation takes a thread for each. Thread-safe. Must outlive the server.
class ReflectionService {
 public:
  using Request = grpc::reflection::v1alpha::ServerReflectionRequest;
  using Response = grpc::reflection::v1alpha::ServerReflectionResponse;

  // Call before the server starts, after all other services have been registered.
  void Register(Server& server);

  // The answer to one request.
  Response Answer(const Request& request) const;

 private:
  grpc::reflection::v1alpha::ServerReflection::AsyncService service_;
  std::set<std::string> services_;
};

}  // namespace pto::daemon::rpc
