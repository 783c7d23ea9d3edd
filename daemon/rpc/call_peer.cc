#include "daemon/rpc/call_peer.h"

#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"
#include "daemon/rpc/client_certificates.h"
#include "daemon/rpc/net/connection.h"
#include "grpc/grpc_security_constants.h"
#include "grpcpp/security/auth_context.h"

namespace pto::daemon::rpc {
namespace {

absl::string_view FirstOf(const grpc::AuthContext& context, const char* property) {
  const std::vector<grpc::string_ref> values = context.FindPropertyValues(property);
  if (values.empty()) return {};
  return absl::string_view(values.front().data(), values.front().size());
}

// Of a connection that gRPC has accepted itself.
std::shared_ptr<const Peer> FromGrpc(const grpc::ServerContext& context, std::string address) {
  auto peer = std::make_shared<Peer>();
  peer->address = std::move(address);
  const std::shared_ptr<const grpc::AuthContext> secure = context.auth_context();
  if (secure == nullptr) return peer;
  const std::vector<grpc::string_ref> kinds = secure->FindPropertyValues("transport_security_type");
  // Of the credentials that read their files once, and of those that read them again.
  if (!kinds.empty() && (kinds.front() == "ssl" || kinds.front() == "tls")) {
    peer->transport = Peer::Transport::kTls;
  }
  if (secure->IsPeerAuthenticated()) {
    const std::vector<grpc::string_ref> names = secure->GetPeerIdentity();
    if (!names.empty()) peer->certificate = std::string(names.front().data(), names.front().size());
    if (const std::shared_ptr<ClientCertificates> all = ClientCertificates::OfProcess()) {
      peer->certificate_fault =
          all->FaultOf(FirstOf(*secure, GRPC_X509_PEM_CERT_PROPERTY_NAME),
                       FirstOf(*secure, GRPC_X509_PEM_CERT_CHAIN_PROPERTY_NAME));
    }
  }
  return peer;
}

}  // namespace

std::shared_ptr<const Peer> PeerOf(const grpc::ServerContext& context) {
  std::string address = context.peer();
  absl::string_view number = address;
  int file = -1;
  if (!absl::ConsumePrefix(&number, "fd:") || !absl::SimpleAtoi(number, &file)) {
    return FromGrpc(context, std::move(address));
  }
  Connection* const connection = ConnectionTable::Find(file);
  if (connection == nullptr) return std::make_shared<Peer>();
  const std::shared_ptr<Connection> owner = connection->shared_from_this();
  return {owner, &owner->peer()};
}

absl::optional<std::string> MetadataOf(const grpc::ServerContext& context, absl::string_view key) {
  const auto& metadata = context.client_metadata();
  const auto found = metadata.find(grpc::string_ref(key.data(), key.size()));
  if (found == metadata.end()) return absl::nullopt;
  return std::string(found->second.data(), found->second.size());
}

}  // namespace pto::daemon::rpc
