#include "client/internal/connection.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "grpc/grpc.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/support/channel_arguments.h"
#include "grpcpp/support/client_interceptor.h"

namespace pto::internal {
namespace {

// A page of runs with their errors can be larger than gRPC's 4 MiB.
constexpr int kMaxReceiveBytes = 64 << 20;
// A restarted daemon should be found soon; it is on this machine or nearby.
constexpr int kFirstBackoffMs = 100;
constexpr int kLastBackoffMs = 1000;
// The daemon disconnects clients that ping more often than every 10 s.
constexpr int kKeepaliveMs = 30'000;
constexpr int kKeepaliveTimeoutMs = 10'000;
// How long a cancelled call may take to end.
constexpr absl::Duration kCancelTime = absl::Milliseconds(100);
// How often a wait checks whether it should stop.
constexpr absl::Duration kLook = absl::Milliseconds(50);

// Keeps gRPC's threads until the process ends. Otherwise closing the last connection stops them,
// and waits up to ten seconds for a thread that polls sockets after a large write.
void KeepGrpc() {
  static const bool kept = [] {
    grpc_init();
    return true;
  }();
  (void)kept;
}

using grpc::experimental::ClientInterceptorFactoryInterface;
using grpc::experimental::ClientRpcInfo;
using grpc::experimental::InterceptionHookPoints;
using grpc::experimental::Interceptor;
using grpc::experimental::InterceptorBatchMethods;

// Adds the token to each call. gRPC's own credentials of calls need an encrypted channel.
class AddToken final : public Interceptor {
 public:
  explicit AddToken(const std::string& header) : header_(header) {}

  void Intercept(InterceptorBatchMethods* methods) override {
    if (methods->QueryInterceptionHookPoint(InterceptionHookPoints::PRE_SEND_INITIAL_METADATA)) {
      methods->GetSendInitialMetadata()->emplace("authorization", header_);
    }
    methods->Proceed();
  }

 private:
  const std::string& header_;
};

class AddTokenFactory final : public ClientInterceptorFactoryInterface {
 public:
  explicit AddTokenFactory(const std::string& token) : header_(absl::StrCat("Bearer ", token)) {}
  Interceptor* CreateClientInterceptor(ClientRpcInfo*) override { return new AddToken(header_); }

 private:
  const std::string header_;  // the channel, which owns this, outlives its calls
};

std::shared_ptr<grpc::Channel> Open(const std::string& address, absl::Duration connect_timeout,
                                    const ChannelSecurity& security) {
  KeepGrpc();
  grpc::ChannelArguments args;
  // Otherwise channels to one address share a connection, and bulk data delays control calls.
  args.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  args.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kFirstBackoffMs);
  args.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kLastBackoffMs);
  // Despite its name this bounds one attempt to connect. Slightly longer than a caller waits, so
  // that the caller's deadline ends the wait for a hanging daemon.
  args.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS,
              static_cast<int>(absl::ToInt64Milliseconds(connect_timeout + absl::Seconds(1))));
  args.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  args.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  args.SetInt(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
  args.SetMaxReceiveMessageSize(kMaxReceiveBytes);
  if (!absl::StartsWith(address, "unix")) {
    // The kernel reports immediately if a local daemon dies; a remote one may become silent.
    args.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
    args.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
    // Otherwise gRPC sends only two pings until the client sends data, which a watcher of events
    // never does.
    args.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  }
  if (!security.server_name.empty()) args.SetSslTargetNameOverride(security.server_name);
  if (security.token.empty()) {
    return grpc::CreateCustomChannel(address, security.credentials, args);
  }
  std::vector<std::unique_ptr<ClientInterceptorFactoryInterface>> interceptors;
  interceptors.push_back(std::make_unique<AddTokenFactory>(security.token));
  return grpc::experimental::CreateCustomChannelWithInterceptors(address, security.credentials,
                                                                 args, std::move(interceptors));
}

// Calls that were stuck when their connection was abandoned. gRPC may use their memory at any time
// until the process ends.
class Lost {
 public:
  static Lost& Get() {
    static Lost* const lost = new Lost;  // never destroyed
    return *lost;
  }
  void Add(std::vector<std::shared_ptr<AsyncCall>> calls) {
    MutexLock lock(mutex_);
    std::erase_if(calls_, [](const auto& call) { return call->Drain(Deadline::Now()); });
    for (auto& call : calls) calls_.push_back(std::move(call));
  }

 private:
  Mutex mutex_;
  std::vector<std::shared_ptr<AsyncCall>> calls_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

Connection::Connection(const std::string& address, absl::Duration connect_timeout,
                       const ChannelSecurity& security)
    : channel_(Open(address, connect_timeout, security)) {}

Connection::~Connection() {
  std::vector<std::shared_ptr<AsyncCall>> stuck;
  {
    MutexLock lock(mutex_);
    stuck.swap(stuck_);
  }
  std::erase_if(stuck, [](const auto& call) { return call->Drain(Deadline::Now()); });
  if (!stuck.empty()) Lost::Get().Add(std::move(stuck));
}

bool Connection::AwaitClear(const Deadline& deadline, const std::atomic<bool>* stop) {
  while (is_stuck_.load(std::memory_order_acquire)) {
    if (stop != nullptr && stop->load()) return false;
    std::shared_ptr<AsyncCall> first;
    {
      MutexLock lock(mutex_);
      std::erase_if(stuck_, [](const auto& call) { return call->Drain(Deadline::Now()); });
      if (stuck_.empty()) {
        is_stuck_.store(false, std::memory_order_release);
        return true;
      }
      first = stuck_.front();
    }
    const Deadline until = stop == nullptr ? deadline : deadline.AtMost(kLook);
    if (!first->Drain(until) && deadline.Passed()) return false;
  }
  return true;
}

void Connection::Release(std::unique_ptr<AsyncCall> call) {
  if (call == nullptr || call->Drain(Deadline::Now())) return;
  call->Cancel();
  if (call->Drain(Deadline::After(kCancelTime))) return;
  MutexLock lock(mutex_);
  stuck_.push_back(std::move(call));
  is_stuck_.store(true, std::memory_order_release);
}

}  // namespace pto::internal
