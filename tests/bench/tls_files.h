#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/security/server_credentials.h"

namespace pto::bench {

// Certificates for a benchmark over TLS, as files of a directory: of an authority, of both servers
// for the host `localhost`, and of the client.

absl::Status MakeTlsFiles(const std::string& directory);

std::string AuthorityFile(const std::string& directory);
std::string ClientCertificateFile(const std::string& directory);
std::string ClientKeyFile(const std::string& directory);

// What a ptod needs that asks its clients for their certificates.
std::vector<std::string> DaemonFlags(const std::string& directory);
// The same for a server of gRPC.
std::shared_ptr<grpc::ServerCredentials> ServerCredentials(const std::string& directory);
std::shared_ptr<grpc::ChannelCredentials> ClientCredentials(const std::string& directory);

}  // namespace pto::bench
