#include "tests/bench/tls_files.h"

#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "tests/harness/certificates.h"

namespace pto::bench {
namespace {

constexpr char kAuthority[] = "/authority.pem";
constexpr char kNode[] = "/node.pem";
constexpr char kNodeKey[] = "/node.key";
constexpr char kClient[] = "/client.pem";
constexpr char kClientKey[] = "/client.key";

std::string Read(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

}  // namespace

absl::Status MakeTlsFiles(const std::string& directory) {
  using ::pto::testing::TestCertificate;
  const TestCertificate authority = TestCertificate::Authority("bench");
  const TestCertificate node =
      TestCertificate::SignedBy(authority, {.name = "node", .host = "localhost"});
  const TestCertificate client = TestCertificate::SignedBy(authority, {.name = "bench"});
  const auto write = [&](const char* name, const std::string& text) {
    return static_cast<bool>(std::ofstream(directory + name) << text);
  };
  const bool written = write(kAuthority, authority.certificate()) &&
                       write(kNode, node.certificate()) && write(kNodeKey, node.key()) &&
                       write(kClient, client.certificate()) && write(kClientKey, client.key());
  if (written) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("cannot write certificates to ", directory));
}

std::string AuthorityFile(const std::string& directory) { return directory + kAuthority; }
std::string ClientCertificateFile(const std::string& directory) { return directory + kClient; }
std::string ClientKeyFile(const std::string& directory) { return directory + kClientKey; }

std::vector<std::string> DaemonFlags(const std::string& directory) {
  return {absl::StrCat("--tls-cert=", directory, kNode),
          absl::StrCat("--tls-key=", directory, kNodeKey),
          absl::StrCat("--tls-client-ca=", directory, kAuthority),
          "--tls-require-client-cert=true"};
}

std::shared_ptr<grpc::ServerCredentials> ServerCredentials(const std::string& directory) {
  grpc::SslServerCredentialsOptions options(
      GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  options.pem_root_certs = Read(directory + kAuthority);
  options.pem_key_cert_pairs.push_back({Read(directory + kNodeKey), Read(directory + kNode)});
  return grpc::SslServerCredentials(options);
}

std::shared_ptr<grpc::ChannelCredentials> ClientCredentials(const std::string& directory) {
  return grpc::SslCredentials(
      {Read(directory + kAuthority), Read(directory + kClientKey), Read(directory + kClient)});
}

}  // namespace pto::bench
