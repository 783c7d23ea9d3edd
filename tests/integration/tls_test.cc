// A daemon that listens on TCP with TLS: who gets in, and who does not.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include "client/client.h"
#include "runtime/base/error.h"
#include "runtime/base/status_matchers.h"
#include "tests/harness/certificates.h"
#include "tests/harness/daemon_process.h"

namespace pto {
namespace {

using ::pto::testing::DaemonProcess;
using ::pto::testing::HasReason;
using ::pto::testing::IsOk;
using ::pto::testing::TestCertificate;

// Each test has a network of its own.
constexpr char kAddress[] = "127.0.0.1:7443";
// The name in the daemon's certificate. It is not in the address: Debian's resolver leaks memory,
// which AddressSanitizer reports.
constexpr char kName[] = "localhost";

class TlsTest : public ::testing::Test {
 protected:
  static TestCertificate Server(const std::string& host) {
    return TestCertificate::SignedBy(Authority(), {.name = "node", .host = host});
  }
  static TestCertificate Client(const std::string& name) {
    return TestCertificate::SignedBy(Clients(), {.name = name});
  }
  static const TestCertificate& Authority() {
    static const auto* const made = new TestCertificate(TestCertificate::Authority("nodes"));
    return *made;
  }
  static const TestCertificate& Clients() {
    static const auto* const made = new TestCertificate(TestCertificate::Authority("clients"));
    return *made;
  }

  // The flags of a daemon with this certificate, which asks clients for theirs.
  static std::vector<std::string> Flags(const TestCertificate& server,
                                        std::vector<std::string> more = {}) {
    std::vector<std::string> flags = {
        "--sim-chips=1", "--listen=127.0.0.1:7443", "--tls-cert=" + server.CertificateFile(),
        "--tls-key=" + server.KeyFile(), "--tls-client-ca=" + Clients().CertificateFile()};
    flags.insert(flags.end(), more.begin(), more.end());
    return flags;
  }

  static absl::Status Connect(TlsOptions tls) {
    ClientOptions options;
    options.tls = std::move(tls);
    if (options.tls.server_name.empty()) options.tls.server_name = kName;
    options.connect_timeout = absl::Seconds(10);
    absl::StatusOr<pto::Client> client = pto::Client::Connect(kAddress, options);
    if (!client.ok()) return client.status();
    return client->ListChips().status();
  }
  static TlsOptions With(const TestCertificate& client) {
    return {.ca_file = Authority().CertificateFile(),
            .cert_file = client.CertificateFile(),
            .key_file = client.KeyFile(),
            .server_name = kName};
  }
};

TEST_F(TlsTest, AClientWithACertificateGetsIn) {
  const DaemonProcess daemon(Flags(Server("localhost"), {"--tls-require-client-cert=true"}));
  ClientOptions options;
  options.tls = With(Client("alice"));
  const absl::StatusOr<pto::Client> client = pto::Client::Connect(kAddress, options);
  ASSERT_THAT(client.status(), IsOk());
  EXPECT_EQ(client->node().principal(), "cert-alice");
}

TEST_F(TlsTest, WithoutACertificateAClientNeedsAToken) {
  const DaemonProcess daemon(Flags(Server("localhost")));
  EXPECT_THAT(Connect({.ca_file = Authority().CertificateFile()}),
              HasReason(reason::kUnauthenticated));
}

TEST_F(TlsTest, OthersDoNot) {
  const DaemonProcess daemon(Flags(Server("localhost"), {"--tls-require-client-cert=true"}));
  const auto refused = HasReason(reason::kDaemonUnreachable);
  // Without a certificate, with one of another authority, with one that has expired, with one for
  // servers of this node.
  EXPECT_THAT(Connect({.ca_file = Authority().CertificateFile()}), refused);
  const TestCertificate stranger = TestCertificate::Authority("clients");
  EXPECT_THAT(Connect(With(TestCertificate::SignedBy(stranger, {.name = "alice"}))), refused);
  EXPECT_THAT(Connect(With(TestCertificate::SignedBy(
                  Clients(), {.name = "alice", .ends = -absl::Minutes(1)}))),
              refused);
  EXPECT_THAT(Connect(With(Server("localhost"))), refused);
  // Without TLS.
  EXPECT_THAT(Connect({}), refused);
  EXPECT_THAT(Connect(With(Client("alice"))), IsOk());
}

TEST_F(TlsTest, ARevokedCertificateIsRefused) {
  const TestCertificate revoked = Client("mallory");
  const std::string directory = TestCertificate::RevocationDirectory(Clients(), revoked);
  const DaemonProcess daemon(
      Flags(Server("localhost"), {"--tls-require-client-cert=true", "--tls-crl-dir=" + directory}));
  EXPECT_THAT(Connect(With(revoked)), HasReason(reason::kDaemonUnreachable));
  EXPECT_THAT(Connect(With(Client("alice"))), IsOk());
}

TEST_F(TlsTest, AClientRefusesAnotherDaemon) {
  const auto refused = HasReason(reason::kDaemonUnreachable);
  const TestCertificate alice = Client("alice");
  {
    const DaemonProcess daemon(Flags(Server("elsewhere")));
    EXPECT_THAT(Connect(With(alice)), refused);
    TlsOptions tls = With(alice);
    tls.server_name = "elsewhere";
    EXPECT_THAT(Connect(tls), IsOk());
    // Signed by an authority that the client does not know.
    tls.ca_file = Clients().CertificateFile();
    EXPECT_THAT(Connect(tls), refused);
  }
}

// Whether the daemon agrees to at most this version of TLS.
bool Agrees(int version) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(7443);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  SSL_CTX* const context = SSL_CTX_new(TLS_client_method());
  // OpenSSL itself refuses old versions at its usual level.
  SSL_CTX_set_security_level(context, 0);
  SSL_CTX_set_min_proto_version(context, TLS1_VERSION);
  SSL_CTX_set_max_proto_version(context, version);
  SSL* const ssl = SSL_new(context);
  constexpr unsigned char kHttp2[] = {2, 'h', '2'};
  SSL_set_alpn_protos(ssl, kHttp2, sizeof(kHttp2));
  SSL_set_fd(ssl, fd);
  const bool agrees = SSL_connect(ssl) == 1;
  SSL_free(ssl);
  SSL_CTX_free(context);
  close(fd);
  return agrees;
}

TEST_F(TlsTest, OldVersionsAreRefused) {
  const DaemonProcess daemon(Flags(Server("localhost")));
  EXPECT_FALSE(Agrees(TLS1_1_VERSION));
  EXPECT_TRUE(Agrees(TLS1_2_VERSION));
  EXPECT_TRUE(Agrees(TLS1_3_VERSION));
}

}  // namespace
}  // namespace pto
