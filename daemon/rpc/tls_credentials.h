#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "grpcpp/security/server_credentials.h"

namespace pto::daemon::rpc {

// The PEM files of a TLS listener.
struct TlsFiles {
  // The daemon's certificate, followed by those of intermediate authorities, and its private key.
  std::string cert_file;
  std::string key_file;
  // Authorities that may have signed the certificate of a client. Empty: clients have none.
  std::string client_ca_file;
  // Whether clients without a certificate are refused.
  bool require_client_cert = false;
  // A directory of revocation lists, named as `openssl rehash` does. Empty: nothing is revoked.
  std::string crl_dir;
};

// Checks the files and makes credentials that read them again every minute: certificates can be
// replaced while the daemon runs. Files that are invalid then are ignored. Whether the certificate
// of a client is still valid, and not revoked, is asked with each call: ClientCertificates of the
// process, which this sets. Errors: CONFIG_INVALID,
// which names the setting and the file.
absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> MakeTlsCredentials(const TlsFiles& files);

}  // namespace pto::daemon::rpc
