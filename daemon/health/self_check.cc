#include "daemon/health/self_check.h"

#include "absl/strings/match.h"
#include "absl/time/clock.h"
#include "grpcpp/grpcpp.h"
#include "proto/status/grpc_status.h"

namespace pto::daemon {
namespace {

std::string Choose(const std::vector<std::string>& addresses) {
  for (const std::string& address : addresses) {
    if (absl::StartsWith(address, "unix:")) return address;
  }
  return addresses.empty() ? "" : addresses.front();
}

}  // namespace

SelfCheck::SelfCheck(const std::vector<std::string>& addresses) {
  constexpr int kMaxReconnectMs = 1000;
  grpc::ChannelArguments arguments;
  // Connections are not shared with anybody.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kMaxReconnectMs);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  stub_ = grpc::health::v1::Health::NewStub(
      grpc::CreateCustomChannel(Choose(addresses), grpc::InsecureChannelCredentials(), arguments));
}

absl::Status SelfCheck::Ask(absl::Duration timeout) {
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + timeout));
  // While it reconnects, there is time.
  context.set_wait_for_ready(true);
  grpc::health::v1::HealthCheckResponse response;
  return FromGrpcStatus(stub_->Check(&context, {}, &response));
}

}  // namespace pto::daemon
