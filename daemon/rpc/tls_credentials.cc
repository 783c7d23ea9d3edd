#include "daemon/rpc/tls_credentials.h"

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "daemon/rpc/client_certificates.h"
#include "daemon/rpc/tls_check.h"
#include "grpcpp/security/tls_certificate_provider.h"
#include "grpcpp/security/tls_credentials_options.h"
#include "runtime/base/error.h"
#include "runtime/base/status_macros.h"

namespace pto::daemon::rpc {
namespace {

// A thread of gRPC wakes this often to look at the files.
constexpr unsigned kRefreshSeconds = 60;

}  // namespace

absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> MakeTlsCredentials(const TlsFiles& files) {
  PTO_RETURN_IF_ERROR(CheckCertificate(files.cert_file, files.key_file, absl::Now()));
  if (!files.client_ca_file.empty()) {
    PTO_RETURN_IF_ERROR(CheckAuthorities(files.client_ca_file));
    PTO_ASSIGN_OR_RETURN(std::shared_ptr<ClientCertificates> certificates,
                         ClientCertificates::Load(files.client_ca_file, files.crl_dir));
    ClientCertificates::UseInProcess(std::move(certificates));
  }
  const auto provider = std::make_shared<grpc::experimental::FileWatcherCertificateProvider>(
      files.key_file, files.cert_file, files.client_ca_file, kRefreshSeconds);
  grpc::experimental::TlsServerCredentialsOptions options(provider);
  options.watch_identity_key_cert_pairs();
  if (files.client_ca_file.empty()) {
    options.set_cert_request_type(GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE);
  } else {
    options.watch_root_certs();
    options.set_cert_request_type(files.require_client_cert
                                      ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
                                      : GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_AND_VERIFY);
  }
  std::shared_ptr<grpc::ServerCredentials> credentials =
      grpc::experimental::TlsServerCredentials(options);
  if (credentials == nullptr) {
    return Error(reason::kConfigInvalid, "tls: gRPC did not accept these settings").At("tls");
  }
  return credentials;
}

}  // namespace pto::daemon::rpc
