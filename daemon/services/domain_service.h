#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/node/node.h"
#include "daemon/rpc/server.h"
#include "daemon/services/gate.h"
#include "pto/v1/domain.grpc.pb.h"

namespace pto::daemon {

// Serves pto.v1.DomainService. The node outlives it.
class DomainService {
 public:
  explicit DomainService(Node& node) : node_(node) {}

  void Register(rpc::Server& server);

 private:
  absl::StatusOr<std::shared_ptr<Domain>> FindDomain(const auth::Principal& caller,
                                                     const std::string& name, auth::Right right);
  absl::Status CreateDomain(const auth::Principal& caller, const v1::CreateDomainRequest& request,
                            v1::Domain* response);
  absl::Status GetDomain(const auth::Principal& caller, const v1::GetDomainRequest& request,
                         v1::Domain* response);
  absl::Status ListDomains(const auth::Principal& caller, const v1::ListDomainsRequest& request,
                           v1::ListDomainsResponse* response);
  absl::Status RevokeDomain(const auth::Principal& caller, const v1::RevokeDomainRequest& request,
                            v1::Domain* response);
  absl::Status DeleteDomain(const auth::Principal& caller, const v1::DeleteDomainRequest& request,
                            v1::Domain* response);
  absl::Status Notify(const auth::Principal& caller, const v1::NotifyRequest& request,
                      v1::NotifyResponse* response);
  absl::Status ReadSignals(const auth::Principal& caller, const v1::ReadSignalsRequest& request,
                           v1::ReadSignalsResponse* response);

  Node& node_;
  v1::DomainService::AsyncService service_;
};

}  // namespace pto::daemon
