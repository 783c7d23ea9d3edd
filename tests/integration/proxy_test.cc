// haproxy before the daemon, as deploy/proxy/haproxy.cfg has it: clients of other machines get in
// over TLS, and what they must not send ends their own connection.

#include <sys/stat.h>

#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/clock.h"
#include "client/client.h"
#include "daemon/rpc/net/testing_frames.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/error.h"
#include "runtime/base/status_matchers.h"
#include "tests/harness/certificates.h"
#include "tests/harness/daemon_process.h"
#include "tests/harness/directory.h"
#include "tests/harness/identified_channel.h"
#include "tests/harness/process.h"
#include "tests/harness/raw_tls_client.h"
#include "tests/harness/runfile.h"
#include "tests/integration/world.h"

namespace pto::testing {
namespace {

using daemon::rpc::Frame;
using daemon::rpc::testing::Hello;
using daemon::rpc::testing::MakeFrame;
using daemon::rpc::testing::OpenCall;
using daemon::rpc::testing::ResetCall;
using ::testing::HasSubstr;

constexpr char kHaproxy[] = "/usr/sbin/haproxy";
// Each test has a network of its own.
constexpr uint16_t kPort = 7000;
constexpr char kAddress[] = "127.0.0.1:7000";

class ProxyTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const ProgramResult made =
        RunProgram({"/usr/bin/python3", Runfile("deploy/make_token.py"), "ci",
                    absl::StrCat("--file=", files_.path(), "/tokens")});
    ASSERT_EQ(made.exit_code, 0) << made.err;
    token_file_ = files_.path() + "/ci.token";
    WriteFile(token_file_, made.out);
    chmod(token_file_.c_str(), 0600);
    daemon_ = std::make_unique<DaemonProcess>(
        std::vector<std::string>{"--sim-chips=1", "--listen=127.0.0.1:7001",
                                 absl::StrCat("--access-tokens=", files_.path(), "/tokens")});
    const TestCertificate node =
        TestCertificate::SignedBy(authority_, {.name = "node", .host = "localhost"});
    WriteFile(files_.path() + "/node.pem", node.certificate() + node.key());
    StartProxy();
  }

  // With the delivered file; only the path of the certificate is that of the test.
  void StartProxy() {
    const std::string config = files_.path() + "/haproxy.cfg";
    WriteFile(config, absl::StrReplaceAll(ReadFile(Runfile("deploy/proxy/haproxy.cfg")),
                                          {{"/etc/ptod/node.pem", files_.path() + "/node.pem"}}));
    const ProgramResult check = RunProgram({kHaproxy, "-c", "-f", config});
    ASSERT_EQ(check.exit_code, 0) << check.err;
    EXPECT_THAT(check.err, ::testing::Not(HasSubstr("WARNING")));
    Process::Options options;
    options.command = {kHaproxy, "-db", "-f", config};
    options.out = options.err = files_.path() + "/haproxy.log";
    proxy_ = std::make_unique<Process>(options);
    ASSERT_TRUE(Eventually([] { return RawTlsClient(kPort).established(); }))
        << ReadFile(files_.path() + "/haproxy.log");
  }

  absl::StatusOr<Client> Connect() const {
    ClientOptions options;
    options.tls.ca_file = authority_.CertificateFile();
    options.tls.server_name = "localhost";
    options.token_file = token_file_;
    return Client::Connect(kAddress, options);
  }
  // Somebody else is served, and soon.
  void ExpectOthersAreServed(Client& other) {
    const absl::Time begin = absl::Now();
    EXPECT_THAT(other.ListChips(), IsOk());
    EXPECT_LT(absl::Now() - begin, absl::Seconds(10));
  }

  const Directory files_;
  const TestCertificate authority_ = TestCertificate::Authority("nodes");
  std::string token_file_;
  std::unique_ptr<DaemonProcess> daemon_;
  std::unique_ptr<Process> proxy_;
};

TEST_F(ProxyTest, AClientWithATokenGetsIn) {
  absl::StatusOr<Client> client = Connect();
  ASSERT_THAT(client, IsOk());
  EXPECT_EQ(client->node().principal(), "token-ci");
  absl::StatusOr<Session> session = client->CreateSession();
  ASSERT_THAT(session, IsOk());
  GraphBuilder graph;
  graph.Task("noop", 0, {});
  absl::StatusOr<pto::Run> run = session->Submit(graph);
  ASSERT_THAT(run, IsOk());
  EXPECT_EQ(run->Wait().value().state(), v1::Run::SUCCEEDED);
  // Without a token nobody is anybody.
  token_file_.clear();
  EXPECT_THAT(Connect(), HasReason(reason::kUnauthenticated));
}

TEST_F(ProxyTest, WhatGrpcDoesNotLimitEndsItsConnection) {
  Client other = Connect().value();
  const uint64_t before = daemon_->ResidentBytes();
  {
    RawTlsClient headers(kPort);
    ASSERT_TRUE(headers.Send(absl::StrCat(Hello(), MakeFrame(Frame::kHeaders, 0, 1, "x"))));
    const std::string more = MakeFrame(Frame::kContinuation, 0, 1, std::string(16'000, 'x'));
    bool ended = false;
    for (int i = 0; i < 1024 && !ended; ++i) ended = !headers.Send(more);
    EXPECT_TRUE(ended);
  }
  ExpectOthersAreServed(other);
  {
    RawTlsClient resets(kPort);
    ASSERT_TRUE(resets.Send(Hello()));
    bool ended = false;
    for (uint32_t stream = 1; stream < 1'000'000 && !ended;) {
      std::string batch;
      for (int i = 0; i < 100; ++i, stream += 2) {
        absl::StrAppend(&batch, OpenCall(stream, "/pto.v1.NodeService/GetNode"), ResetCall(stream));
      }
      ended = !resets.Send(batch);
    }
    EXPECT_TRUE(ended);
  }
  ExpectOthersAreServed(other);
  EXPECT_LT(daemon_->ResidentBytes(), before + (uint64_t{200} << 20));
  EXPECT_TRUE(Eventually([&] { return daemon_->Log().find("why=headers") != std::string::npos; }));
}

TEST_F(ProxyTest, WhatDoesNotBeginAsHttp2IsClosed) {
  RawTlsClient silent(kPort);
  RawTlsClient::Options options;
  options.http2 = false;
  EXPECT_TRUE(RawTlsClient(kPort, options).WaitForEnd());
  RawTlsClient other(kPort);
  // Perhaps it is closed before all of this was sent.
  other.Send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_TRUE(other.WaitForEnd());
  EXPECT_EQ(other.received(), "");
  ASSERT_TRUE(silent.established());
  EXPECT_TRUE(silent.WaitForEnd());
  ASSERT_THAT(Connect(), IsOk());
}

TEST_F(ProxyTest, OneAddressHasSoManyConnections) {
  std::vector<std::unique_ptr<RawTlsClient>> clients;
  int established = 0;
  for (int i = 0; i < 80; ++i) {
    clients.push_back(std::make_unique<RawTlsClient>(kPort));
    if (clients.back()->established() && clients.back()->Send(Hello())) ++established;
  }
  EXPECT_LE(established, 64);
  EXPECT_GE(established, 32);
  clients.clear();
  EXPECT_TRUE(Eventually([&] { return Connect().ok(); }));
}

TEST_F(ProxyTest, OldVersionsOfTlsAreRefused) {
  RawTlsClient::Options options;
  options.max_version = TLS1_1_VERSION;
  EXPECT_FALSE(RawTlsClient(kPort, options).established());
  options.max_version = TLS1_2_VERSION;
  EXPECT_TRUE(RawTlsClient(kPort, options).established());
}

}  // namespace
}  // namespace pto::testing
