#pragma once

#include "daemon/node/node.h"
#include "daemon/rpc/stream.h"
#include "daemon/services/gate.h"
#include "pto/v1/graph.pb.h"
#include "pto/v1/run.grpc.pb.h"

namespace pto::daemon {

// One SubmitPackedRun and one RegisterPackedGraph call. They own themselves.
rpc::ClientStreamReactor<v1::PackedGraphPart, v1::Run>* NewPackedRun(Node& node, Gate gate);
rpc::ClientStreamReactor<v1::PackedGraphPart, v1::Graph>* NewPackedGraph(Node& node, Gate gate);

}  // namespace pto::daemon
