#include "client/internal/transport.h"

#include <cstdlib>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/options.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/support/channel_arguments.h"
#include "runtime/base/error.h"

namespace pto::internal {
namespace {

// A page of runs with their errors can be larger than gRPC's 4 MiB.
constexpr int kMaxReceiveBytes = 64 << 20;
// A daemon that is back is to be found soon; it is on this machine or in this rack.
constexpr int kFirstBackoffMs = 100;
constexpr int kLastBackoffMs = 1000;
constexpr int kKeepaliveMs = 30'000;
constexpr int kKeepaliveTimeoutMs = 10'000;

bool IsUnix(absl::string_view address) {
  return absl::StartsWith(address, "unix:") || absl::StartsWith(address, "unix-abstract:");
}

std::shared_ptr<grpc::Channel> Open(const std::string& address, absl::Duration connect_timeout) {
  grpc::ChannelArguments args;
  // Else channels to one address share one connection, and bulk data delays control calls.
  args.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  args.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kFirstBackoffMs);
  args.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kLastBackoffMs);
  // In spite of its name this bounds one attempt to connect.
  args.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS,
              static_cast<int>(absl::ToInt64Milliseconds(connect_timeout)));
  args.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  args.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  args.SetInt(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
  args.SetMaxReceiveMessageSize(kMaxReceiveBytes);
  if (!IsUnix(address)) {
    // The kernel tells at once when a local daemon dies; a remote one may fall silent.
    args.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
    args.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  }
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), args);
}

}  // namespace

std::string ResolveAddress(absl::string_view given) {
  if (!given.empty()) return std::string(given);
  if (const char* from_env = std::getenv("PTOD_ADDRESS"); from_env != nullptr && *from_env) {
    return from_env;
  }
  return std::string(kDefaultAddress);
}

absl::Status CheckAddress(absl::string_view address) {
  const size_t colon = address.rfind(':');
  if (colon != absl::string_view::npos && colon > 0 && colon + 1 < address.size()) {
    return absl::OkStatus();
  }
  return Error(reason::kFieldInvalid, absl::StrCat("'", address, "' is not an address"))
      .At("address")
      .With("address", address)
      .Hint("an address is unix:/path or host:port");
}

Transport::Transport(const std::string& address, absl::Duration connect_timeout) {
  const std::shared_ptr<grpc::Channel> control = Open(address, connect_timeout);
  const std::shared_ptr<grpc::Channel> events = Open(address, connect_timeout);
  const std::shared_ptr<grpc::Channel> bulk = Open(address, connect_timeout);
  node_ = v1::NodeService::NewStub(control);
  session_ = v1::SessionService::NewStub(control);
  kernel_ = v1::KernelService::NewStub(control);
  buffer_ = v1::BufferService::NewStub(control);
  run_ = v1::RunService::NewStub(control);
  event_ = v1::EventService::NewStub(events);
  bulk_buffer_ = v1::BufferService::NewStub(bulk);
  bulk_run_ = v1::RunService::NewStub(bulk);
}

}  // namespace pto::internal
