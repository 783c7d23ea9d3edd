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

#include "absl/strings/str_cat.h"
#include "client/client.h"
#include "daemon/rpc/net/testing_frames.h"
#include "runtime/base/error.h"
#include "runtime/base/status_matchers.h"
#include "tests/harness/certificates.h"
#include "tests/harness/daemon_process.h"
#include "tests/harness/raw_tls_client.h"

namespace pto {
namespace {

using ::pto::testing::DaemonProcess;
using ::pto::testing::HasReason;
using ::pto::testing::IsOk;
using ::pto::testing::RawTlsClient;
using ::pto::testing::TestCertificate;
using ::testing::HasSubstr;
using ::testing::Not;

// Each test has a network of its own.
constexpr char kAddress[] = "127.0.0.1:7443";
// The name in the daemon's certificate. It is not in the address: Debian's resolver leaks memory,
// which AddressSanitizer reports.
constexpr char kName[] = "localhost";

using daemon::rpc::Frame;
using daemon::rpc::testing::Hello;
using daemon::rpc::testing::MakeFrame;
using daemon::rpc::testing::MessagePrefix;
using daemon::rpc::testing::OpenCall;

constexpr uint16_t kPort = 7443;

// A client without a library asks for the list of chips. Returns what the daemon answers.
std::string ListChips(RawTlsClient& client) {
  client.Send(absl::StrCat(Hello(), OpenCall(1, "/pto.v1.NodeService/ListChips"),
                           MakeFrame(Frame::kData, Frame::kEndStream, 1, MessagePrefix(0))));
  client.WaitFor("grpc-status");
  return client.received();
}

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
  EXPECT_THAT(Connect(With(revoked)), HasReason(reason::kUnauthenticated));
  EXPECT_THAT(Connect(With(Client("alice"))), IsOk());
}

// The finding: a list that was replaced was not read, so only a restart kept anybody out.
TEST_F(TlsTest, ACertificateIsRevokedWithoutARestart) {
  const TestCertificate mallory = Client("mallory");
  const TestCertificate nobody = Client("nobody");
  const std::string directory = TestCertificate::RevocationDirectory(Clients(), nobody);
  const DaemonProcess daemon(
      Flags(Server("localhost"), {"--tls-require-client-cert=true", "--tls-crl-dir=" + directory}));
  ClientOptions options;
  options.tls = With(mallory);
  absl::StatusOr<pto::Client> connected = pto::Client::Connect(kAddress, options);
  ASSERT_THAT(connected, IsOk());
  RawTlsClient::Options raw;
  raw.certificate = &mallory;
  RawTlsClient first(kPort, raw);
  EXPECT_THAT(ListChips(first), HasSubstr("chips/0"));
  const std::shared_ptr<SSL_SESSION> session = first.session();
  raw.session = session.get();
  TestCertificate::WriteRevocationList(directory, Clients(), {&mallory, &nobody});
  // On a connection that is open too.
  EXPECT_TRUE(pto::testing::Eventually([&] { return !connected->ListChips().ok(); }));
  EXPECT_THAT(connected->ListChips(), HasReason(reason::kUnauthenticated));
  EXPECT_THAT(Connect(With(mallory)), HasReason(reason::kUnauthenticated));
  EXPECT_THAT(Connect(With(Client("alice"))), IsOk());
  // And on a connection that resumes a session from before.
  RawTlsClient resumed(kPort, raw);
  EXPECT_TRUE(resumed.reused());
  const std::string answer = ListChips(resumed);
  EXPECT_THAT(answer, Not(HasSubstr("chips/0")));
  EXPECT_THAT(answer, HasSubstr("revoked"));
}

TEST_F(TlsTest, ACertificateThatExpiresIsRefusedOnAnOpenConnection) {
  const TestCertificate brief =
      TestCertificate::SignedBy(Clients(), {.name = "brief", .ends = absl::Seconds(4)});
  const DaemonProcess daemon(Flags(Server("localhost"), {"--tls-require-client-cert=true"}));
  ClientOptions options;
  options.tls = With(brief);
  absl::StatusOr<pto::Client> client = pto::Client::Connect(kAddress, options);
  ASSERT_THAT(client, IsOk());
  EXPECT_TRUE(pto::testing::Eventually([&] { return !client->ListChips().ok(); }));
  EXPECT_THAT(client->ListChips(), HasReason(reason::kUnauthenticated));
}

// Somebody has recorded a connection and sends its bytes once more.
TEST_F(TlsTest, ARecordedConnectionIsOfNoUse) {
  const DaemonProcess daemon(Flags(Server("localhost"), {"--tls-require-client-cert=true"}));
  const TestCertificate alice = Client("alice");
  RawTlsClient::Options options;
  options.certificate = &alice;
  RawTlsClient client(kPort, options);
  ASSERT_THAT(ListChips(client), HasSubstr("chips/0"));
  // Nothing is taken before the handshake has ended, which would not need the client's key.
  EXPECT_EQ(SSL_SESSION_get_max_early_data(client.session().get()), 0u);
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(kPort);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  send(fd, client.wire().data(), client.wire().size(), MSG_NOSIGNAL);
  // The daemon answers with its part of another handshake, and then ends the connection.
  size_t answered = 0;
  char bytes[4096];
  for (ssize_t got = 0; (got = recv(fd, bytes, sizeof bytes, 0)) > 0;) {
    answered += static_cast<size_t>(got);
  }
  close(fd);
  EXPECT_LT(answered, 8192u);
  EXPECT_THAT(Connect(With(alice)), IsOk());
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
  RawTlsClient::Options options;
  options.max_version = version;
  return RawTlsClient(kPort, options).established();
}

TEST_F(TlsTest, OldVersionsAreRefused) {
  const DaemonProcess daemon(Flags(Server("localhost")));
  EXPECT_FALSE(Agrees(TLS1_1_VERSION));
  EXPECT_TRUE(Agrees(TLS1_2_VERSION));
  EXPECT_TRUE(Agrees(TLS1_3_VERSION));
}

}  // namespace
}  // namespace pto
