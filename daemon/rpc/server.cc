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
#include "grpcpp/server_builder.h"
#include "grpcpp/server_posix.h"
#include "runtime/base/clock.h"
#include "runtime/base/error.h"
#include "runtime/base/log.h"
#include "runtime/base/status_macros.h"

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

int ToMilliseconds(absl::Duration duration) {
  return static_cast<int>(absl::ToInt64Milliseconds(duration));
}

void SetOptions(const Server::Options& options, grpc::ServerBuilder& builder) {
  constexpr int64_t kMaxInt = std::numeric_limits<int>::max();
  builder.SetMaxReceiveMessageSize(static_cast<int>(std::min(options.max_message_bytes, kMaxInt)));
  builder.SetMaxSendMessageSize(-1);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                             ToMilliseconds(options.min_ping_interval));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS,
                             ToMilliseconds(options.keepalive_interval));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS,
                             ToMilliseconds(options.keepalive_timeout));
  // Otherwise gRPC sends only two probes until we send data, and a call that waits for its client
  // sends none.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, options.max_connection_calls);
  // gRPC expands a message on the polling thread, before it looks at its size. So a client that
  // compresses is told UNIMPLEMENTED, and nothing is expanded in any case.
  for (const grpc_compression_algorithm algorithm : {GRPC_COMPRESS_DEFLATE, GRPC_COMPRESS_GZIP}) {
    builder.SetCompressionAlgorithmSupportStatus(algorithm, false);
  }
  builder.AddChannelArgument(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
  // Otherwise a second daemon could bind the same TCP port and get half of the connections.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
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

Server::Server(Options options)
    : options_(std::move(options)),
      connections_(std::make_shared<Connections>(options_.connections)) {}

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
  std::vector<Listener> listeners;
  for (const std::string& address : options_.listen) {
    PTO_ASSIGN_OR_RETURN(Listener listener, Listener::Bind(address));
    addresses_.push_back(listener.address());
    listeners.push_back(std::move(listener));
  }
  PTO_RETURN_IF_ERROR(Build());
  for (const auto& method : methods_) {
    for (int i = 0; i < options_.armed_calls; ++i) method->Arm();
  }
  team_ = std::make_unique<PollTeam>(*source_, PollOptions());
  connections_->OnRead([team = team_.get()] { team->Look(); });
  team_->Start();
  return StartAccepting(std::move(listeners));
}

absl::Status Server::Build() {
  grpc::ServerBuilder builder;
  SetOptions(options_, builder);
  std::vector<int> ports(options_.listen_secure.size(), kNotBound);
  for (size_t i = 0; i < ports.size(); ++i) {
    const Options::Secure& secure = options_.listen_secure[i];
    builder.AddListeningPort(secure.address, secure.credentials, &ports[i]);
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
      const std::string& address = options_.listen_secure[i].address;
      return Error(reason::kListenFailed, absl::StrCat("cannot listen on ", address))
          .With("address", address);
    }
    return Error(reason::kInternal, "gRPC did not start the server");
  }
  for (size_t i = 0; i < ports.size(); ++i) {
    addresses_.push_back(WithPort(options_.listen_secure[i].address, ports[i]));
  }
  return absl::OkStatus();
}

absl::Status Server::StartAccepting(std::vector<Listener> listeners) {
  if (listeners.empty()) return absl::OkStatus();
  Acceptor::Options options;
  options.handshake_timeout = options_.handshake_timeout;
  acceptor_ = std::make_unique<Acceptor>(
      std::move(listeners), connections_,
      [this](int file) { grpc::AddInsecureChannelFromFd(server_.get(), file); }, options);
  return acceptor_->Start();
}

PollTeam::Options Server::PollOptions() const {
  PollTeam::Options options = options_.poll;
  options.on_stall = [this, quiet = options.quiet_after.count()] {
    if (options_.outages != nullptr) options_.outages->Began(Clock::Real().NowNanos() - quiet);
    connections_->EndStalling();
  };
  options.on_stall_end = [this] {
    if (options_.outages != nullptr) options_.outages->Ended(Clock::Real().NowNanos());
    connections_->StallIsOver();
  };
  options.on_sleep = [this](bool sleeps) { connections_->SetWatched(!sleeps); };
  return options;
}

void Server::Shutdown(absl::Time deadline) {
  if (server_ == nullptr) return;
  acceptor_ = nullptr;
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
  // gRPC may still read from connections that it is about to close.
  connections_->OnRead(nullptr);
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
