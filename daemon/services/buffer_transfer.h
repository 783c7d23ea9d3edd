#pragma once

#include "daemon/node/node.h"
#include "daemon/rpc/stream.h"
#include "pto/v1/buffer.grpc.pb.h"

namespace pto::daemon {

// One WriteBuffer and one ReadBuffer call. They own themselves.
rpc::ClientStreamReactor<v1::WriteBufferRequest, v1::WriteBufferResponse>* NewWriteBuffer(
    Node& node);
rpc::ServerStreamReactor<v1::ReadBufferResponse>* NewReadBuffer(
    Node& node, const v1::ReadBufferRequest& request);

}  // namespace pto::daemon
