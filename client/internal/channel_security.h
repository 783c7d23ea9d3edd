#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "client/options.h"
#include "grpcpp/security/credentials.h"

namespace pto::internal {

// What a connection needs to know about trust.
struct ChannelSecurity {
  std::shared_ptr<grpc::ChannelCredentials> credentials;
  // The name that the daemon's certificate must have. Empty means the host of the address.
  std::string server_name;
  bool encrypted = false;
  // Sent with each call; empty: none.
  std::string token;
};

// The given options; where they are empty, those of the environment.
TlsOptions ResolveTls(TlsOptions given);

// Reads the files of `tls`. Without a ca_file, and for unix sockets, the connection is plain.
// Errors: FIELD_INVALID, which names the option and the file.
absl::StatusOr<ChannelSecurity> MakeChannelSecurity(const std::string& address,
                                                    const TlsOptions& tls);

}  // namespace pto::internal
