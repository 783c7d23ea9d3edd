#include "daemon/rpc/server.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <limits>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "grpc/grpc.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server_builder.h"
#include "runtime/base/error.h"
#include "runtime/base/log.h"

namespace pto::daemon::rpc {
namespace {

// The interval at which Shutdown checks whether the last call has ended.
constexpr auto kStep = std::chrono::milliseconds(1);

// gRPC's port of a listener that could not be bound.
constexpr int kNotBound = 0;

std::string WithPort(absl::string_view address, int port) {
  if (absl::StartsWith(address, "unix")) return std::string(address);
  return absl::StrCat(address.substr(0, address.rfind(':')), ":", port);
}

void SetOptions(const Server::Options& options, grpc::ServerBuilder& builder) {
  constexpr int64_t kMaxInt = std::numeric_limits<int>::max();
  builder.SetMaxReceiveMessageSize(static_cast<int>(std::min(options.max_message_bytes, kMaxInt)));
  builder.SetMaxSendMessageSize(-1);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(
      GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
      static_cast<int>(absl::ToInt64Milliseconds(options.min_ping_interval)));
  const bool tcp =
      std::any_of(options.listen.begin(), options.listen.end(),
                  [](const auto& address) { return !absl::StartsWith(address, "unix"); });
  if (tcp) {
    builder.AddChannelArgument(
        GRPC_ARG_KEEPALIVE_TIME_MS,
        static_cast<int>(absl::ToInt64Milliseconds(options.keepalive_interval)));
    builder.AddChannelArgument(
        GRPC_ARG_KEEPALIVE_TIMEOUT_MS,
        static_cast<int>(absl::ToInt64Milliseconds(options.keepalive_timeout)));
    // Otherwise gRPC sends only two probes until we send data, and a call that waits for its client
    // sends none.
    builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  }
  // Otherwise a second daemon could bind the same TCP port and get half of the connections.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  // For the reflection service, the only synchronous one: more threads in more queues would
  // take wake-ups from our polling thread.
  builder.SetSyncServerOption(grpc::ServerBuilder::NUM_CQS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::MIN_POLLERS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::MAX_POLLERS, 1);
  // Its thread wakes at this interval without need; gRPC's default is 10 s.
  builder.SetSyncServerOption(grpc::ServerBuilder::CQ_TIMEOUT_MSEC,
                              static_cast<int>(absl::ToInt64Milliseconds(absl::Hours(1))));
}

// Keeps gRPC's threads until the process ends. Otherwise the destruction of the last server stops
// them, and waits up to ten seconds for one that polls sockets after a large transfer.
void KeepGrpc() {
  static const bool kept = [] {
    grpc_init();
    return true;
  }();
  (void)kept;
}

}  // namespace

Server::Server(Options options) : options_(std::move(options)) {}

Server::~Server() { Shutdown(absl::InfinitePast()); }

bool Server::Queue::Next(Tag** tag, bool* ok) {
  using Clock = std::chrono::steady_clock;
  void* raw = nullptr;
  while (awake_until_.load(std::memory_order_relaxed) > Clock::now().time_since_epoch().count()) {
    // Polls once, without blocking.
    const grpc::CompletionQueue::NextStatus status =
        queue_.AsyncNext(&raw, ok, gpr_time_0(GPR_CLOCK_MONOTONIC));
    if (status == grpc::CompletionQueue::SHUTDOWN) return false;
    if (status == grpc::CompletionQueue::GOT_EVENT) {
      *tag = static_cast<Tag*>(raw);
      return true;
    }
    std::this_thread::yield();
  }
  if (!queue_.Next(&raw, ok)) return false;
  *tag = static_cast<Tag*>(raw);
  return true;
}

void Server::Queue::StayAwake(std::chrono::nanoseconds time) {
  using Clock = std::chrono::steady_clock;
  awake_until_.store((Clock::now() + time).time_since_epoch().count(), std::memory_order_relaxed);
}

absl::Status Server::Start() {
  PTO_CHECK(queue_ == nullptr, "a server starts once");
  KeepGrpc();
  grpc::ServerBuilder builder;
  SetOptions(options_, builder);
  std::vector<int> ports(options_.listen.size(), kNotBound);
  for (size_t i = 0; i < ports.size(); ++i) {
    builder.AddListeningPort(options_.listen[i], grpc::InsecureServerCredentials(), &ports[i]);
  }
  for (grpc::Service* service : services_) builder.RegisterService(service);
  queue_ = builder.AddCompletionQueue();
  source_ = std::make_unique<Queue>(*queue_);
  server_ = builder.BuildAndStart();
  if (server_ == nullptr) {
    queue_->Shutdown();
    Tag* tag = nullptr;
    bool ok = false;
    while (source_->Next(&tag, &ok)) {
    }
    for (size_t i = 0; i < ports.size(); ++i) {
      if (ports[i] != kNotBound) continue;
      return Error(reason::kListenFailed, absl::StrCat("cannot listen on ", options_.listen[i]))
          .With("address", options_.listen[i]);
    }
    return Error(reason::kInternal, "gRPC did not start the server");
  }
  for (size_t i = 0; i < ports.size(); ++i) {
    addresses_.push_back(WithPort(options_.listen[i], ports[i]));
  }
  for (const auto& method : methods_) {
    for (int i = 0; i < options_.armed_calls; ++i) method->Arm();
  }
  team_ = std::make_unique<PollTeam>(*source_, options_.poll);
  team_->Start();
  return absl::OkStatus();
}

void Server::Shutdown(absl::Time deadline) {
  if (server_ == nullptr) return;
  // gRPC waits for every client to disconnect, but idle clients do not, because they check their
  // connection only during calls. Without open calls there is nothing to wait for.
  std::atomic<bool> done{false};
  std::thread closer([this, &done] {
    while (!done.load(std::memory_order_acquire)) {
      if (live_.value() == 0) {
        grpc_server_cancel_all_calls(server_->c_server());
        return;
      }
      std::this_thread::sleep_for(kStep);
    }
  });
  // gRPC does not accept an infinite past.
  server_->Shutdown(absl::ToChronoTime(std::max(deadline, absl::UnixEpoch())));
  done.store(true, std::memory_order_release);
  closer.join();
  WaitUntilNothingLives();
  queue_->Shutdown();
  team_->Join();
  server_ = nullptr;
}

void Server::WaitUntilNothingLives() {
  constexpr int kStepsPerWarning = 5000;
  for (int step = 1; live_.value() != 0; ++step) {
    std::this_thread::sleep_for(kStep);
    if (step % kStepsPerWarning == 0) {
      PTO_LOG(kWarning, "the server cannot stop: calls are not finished",
              {{"calls", live_.value()}});
    }
  }
}

}  // namespace pto::daemon::rpc
