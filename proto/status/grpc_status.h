#pragma once

#include "absl/status/status.h"
#include "grpcpp/support/status.h"

namespace pto {

// How an error leaves the daemon: code and message, and the whole pto.v1.Status in the error
// details (the trailer grpc-status-details-bin). See StatusToProto for the bounds.
grpc::Status ToGrpcStatus(const absl::Status& status);

// How it arrives at a client. An error of gRPC itself, such as UNAVAILABLE from a broken
// connection, has no details and becomes a status without ErrorDetail.
absl::Status FromGrpcStatus(const grpc::Status& status);

}  // namespace pto
