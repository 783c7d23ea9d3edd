#pragma once

#include "daemon/rpc/server.h"
#include "pto/v1/domain.grpc.pb.h"

namespace pto {

// Answers pto.v1.DomainService: every method says that this release does not have it.
class DomainService {
 public:
  void Register(rpc::Server& server);

 private:
  v1::DomainService::AsyncService service_;
};

}  // namespace pto
