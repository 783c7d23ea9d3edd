#include "client/internal/channel_security.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/error.h"
#include "runtime/base/status_macros.h"

namespace pto::internal {
namespace {

void FromEnvironment(const char* variable, std::string* value) {
  const char* const text = std::getenv(variable);
  if (value->empty() && text != nullptr) *value = text;
}

absl::Status Wrong(absl::string_view option, absl::string_view what) {
  return Error(reason::kFieldInvalid, what).At(absl::StrCat("tls.", option));
}

// The contents of a PEM file.
absl::StatusOr<std::string> ReadPem(absl::string_view option, const std::string& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  if (!file || !(text << file.rdbuf())) {
    const std::string cause = errno == 0 ? "it is empty" : std::strerror(errno);
    return Wrong(option, absl::StrCat("cannot read ", path, ": ", cause));
  }
  std::string pem = text.str();
  // gRPC would report anything else only as a failed handshake.
  if (!absl::StrContains(pem, "-----BEGIN ")) {
    return Wrong(option, absl::StrCat(path, " is not a PEM file: it has no line -----BEGIN …"));
  }
  return pem;
}

}  // namespace

TlsOptions ResolveTls(TlsOptions given) {
  FromEnvironment("PTOD_TLS_CA", &given.ca_file);
  FromEnvironment("PTOD_TLS_CERT", &given.cert_file);
  FromEnvironment("PTOD_TLS_KEY", &given.key_file);
  FromEnvironment("PTOD_TLS_SERVER_NAME", &given.server_name);
  return given;
}

absl::StatusOr<ChannelSecurity> MakeChannelSecurity(const std::string& address,
                                                    const TlsOptions& tls) {
  ChannelSecurity security;
  if (absl::StartsWith(address, "unix")) {
    security.credentials = grpc::InsecureChannelCredentials();
    return security;
  }
  if (tls.cert_file.empty() != tls.key_file.empty()) {
    return tls.key_file.empty()
               ? Wrong("key_file",
                       absl::StrCat("the certificate ", tls.cert_file, " needs its key"))
               : Wrong("cert_file",
                       absl::StrCat("the key ", tls.key_file, " needs its certificate"));
  }
  if (tls.ca_file.empty()) {
    // Whoever names a certificate expects a connection that is checked and encrypted.
    if (!tls.cert_file.empty()) {
      return Wrong("ca_file", "a client certificate also needs the authorities of the daemon's");
    }
    security.credentials = grpc::InsecureChannelCredentials();
    return security;
  }
  grpc::SslCredentialsOptions options;
  PTO_ASSIGN_OR_RETURN(options.pem_root_certs, ReadPem("ca_file", tls.ca_file));
  if (!tls.cert_file.empty()) {
    PTO_ASSIGN_OR_RETURN(options.pem_cert_chain, ReadPem("cert_file", tls.cert_file));
    PTO_ASSIGN_OR_RETURN(options.pem_private_key, ReadPem("key_file", tls.key_file));
  }
  security.credentials = grpc::SslCredentials(options);
  security.server_name = tls.server_name;
  security.encrypted = true;
  return security;
}

}  // namespace pto::internal
