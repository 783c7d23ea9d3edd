#pragma once

#include "absl/status/status.h"
#include "daemon/node/node.h"
#include "daemon/rpc/server.h"
#include "daemon/services/gate.h"
#include "daemon/services/stop_list.h"
#include "pto/v1/kernel.grpc.pb.h"

namespace pto::daemon {

// Serves pto.v1.KernelService. The node outlives it.
class KernelService {
 public:
  explicit KernelService(Node& node) : node_(node) {}

  void Register(rpc::Server& server);
  // Refuses uploads that are under way, because the daemon stops.
  void StopStreams() { streams_.StopAll(); }

 private:
  absl::Status ListKernels(const auth::Principal& caller, const v1::ListKernelsRequest& request,
                           v1::ListKernelsResponse* response);
  absl::Status ListUploaded(const auth::Principal& caller, const v1::ListKernelsRequest& request,
                            size_t page, v1::ListKernelsResponse* response);
  absl::Status GetKernel(const auth::Principal& caller, const v1::GetKernelRequest& request,
                         v1::Kernel* response);
  absl::Status DeleteKernel(const auth::Principal& caller, const v1::DeleteKernelRequest& request,
                            v1::Kernel* response);
  absl::Status ListHosts(const auth::Principal& caller, const v1::ListHostsRequest& request,
                         v1::ListHostsResponse* response);

  Node& node_;
  v1::KernelService::AsyncService service_;
  StopList streams_;
};

}  // namespace pto::daemon
