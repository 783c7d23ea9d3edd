#pragma once

#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "daemon/rpc/net/peer.h"
#include "grpcpp/server_context.h"

namespace pto::daemon::rpc {

// Who has called. Never nullptr. Valid to ask as long as the call exists; the answer outlives it.
std::shared_ptr<const Peer> PeerOf(const grpc::ServerContext& context);

// The first value of a key of the call's metadata, such as `authorization`. Keys are in lower case.
absl::optional<std::string> MetadataOf(const grpc::ServerContext& context, absl::string_view key);

}  // namespace pto::daemon::rpc
