#pragma once

#include "absl/status/status.h"
#include "daemon/node/node.h"
#include "daemon/rpc/server.h"
#include "daemon/services/gate.h"
#include "pto/v1/session.grpc.pb.h"

namespace pto::daemon {

// Serves pto.v1.SessionService. The node outlives it.
class SessionService {
 public:
  explicit SessionService(Node& node) : node_(node) {}

  void Register(rpc::Server& server);

 private:
  absl::Status CreateSession(const auth::Principal& caller, const v1::CreateSessionRequest& request,
                             v1::Session* response);
  absl::Status RenewSession(const auth::Principal& caller, const v1::RenewSessionRequest& request,
                            v1::Session* response);
  absl::Status GetSession(const auth::Principal& caller, const v1::GetSessionRequest& request,
                          v1::Session* response);
  absl::Status ListSessions(const auth::Principal& caller, const v1::ListSessionsRequest& request,
                            v1::ListSessionsResponse* response);
  void LeaseChips(const Gate& gate, const auth::Caller& caller,
                  rpc::UnaryCallPtr<v1::LeaseChipsRequest, v1::ChipLease> call);
  absl::Status DeleteSession(const auth::Principal& caller, const v1::DeleteSessionRequest& request,
                             v1::Session* response);

  Node& node_;
  v1::SessionService::AsyncService service_;
};

}  // namespace pto::daemon
