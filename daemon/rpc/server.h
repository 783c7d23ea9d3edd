#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "daemon/rpc/call.h"
#include "daemon/rpc/method_name.h"
#include "daemon/rpc/net/acceptor.h"
#include "daemon/rpc/net/connections.h"
#include "daemon/rpc/outages.h"
#include "daemon/rpc/poll_team.h"
#include "daemon/rpc/service_access.h"
#include "daemon/rpc/stream_method.h"
#include "daemon/rpc/unary.h"
#include "grpcpp/completion_queue.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server.h"

namespace pto::daemon::rpc {

// A gRPC server whose services share one completion queue with one polling thread: see PollTeam.
// Handlers run inline on that thread. A slow handler does not stop the others but delays them by
// some milliseconds, so real work belongs elsewhere.
//
// Connections are accepted by a thread of the server, which knows who is at their other ends, and
// what they send is watched: see net/README.md.
//
// Order: AddService and the methods, Start, Shutdown; all by one thread. No service with
// synchronous or callback methods may be added, nor grpc++_reflection linked: gRPC would poll for
// them with threads of its own, which take wake-ups from our polling thread and read on while calls
// wait for it. ReflectionService is the replacement.
class Server {
 public:
  struct Options {
    // gRPC addresses: `unix:/path`, `127.0.0.1:0`, `[::1]:7000`.
    std::vector<std::string> listen;
    // Addresses where gRPC itself listens, because only it can encrypt.
    struct Secure {
      std::string address;
      std::shared_ptr<grpc::ServerCredentials> credentials;
    };
    std::vector<Secure> listen_secure;
    // Of the addresses in `listen`.
    ConnectionLimits connections;
    absl::Duration handshake_timeout = absl::Seconds(20);
    // Calls of one connection that may be open at once; its client delays others.
    int max_connection_calls = 1024;
    // Largest message that is accepted.
    int64_t max_message_bytes = int64_t{16} << 20;
    // Clients that send HTTP/2 pings more often than this are disconnected. Pings are allowed while
    // no call is open, because event watchers keep their connection alive.
    absl::Duration min_ping_interval = absl::Seconds(10);
    // How often an idle connection is probed, and how long an answer may take before the connection
    // and its calls are cancelled: for a TCP peer that has vanished, and for any that is frozen.
    absl::Duration keepalive_interval = absl::Seconds(30);
    absl::Duration keepalive_timeout = absl::Seconds(10);
    // Calls of one method that wait in gRPC for a client; a burst that exceeds this number waits
    // for the polling thread.
    int armed_calls = 8;
    PollTeam::Options poll;
    // Is notified of all calls. May be nullptr. Must outlive the server.
    CallObserver* observer = nullptr;
    // Learns when calls are not served. May be nullptr. Must outlive the server.
    Outages* outages = nullptr;
  };

  explicit Server(Options options);
  // Shuts down at once unless Shutdown was called.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // `service` is a generated AsyncService. All its methods must be registered below, because calls
  // of others would never be answered. Not owned; must outlive the server.
  void AddService(grpc::Service* service) { services_.push_back(service); }

  // server.Unary(&NodeService::AsyncService::RequestGetNode, &service,
  //              [](UnaryCallPtr<GetNodeRequest, Node> call) { ... });
  template <typename Base, typename Service, typename Request, typename Response>
  void Unary(void (Base::*)(grpc::ServerContext*, Request*,
                            grpc::ServerAsyncResponseWriter<Response>*, grpc::CompletionQueue*,
                            grpc::ServerCompletionQueue*, void*),
             Service* service, std::type_identity_t<UnaryHandler<Request, Response>> handler) {
    AddUnary<Request, Response>(MessageRequester<Base>(service), std::move(handler), false);
    Name<Request, Response>(internal::kMethodIndex<Service, Base>);
  }

  // The same for calls that may wait long: they can use UnaryCall::OnCancelled. Costs one more pass
  // through the queue for each call.
  template <typename Base, typename Service, typename Request, typename Response>
  void LongUnary(void (Base::*)(grpc::ServerContext*, Request*,
                                grpc::ServerAsyncResponseWriter<Response>*, grpc::CompletionQueue*,
                                grpc::ServerCompletionQueue*, void*),
                 Service* service, std::type_identity_t<UnaryHandler<Request, Response>> handler) {
    AddUnary<Request, Response>(MessageRequester<Base>(service), std::move(handler), true);
    Name<Request, Response>(internal::kMethodIndex<Service, Base>);
  }

  template <typename Base, typename Service, typename Request, typename Response>
  void ServerStream(void (Base::*)(grpc::ServerContext*, Request*,
                                   grpc::ServerAsyncWriter<Response>*, grpc::CompletionQueue*,
                                   grpc::ServerCompletionQueue*, void*),
                    Service* service,
                    std::type_identity_t<ServerStreamFactory<Request, Response>> factory) {
    methods_.push_back(std::make_unique<internal::ServerStreamMethod<Request, Response>>(
        live_, MessageRequester<Base>(service), std::move(factory)));
    Name<Request, Response>(internal::kMethodIndex<Service, Base>);
  }

  template <typename Base, typename Service, typename Request, typename Response>
  void ClientStream(void (Base::*)(grpc::ServerContext*,
                                   grpc::ServerAsyncReader<Response, Request>*,
                                   grpc::CompletionQueue*, grpc::ServerCompletionQueue*, void*),
                    Service* service,
                    std::type_identity_t<ClientStreamFactory<Request, Response>> factory) {
    methods_.push_back(std::make_unique<internal::ClientStreamMethod<Request, Response>>(
        live_, StreamRequester<Base>(service), std::move(factory)));
    Name<Request, Response>(internal::kMethodIndex<Service, Base>);
  }

  template <typename Base, typename Service, typename Request, typename Response>
  void BidiStream(void (Base::*)(grpc::ServerContext*,
                                 grpc::ServerAsyncReaderWriter<Response, Request>*,
                                 grpc::CompletionQueue*, grpc::ServerCompletionQueue*, void*),
                  Service* service,
                  std::type_identity_t<BidiStreamFactory<Request, Response>> factory) {
    methods_.push_back(std::make_unique<internal::BidiStreamMethod<Request, Response>>(
        live_, StreamRequester<Base>(service), std::move(factory)));
    Name<Request, Response>(internal::kMethodIndex<Service, Base>);
  }

  // Binds the addresses and serves. Errors: LISTEN_FAILED, which names the address.
  absl::Status Start();

  // The bound addresses, in the order of Options::listen and then listen_secure, with port 0
  // replaced by the real port.
  // Valid after Start.
  const std::vector<std::string>& addresses() const { return addresses_; }

  // Tells the server to expect the next request within this time: the polling thread does not sleep
  // until then, but yields its CPU to other threads. For handlers whose client waits.
  void StayAwake(std::chrono::nanoseconds time) { source_->StayAwake(time); }

  // Accepts no new calls, waits until `deadline` for open calls, cancels the rest, and returns when
  // all have ended. So owners of calls must release them when they are cancelled (OnCancel,
  // OnCancelled) or before this is called. Must not be called from a handler.
  void Shutdown(absl::Time deadline);

  // The full names of the services that have methods, such as `pto.v1.NodeService`.
  const std::set<std::string>& service_names() const { return service_names_; }

  // Of Options::listen.
  Connections::Stats connection_stats() const { return connections_->stats(); }

  // How many times a handler ran so long that another thread took over.
  uint64_t takeovers() const { return team_ == nullptr ? 0 : team_->takeovers(); }

 private:
  class Queue final : public TagSource {
   public:
    explicit Queue(grpc::CompletionQueue& queue) : queue_(queue) {}
    bool Next(Tag** tag, bool* ok) override;
    void StayAwake(std::chrono::nanoseconds time);

   private:
    grpc::CompletionQueue& queue_;
    std::atomic<std::chrono::steady_clock::rep> awake_until_{0};
  };

  // Ask gRPC for a call of the method whose generated Request function `Base` declares; the
  // registering functions above take that function only for what its type says.
  template <typename Base, typename Service>
  auto MessageRequester(Service* service) {
    return [this, service](grpc::ServerContext* context, auto* message, auto* stream, void* tag) {
      internal::ServiceAccess::RequestWithMessage(*service, internal::kMethodIndex<Service, Base>,
                                                  context, message, stream, queue_.get(), tag);
    };
  }
  template <typename Base, typename Service>
  auto StreamRequester(Service* service) {
    return [this, service](grpc::ServerContext* context, auto* stream, void* tag) {
      internal::ServiceAccess::RequestStream(*service, internal::kMethodIndex<Service, Base>,
                                             context, stream, queue_.get(), tag);
    };
  }

  template <typename Request, typename Response>
  void AddUnary(typename internal::UnaryMethod<Request, Response>::Requester requester,
                UnaryHandler<Request, Response> handler, bool notices_cancel) {
    methods_.push_back(std::make_unique<internal::UnaryMethod<Request, Response>>(
        live_, std::move(requester), std::move(handler), notices_cancel));
  }

  // Gives the method that was added last its name, for the observer and for failpoints.
  template <typename Request, typename Response>
  void Name(int index) {
    const std::string name = internal::MethodName<Request, Response>(index);
    service_names_.insert(name.substr(0, name.find('/')));
    if (options_.observer == nullptr && !kHasFailpoints) return;
    methods_.back()->Observe(options_.observer, name);
  }

  absl::Status Build();
  absl::Status StartAccepting(std::vector<Listener> listeners);
  PollTeam::Options PollOptions() const;
  void WaitUntilNothingLives();

  const Options options_;
  const std::shared_ptr<Connections> connections_;
  std::set<std::string> service_names_;
  internal::LiveCount live_;
  std::vector<grpc::Service*> services_;
  std::vector<std::unique_ptr<internal::Method>> methods_;
  std::vector<std::string> addresses_;
  std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<Queue> source_;
  std::unique_ptr<PollTeam> team_;
  std::unique_ptr<Acceptor> acceptor_;
};

}  // namespace pto::daemon::rpc
