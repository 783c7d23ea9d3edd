#pragma once

#include "daemon/node/node.h"
#include "daemon/rpc/stream.h"
#include "daemon/services/gate.h"
#include "daemon/services/unread_bytes.h"
#include "pto/v1/buffer.grpc.pb.h"

namespace pto::daemon {

// One WriteBuffer and one ReadBuffer call. They own themselves.
rpc::ClientStreamReactor<v1::WriteBufferRequest, v1::WriteBufferResponse>* NewWriteBuffer(
    Node& node, Gate gate);
rpc::ServerStreamReactor<v1::ReadBufferResponse>* NewReadBuffer(
    Node& node, Gate gate, const v1::ReadBufferRequest& request, UnreadBytes& unread);

}  // namespace pto::daemon
