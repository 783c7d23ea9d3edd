#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "grpcpp/support/status.h"

namespace pto::internal {

// Whether gRPC itself reports that there is no connection. A call that the other side cancelled
// counts too: we never ask for the status of a call that we cancelled.
bool IsBroken(const grpc::Status& status);

// Converts the error of a failed call. Errors of the daemon stay as they are; errors of gRPC
// itself, which have no reason, get one: DAEMON_UNREACHABLE with address and cause, CLIENT_TIMEOUT
// with the call's name, MESSAGE_TOO_LARGE, NOT_AVAILABLE. OK stays OK.
absl::Status RpcError(const grpc::Status& status, absl::string_view rpc, absl::string_view address,
                      absl::Duration timeout);

// CLIENT_TIMEOUT for a call that was abandoned after `timeout`.
absl::Status TimeoutError(absl::string_view rpc, absl::string_view address, absl::Duration timeout);

}  // namespace pto::internal
