#pragma once

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/node/node.h"
#include "daemon/rpc/server.h"
#include "daemon/services/unread_bytes.h"
#include "pto/v1/buffer.grpc.pb.h"

namespace pto::daemon {

// Serves pto.v1.BufferService. The node outlives it.
class BufferService {
 public:
  explicit BufferService(Node& node) : node_(node) {}

  void Register(rpc::Server& server);

 private:
  absl::Status CreateBuffers(const auth::Principal& caller, const v1::CreateBuffersRequest& request,
                             v1::CreateBuffersResponse* response);
  absl::Status GetBuffer(const auth::Principal& caller, const v1::GetBufferRequest& request,
                         v1::Buffer* response);
  absl::Status ListBuffers(const auth::Principal& caller, const v1::ListBuffersRequest& request,
                           v1::ListBuffersResponse* response);
  absl::Status DeleteBuffers(const auth::Principal& caller, const v1::DeleteBuffersRequest& request,
                             v1::DeleteBuffersResponse* response);

  Node& node_;
  UnreadBytes unread_;
  v1::BufferService::AsyncService service_;
};

}  // namespace pto::daemon
