#include "client/client.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <set>
#include <vector>

#include "client/testing/client_fixture.h"
#include "client/testing/temp_socket.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/status/grpc_status.h"
#include "runtime/base/error.h"
#include "runtime/base/status_matchers.h"

namespace pto {
namespace {

using ::pto::testing::FakeDaemon;
using ::pto::testing::HasReason;
using ::pto::testing::IsOk;
using ::pto::testing::kLong;
using ::pto::testing::kSlack;
using ::pto::testing::Stopwatch;
using ::pto::testing::TempSocket;
using ::testing::HasSubstr;

class ClientTest : public testing::ClientFixture {};

// A socket that accepts connections and never answers.
class SilentSocket {
 public:
  explicit SilentSocket(const std::string& path, bool listening = true)
      : fd_(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
    EXPECT_EQ(bind(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    if (listening) {
      EXPECT_EQ(listen(fd_, 16), 0);
    }
  }
  ~SilentSocket() { close(fd_); }

 private:
  int fd_;
};

TEST_F(ClientTest, LearnsWhoTheDaemonIs) {
  StartDaemon();
  Client client = Connect();
  EXPECT_EQ(client.node().boot_id(), "boot-1");
  EXPECT_EQ(client.address(), socket_.address());
}

TEST_F(ClientTest, TakesTheAddressFromTheEnvironment) {
  StartDaemon();
  setenv("PTOD_ADDRESS", socket_.address().c_str(), 1);
  const absl::StatusOr<Client> client = Client::Connect();
  unsetenv("PTOD_ADDRESS");
  ASSERT_THAT(client, IsOk());
  EXPECT_EQ(client->address(), socket_.address());
}

TEST(ClientConnectTest, SaysThatThereIsNoSocket) {
  TempSocket socket;
  const absl::StatusOr<Client> client = Client::Connect(socket.address());
  ASSERT_THAT(client, HasReason(reason::kDaemonUnreachable));
  const std::string message(client.status().message());
  EXPECT_THAT(message, HasSubstr(socket.address()));
  EXPECT_THAT(message, HasSubstr("No such file or directory"));
  EXPECT_FALSE(GetErrorDetail(client.status())->hint.empty());
}

TEST(ClientConnectTest, SaysThatNobodyListens) {
  TempSocket socket;
  SilentSocket bound(socket.path(), /*listening=*/false);
  const absl::StatusOr<Client> client = Client::Connect(socket.address());
  ASSERT_THAT(client, HasReason(reason::kDaemonUnreachable));
  EXPECT_THAT(std::string(client.status().message()), HasSubstr("Connection refused"));
}

TEST(ClientConnectTest, GivesUpOnADaemonThatDoesNotAnswer) {
  TempSocket socket;
  SilentSocket silent(socket.path());
  Stopwatch stopwatch;
  const absl::StatusOr<Client> client =
      Client::Connect(socket.address(), {.connect_timeout = absl::Milliseconds(300)});
  EXPECT_LT(stopwatch.Elapsed(), kSlack);
  ASSERT_THAT(client, HasReason(reason::kClientTimeout));
  EXPECT_THAT(std::string(client.status().message()), HasSubstr("GetNode"));
}

TEST(ClientConnectTest, RefusesWhatIsNoAddress) {
  for (const char* address : {"nonsense", "unix:", ":50051", "localhost:"}) {
    EXPECT_THAT(Client::Connect(address), HasReason(reason::kFieldInvalid)) << address;
  }
}

TEST_F(ClientTest, KeepsAllThatAnErrorOfTheDaemonSays) {
  StartDaemon();
  Client client = Connect();
  gate().FailNext(
      "GetRun",
      ToGrpcStatus(
          Error(reason::kRunExpired, "too old").At("name").With("run", "r7").Hint("ask sooner")));
  const absl::StatusOr<v1::Run> run = client.GetRun("sessions/s/runs/r7");
  ASSERT_THAT(run, HasReason(reason::kRunExpired));
  EXPECT_EQ(run.status().message(), "too old");
  const ErrorDetail detail = *GetErrorDetail(run.status());
  EXPECT_EQ(detail.hint, "ask sooner");
  EXPECT_EQ(detail.field, "name");
  ASSERT_EQ(detail.metadata.size(), 1u);
  EXPECT_EQ(detail.metadata[0].second, "r7");
}

TEST_F(ClientTest, FetchesAllPages) {
  StartDaemon();
  const absl::StatusOr<std::vector<v1::Chip>> chips = Connect().ListChips();
  ASSERT_THAT(chips, IsOk());
  ASSERT_EQ(chips->size(), 2u);
  EXPECT_EQ((*chips)[1].name(), "chips/1");
}

TEST_F(ClientTest, EndsACallAtItsDeadline) {
  StartDaemon();
  Client client = Connect();
  gate().Hang("GetNode");
  Stopwatch stopwatch;
  const absl::StatusOr<v1::Node> node = client.GetNode(absl::Milliseconds(200));
  EXPECT_LT(stopwatch.Elapsed(), kSlack);
  EXPECT_GE(stopwatch.Elapsed(), absl::Milliseconds(150));
  ASSERT_THAT(node, HasReason(reason::kClientTimeout));
  EXPECT_THAT(std::string(node.status().message()), HasSubstr("GetNode"));
  gate().Release();
  EXPECT_THAT(client.GetNode(), IsOk());
}

TEST_F(ClientTest, TakesTheClientsTimeoutWhenACallHasNone) {
  StartDaemon();
  Client client = Connect(/*timeout=*/absl::Milliseconds(200));
  gate().Hang("ListChips");
  Stopwatch stopwatch;
  EXPECT_THAT(client.ListChips(), HasReason(reason::kClientTimeout));
  EXPECT_LT(stopwatch.Elapsed(), kSlack);
}

TEST_F(ClientTest, SaysWhenTheDaemonDoesNotHaveACall) {
  StartDaemon();
  EXPECT_THAT(Connect().ExplainRun("sessions/s/runs/r"), HasReason(reason::kNotAvailable));
}

TEST_F(ClientTest, FindsTheDaemonAgainAfterARestart) {
  StartDaemon();
  Client client = Connect();
  daemon_.reset();
  EXPECT_THAT(client.GetNode(), HasReason(reason::kDaemonUnreachable));
  RestartDaemon();
  // The connection may be waiting for its next attempt.
  absl::StatusOr<v1::Node> node = client.GetNode();
  for (Stopwatch stopwatch; !node.ok() && stopwatch.Elapsed() < kLong;) node = client.GetNode();
  ASSERT_THAT(node, IsOk());
  EXPECT_EQ(node->boot_id(), "boot-2");
}

TEST(ClientConnectionsTest, AreThree) {
  FakeDaemon daemon("127.0.0.1:0");
  absl::StatusOr<Client> client = Client::Connect(daemon.address());
  ASSERT_THAT(client, IsOk());
  absl::StatusOr<Session> session = client->CreateSession();
  ASSERT_THAT(session, IsOk());
  absl::StatusOr<Buffer> buffer = session->CreateBuffer("", 0, 4);
  ASSERT_THAT(buffer, IsOk());
  ASSERT_THAT(buffer->Write(std::vector<float>{1}), IsOk());
  daemon.AddRunEvent(session->name(), "r", v1::Run::RUNNING);
  absl::StatusOr<EventStream> events = session->Watch();
  ASSERT_THAT(events, IsOk());
  ASSERT_THAT(events->Next(), IsOk());

  std::set<std::string> peers;
  for (const char* rpc :
       {"GetNode", "CreateSession", "CreateBuffers", "WriteBuffer", "WatchEvents"}) {
    peers.merge(daemon.gate().peers(rpc));
  }
  EXPECT_EQ(peers.size(), 3u);
  EXPECT_EQ(daemon.gate().peers("CreateSession"), daemon.gate().peers("CreateBuffers"));
}

}  // namespace
}  // namespace pto
