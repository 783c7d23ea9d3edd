#pragma once

#include "absl/status/status.h"
#include "daemon/node/node.h"
#include "daemon/rpc/server.h"
#include "daemon/services/gate.h"
#include "pto/v1/kernel.grpc.pb.h"

namespace pto::daemon {

// Serves pto.v1.KernelService. The node outlives it.
class KernelService {
 public:
  explicit KernelService(Node& node) : node_(node) {}

  void Register(rpc::Server& server);

 private:
  absl::Status ListKernels(const auth::Principal&, const v1::ListKernelsRequest& request,
                           v1::ListKernelsResponse* response);
  absl::Status GetKernel(const auth::Principal&, const v1::GetKernelRequest& request,
                         v1::Kernel* response);

  Node& node_;
  v1::KernelService::AsyncService service_;
};

}  // namespace pto::daemon
