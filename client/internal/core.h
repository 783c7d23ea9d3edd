#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "client/internal/deadline.h"
#include "client/internal/renewer.h"
#include "client/internal/rpc_error.h"
#include "client/internal/session_state.h"
#include "client/internal/transport.h"
#include "client/internal/unary_call.h"
#include "client/options.h"
#include "grpcpp/support/async_unary_call.h"
#include "pto/v1/node.pb.h"
#include "pto/v1/run.pb.h"
#include "runtime/base/error.h"

namespace pto::internal {

// Whether a call is repeated once if the connection was broken. Only for idempotent calls.
enum class Retry { kNever, kOnce };

// The stub's method for a unary call.
template <typename Service, typename Request, typename Response>
using Unary = std::unique_ptr<grpc::ClientAsyncResponseReader<Response>> (Service::Stub::*)(
    grpc::ClientContext*, const Request&, grpc::CompletionQueue*);

// The state that a client and all objects created by it share: connections, options, the renewal
// thread, and the interpretation of errors. Shared ownership. Thread-safe.
class Core {
 public:
  // Connects to the daemon; takes at most options.connect_timeout.
  static absl::StatusOr<std::shared_ptr<Core>> Connect(absl::string_view address,
                                                       const ClientOptions& options);

  Core(std::string address, const ClientOptions& options, const ChannelSecurity& security);
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;

  const std::string& address() const { return address_; }
  const ClientOptions& options() const { return options_; }
  const v1::Node& node() const { return node_; }
  const Transport& transport() const { return transport_; }
  Renewer& renewer() { return renewer_; }
  // Path of the socket for mapping buffers. Empty if this client cannot or must not map them.
  std::string BrokerSocket() const;

  // `timeout` as given by the caller; `extra` is added to the client's default.
  Deadline DeadlineOf(absl::Duration timeout, absl::Duration extra = absl::ZeroDuration()) const;

  absl::StatusOr<v1::Node> GetNode(const Deadline& deadline,
                                   const std::atomic<bool>* stop = nullptr);

  // One call: `Call("GetNode", transport().node, &Stub::PrepareAsyncGetNode, request, deadline,
  // retry)`. `stop`, if given, ends the wait when it becomes true.
  template <typename Service, typename Request, typename Response>
  absl::StatusOr<Response> Call(absl::string_view rpc, const Wire<Service>& wire,
                                Unary<Service, Request, Response> method,
                                const std::type_identity_t<Request>& request,
                                const Deadline& deadline, Retry retry,
                                const std::atomic<bool>* stop = nullptr) {
    while (true) {
      if (!wire.connection.AwaitClear(deadline, stop)) return Timeout(rpc, deadline);
      auto call = std::make_unique<UnaryCall<Response>>(*wire.stub, method, request, deadline);
      if (!call->Await(deadline, stop)) {
        wire.connection.Release(std::move(call));
        return Timeout(rpc, deadline);
      }
      if (call->status().ok()) return std::move(call->response());
      if (retry == Retry::kNever || !IsBroken(call->status())) {
        return RpcError(call->status(), rpc, address_, deadline.timeout());
      }
      retry = Retry::kNever;
    }
  }

  // The same for a call on a session: fails immediately if the session is lost, and finds out
  // whether it is if the call fails.
  template <typename Service, typename Request, typename Response>
  absl::StatusOr<Response> CallOn(SessionState& session, absl::string_view rpc,
                                  const Wire<Service>& wire,
                                  Unary<Service, Request, Response> method,
                                  const std::type_identity_t<Request>& request,
                                  const Deadline& deadline, Retry retry) {
    if (absl::Status lost = session.status(); !lost.ok()) return lost;
    absl::StatusOr<Response> response = Call(rpc, wire, method, request, deadline, retry);
    if (response.ok()) return response;
    return Examine(session, response.status(), deadline);
  }

  // The same for a call that reads a run. A daemon with a journal knows the run even if its session
  // was lost by a restart; any other daemon answers as for any lost session.
  template <typename Request>
  absl::StatusOr<v1::Run> CallOnRun(SessionState& session, absl::string_view rpc,
                                    Unary<v1::RunService, Request, v1::Run> method,
                                    const std::type_identity_t<Request>& request,
                                    const Deadline& deadline) {
    const absl::Status lost = session.status();
    if (!lost.ok() && ReasonOf(lost) != reason::kBootIdChanged.name) return lost;
    absl::StatusOr<v1::Run> run =
        Call(rpc, transport_.run, method, request, deadline, Retry::kOnce);
    if (run.ok()) return run;
    return lost.ok() ? Examine(session, run.status(), deadline) : lost;
  }

  // The CLIENT_TIMEOUT error of an abandoned call.
  absl::Status Timeout(absl::string_view rpc, const Deadline& deadline) const {
    return TimeoutError(rpc, address_, deadline.timeout());
  }

  // Interprets an error of a call on a session: the error itself, or that the session is lost,
  // which is then remembered. Asks the daemon if the error is ambiguous, within the deadline and
  // until `stop`.
  absl::Status Examine(SessionState& session, const absl::Status& error, const Deadline& deadline,
                       const std::atomic<bool>* stop = nullptr);

  // Waits for the end of a run. `session` may be null.
  absl::StatusOr<v1::Run> WaitRun(SessionState* session, const std::string& name,
                                  const Deadline& deadline);

 private:
  // One renewal of a lease, for the renewer.
  absl::StatusOr<v1::Session> Renew(SessionState& session, absl::Duration timeout,
                                    const std::atomic<bool>& stop);

  const std::string address_;
  const ClientOptions options_;
  v1::Node node_;
  Transport transport_;
  // Last: its thread uses all of the above.
  Renewer renewer_;
};

}  // namespace pto::internal
