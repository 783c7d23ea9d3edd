#pragma once

#include <string>

#include "absl/status/status.h"
#include "daemon/node/node.h"
#include "daemon/rpc/server.h"
#include "pto/v1/node.grpc.pb.h"

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

 private:
  absl::Status GetNode(const v1::GetNodeRequest& request, v1::Node* response);
  absl::Status GetConfig(const v1::GetConfigRequest& request, v1::Config* response);
  absl::Status ListChips(const v1::ListChipsRequest& request, v1::ListChipsResponse* response);
  absl::Status GetChip(const v1::GetChipRequest& request, v1::Chip* response);
  absl::Status DrainNode(const v1::DrainNodeRequest& request, v1::DrainNodeResponse* response);
  absl::Status ResetChip(const v1::ResetChipRequest& request, v1::Chip* response);

  absl::StatusOr<uint32_t> ParseChip(const std::string& name) const;
  void FillChip(uint32_t index, v1::Chip* chip) const;

  Node& node_;
  const v1::Config config_;
  const std::string version_;
  const std::string revision_;
  std::string broker_socket_;
  v1::NodeService::AsyncService service_;
};

}  // namespace pto::daemon
