#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "daemon/kernels/sandbox_probe.h"
#include "daemon/node/node.h"
#include "daemon/rpc/server.h"
#include "daemon/services/gate.h"
#include "pto/v1/node.grpc.pb.h"
#include "runtime/base/mutex.h"

namespace pto::daemon {

// Serves pto.v1.NodeService. The node outlives it.
class NodeService {
 public:
  NodeService(Node& node, v1::Config config, std::string version, std::string revision)
      : node_(node),
        config_(std::move(config)),
        version_(std::move(version)),
        revision_(std::move(revision)) {}

  void Register(rpc::Server& server);
  // The socket for mapping buffers. Call before serving; not called if mapping is disabled.
  void SetBroker(std::string socket) { broker_socket_ = std::move(socket); }
  // After settings have changed. Thread-safe.
  void SetConfig(v1::Config config) {
    MutexLock lock(config_mutex_);
    config_ = std::move(config);
  }

 private:
  absl::Status GetNode(const auth::Principal& caller, const v1::GetNodeRequest& request,
                       v1::Node* response);
  absl::Status GetConfig(const auth::Principal& caller, const v1::GetConfigRequest& request,
                         v1::Config* response);
  absl::Status ListChips(const auth::Principal& caller, const v1::ListChipsRequest& request,
                         v1::ListChipsResponse* response);
  absl::Status GetChip(const auth::Principal& caller, const v1::GetChipRequest& request,
                       v1::Chip* response);
  absl::Status DrainNode(const auth::Principal& caller, const v1::DrainNodeRequest& request,
                         v1::DrainNodeResponse* response);
  absl::Status ResetChip(const auth::Principal& caller, const v1::ResetChipRequest& request,
                         v1::Chip* response);

  void ListUsage(const Gate& gate, const auth::Caller& caller,
                 rpc::UnaryCallPtr<v1::ListUsageRequest, v1::ListUsageResponse> call);

  absl::StatusOr<uint32_t> ParseChip(const std::string& name) const;
  void FillChip(const auth::Principal& caller, uint32_t index, v1::Chip* chip) const;

  Node& node_;
  Mutex config_mutex_;
  v1::Config config_ ABSL_GUARDED_BY(config_mutex_);
  const std::string version_;
  const std::string revision_;
  std::string broker_socket_;
  const std::vector<SandboxPart> sandbox_ = ProbeSandbox();
  v1::NodeService::AsyncService service_;
};

}  // namespace pto::daemon
