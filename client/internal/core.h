#pragma once

#include <memory>
#include <string>
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
#include "client/options.h"
#include "grpcpp/client_context.h"
#include "pto/v1/node.pb.h"
#include "pto/v1/run.pb.h"

namespace pto::internal {

// Whether a call is made once more when the connection was found to be broken. Only for calls
// that change nothing the second time.
enum class Retry { kNever, kOnce };

// What a client and everything made by it share: connections, options, the renewal thread, and
// the judgement of what an error means. Owned by all of them together. Thread-safe.
class Core {
 public:
  // Reaches the daemon; at most options.connect_timeout.
  static absl::StatusOr<std::shared_ptr<Core>> Connect(absl::string_view address,
                                                       const ClientOptions& options);

  Core(std::string address, const ClientOptions& options);
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;

  const std::string& address() const { return address_; }
  const ClientOptions& options() const { return options_; }
  const v1::Node& node() const { return node_; }
  Transport& transport() { return transport_; }
  Renewer& renewer() { return renewer_; }

  // `timeout` as a caller gave it; `extra` counts on top of the client's own.
  Deadline DeadlineOf(absl::Duration timeout, absl::Duration extra = absl::ZeroDuration()) const;

  absl::StatusOr<v1::Node> GetNode(const Deadline& deadline);

  // One call: `Call("GetNode", stub, &Stub::GetNode, request, deadline, retry)`.
  template <typename Stub, typename Request, typename Response>
  absl::StatusOr<Response> Call(absl::string_view rpc, Stub& stub,
                                grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&,
                                                             Response*),
                                const std::type_identity_t<Request>& request,
                                const Deadline& deadline, Retry retry) {
    while (true) {
      Response response;
      grpc::ClientContext context;
      context.set_deadline(deadline.ToGrpc());
      const grpc::Status status = (stub.*method)(&context, request, &response);
      if (status.ok()) return response;
      if (retry == Retry::kOnce && IsBroken(status)) {
        retry = Retry::kNever;
        continue;
      }
      return RpcError(status, rpc, address_, deadline.timeout());
    }
  }

  // The same for a call on a session: fails at once when the session is lost, and finds out
  // whether it is when the call fails.
  template <typename Stub, typename Request, typename Response>
  absl::StatusOr<Response> CallOn(SessionState& session, absl::string_view rpc, Stub& stub,
                                  grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&,
                                                               Response*),
                                  const std::type_identity_t<Request>& request,
                                  const Deadline& deadline, Retry retry) {
    if (absl::Status lost = session.status(); !lost.ok()) return lost;
    absl::StatusOr<Response> response = Call(rpc, stub, method, request, deadline, retry);
    if (response.ok()) return response;
    return Examine(session, response.status(), deadline);
  }

  // What an error of a call on a session means: itself, or that the session is lost, which is
  // then remembered. Asks the daemon when the error leaves that open, within the deadline.
  absl::Status Examine(SessionState& session, const absl::Status& error, const Deadline& deadline);

  // Waits for the end of a run. `session` may be null.
  absl::StatusOr<v1::Run> WaitRun(SessionState* session, const std::string& name,
                                  const Deadline& deadline);

 private:
  // Whether gRPC itself says that there is no connection (any more).
  static bool IsBroken(const grpc::Status& status);

  const std::string address_;
  const ClientOptions options_;
  v1::Node node_;
  Transport transport_;
  // Last: its thread uses all of the above.
  Renewer renewer_;
};

}  // namespace pto::internal
