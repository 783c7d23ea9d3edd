#include "client/internal/rpc_error.h"

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "proto/status/grpc_status.h"
#include "runtime/base/error.h"

namespace pto::internal {
namespace {

// The part of gRPC's text that a user needs: in `failed to connect to all addresses; last error:
// UNKNOWN: unix:/run/x.sock: No such file or directory` it is at the end.
std::string Cause(absl::string_view message, absl::string_view address) {
  constexpr absl::string_view kLastError = "last error: ";
  if (const size_t at = message.find(kLastError); at != absl::string_view::npos) {
    message.remove_prefix(at + kLastError.size());
    for (absl::string_view code : {"UNKNOWN: ", "UNAVAILABLE: ", "INTERNAL: "}) {
      if (absl::ConsumePrefix(&message, code)) break;
    }
  }
  if (absl::ConsumePrefix(&message, address)) absl::ConsumePrefix(&message, ": ");
  return message.empty() ? "the connection is closed" : std::string(message);
}

}  // namespace

absl::Status TimeoutError(absl::string_view rpc, absl::string_view address,
                          absl::Duration timeout) {
  return Error(reason::kClientTimeout, absl::StrCat(rpc, ": no answer from ", address, " within ",
                                                    absl::FormatDuration(timeout)))
      .With("rpc", rpc)
      .With("address", address)
      .With("timeout", absl::FormatDuration(timeout));
}

bool IsBroken(const grpc::Status& status) {
  return status.error_details().empty() && (status.error_code() == grpc::StatusCode::UNAVAILABLE ||
                                            status.error_code() == grpc::StatusCode::CANCELLED);
}

absl::Status RpcError(const grpc::Status& status, absl::string_view rpc, absl::string_view address,
                      absl::Duration timeout) {
  absl::Status plain = FromGrpcStatus(status);
  if (plain.ok() || GetErrorDetail(plain).has_value()) return plain;
  switch (plain.code()) {
    case absl::StatusCode::kCancelled:
    case absl::StatusCode::kUnavailable: {
      const std::string cause = Cause(plain.message(), address);
      return Error(reason::kDaemonUnreachable,
                   absl::StrCat(rpc, ": the daemon at ", address, " cannot be reached: ", cause))
          .With("rpc", rpc)
          .With("address", address)
          .With("cause", cause);
    }
    case absl::StatusCode::kDeadlineExceeded:
      return TimeoutError(rpc, address, timeout);
    case absl::StatusCode::kResourceExhausted:
      return Error(reason::kMessageTooLarge, absl::StrCat(rpc, ": ", plain.message()))
          .With("rpc", rpc);
    case absl::StatusCode::kUnimplemented:
      return Error(reason::kNotAvailable,
                   absl::StrCat(rpc, ": the daemon at ", address, " does not have this call"))
          .With("rpc", rpc)
          .With("address", address);
    default:
      return absl::Status(plain.code(), absl::StrCat(rpc, ": ", plain.message()));
  }
}

}  // namespace pto::internal
