// Who calls, and how long that is known.

#include "daemon/rpc/net/connection.h"

#include <fcntl.h>
#include <unistd.h>

#include <latch>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "daemon/rpc/testing_server.h"
#include "gtest/gtest.h"

namespace pto::daemon::rpc::testing {
namespace {

using Call = UnaryCallPtr<Text, Text>;

TEST(ConnectionTest, AUnaryCallKnowsItsPeerAndItsMetadata) {
  std::shared_ptr<const Peer> peer;
  absl::optional<std::string> token;
  absl::optional<std::string> nothing;
  TestingServer server;
  server.server().Unary(&EchoService::RequestSay, server.service(), [&](Call call) {
    peer = call->peer();
    token = call->Metadata("authorization");
    nothing = call->Metadata("other");
    call->Finish(absl::OkStatus());
  });
  server.Start();
  auto client = server.Client();
  BoundedContext context;
  context.AddMetadata("authorization", "Bearer x");
  Text response;
  ASSERT_TRUE(client->Say(&context, MakeText("x"), &response).ok());
  ASSERT_NE(peer, nullptr);
  EXPECT_EQ(peer->transport, Peer::Transport::kUnix);
  EXPECT_EQ(peer->uid, getuid());
  EXPECT_EQ(peer->pid, getpid());
  EXPECT_EQ(token, "Bearer x");
  EXPECT_FALSE(nothing.has_value());

  // The same connection, and another one.
  const uint64_t first = peer->connection;
  EXPECT_NE(first, 0u);
  BoundedContext again;
  ASSERT_TRUE(client->Say(&again, MakeText("x"), &response).ok());
  EXPECT_EQ(peer->connection, first);
  BoundedContext other;
  ASSERT_TRUE(server.Client()->Say(&other, MakeText("x"), &response).ok());
  EXPECT_NE(peer->connection, first);
}

class Counter final : public ServerStreamReactor<Number> {
 public:
  explicit Counter(std::shared_ptr<const Peer>* peer) : peer_(peer) {}
  void OnStart() override {
    *peer_ = peer();
    Finish(absl::OkStatus());
  }
  void OnDone() override { delete this; }

 private:
  std::shared_ptr<const Peer>* const peer_;
};

TEST(ConnectionTest, AStreamKnowsItsPeer) {
  std::shared_ptr<const Peer> peer;
  TestingServer server;
  server.server().ServerStream(
      &EchoService::RequestCount, server.service(),
      [&](const Number&, const grpc::ServerContext&) { return new Counter(&peer); });
  server.Start();
  BoundedContext context;
  const auto client = server.Client();
  const auto stream = client->Count(&context, MakeNumber(1));
  EXPECT_TRUE(stream->Finish().ok());
  ASSERT_NE(peer, nullptr);
  EXPECT_EQ(peer->uid, getuid());
}

TEST(ConnectionTest, ATcpPeerHasAnAddress) {
  std::shared_ptr<const Peer> peer;
  Server::Options options;
  options.listen = {"127.0.0.1:0"};
  TestingServer server(options);
  server.server().Unary(&EchoService::RequestSay, server.service(), [&](Call call) {
    peer = call->peer();
    call->Finish(absl::OkStatus());
  });
  server.Start();
  BoundedContext context;
  Text response;
  ASSERT_TRUE(server.Client()->Say(&context, MakeText("x"), &response).ok());
  ASSERT_NE(peer, nullptr);
  EXPECT_EQ(peer->transport, Peer::Transport::kTcp);
  EXPECT_EQ(peer->address.substr(0, 10), "127.0.0.1:");
}

// The reason why a descriptor's number can stand for a connection: it stays in use as long as a
// call of that connection exists, also when the client has gone.
TEST(ConnectionTest, ACallKeepsTheDescriptorOfItsConnection) {
  std::latch entered(1);
  std::latch cancelled(1);
  Call held;
  TestingServer server;
  server.server().LongUnary(&EchoService::RequestWait, server.service(), [&](Call call) {
    call->OnCancelled([&] { cancelled.count_down(); });
    held = std::move(call);
    entered.count_down();
  });
  server.Start();
  uint64_t connection = 0;
  int file = -1;
  {
    auto client = server.Client();
    grpc::ClientContext context;
    Text response;
    std::thread caller([&] { client->Wait(&context, MakeText("x"), &response); });
    entered.wait();
    connection = held->peer()->connection;
    file = std::stoi(held->context().peer().substr(3));
    context.TryCancel();
    caller.join();
  }
  cancelled.wait();
  // The client has gone. Give gRPC the time to notice: with the connection's end nothing is sent.
  for (int i = 0; i < 20; ++i) {
    EXPECT_GE(fcntl(file, F_GETFD), 0);
    ASSERT_NE(ConnectionTable::Find(file), nullptr);
    EXPECT_EQ(held->peer()->connection, connection);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  held->Finish(absl::CancelledError());
  held = nullptr;
  // And then it is closed.
  for (int i = 0; i < 2000 && server.server().connection_stats().open > 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_EQ(server.server().connection_stats().open, 0u);
  EXPECT_EQ(ConnectionTable::Find(file), nullptr);
}

}  // namespace
}  // namespace pto::daemon::rpc::testing
