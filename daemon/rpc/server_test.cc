#include "daemon/rpc/server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <latch>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "daemon/rpc/testing_server.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/error.h"
#include "runtime/base/status_matchers.h"

namespace pto::daemon::rpc::testing {
namespace {

using Call = UnaryCallPtr<Text, Text>;
using ::pto::testing::HasReason;
using ::testing::HasSubstr;

void AddSay(TestingServer& server) {
  server.server().Unary(&EchoService::RequestSay, server.service(), [](Call call) {
    call->response()->set_text(call->request().text());
    call->Finish(absl::OkStatus());
  });
}

bool Say(Echo::Stub& client, const std::string& text) {
  BoundedContext context;
  Text response;
  return client.Say(&context, MakeText(text), &response).ok() && response.text() == text;
}

TEST(ServerTest, TellsTheRealPort) {
  Server::Options options;
  options.listen = {"127.0.0.1:0"};
  TestingServer server(options);
  AddSay(server);
  server.Start();
  ASSERT_EQ(server.server().addresses().size(), 1u);
  EXPECT_FALSE(absl::EndsWith(server.server().addresses()[0], ":0"));
  EXPECT_TRUE(Say(*server.Client(), "x"));
}

TEST(ServerTest, NamesTheAddressThatCannotBeBound) {
  Server::Options options;
  options.listen = {"127.0.0.1:0", "unix:/nonexistent/directory/socket"};
  TestingServer server(options);
  const absl::Status status = server.server().Start();
  EXPECT_THAT(status, HasReason(reason::kListenFailed));
  EXPECT_THAT(std::string(status.message()), HasSubstr("unix:/nonexistent/directory/socket"));
}

TEST(ServerTest, DoesNotShareAPort) {
  Server::Options options;
  options.listen = {"127.0.0.1:0"};
  TestingServer first(options);
  first.Start();
  options.listen = first.server().addresses();
  TestingServer second(options);
  EXPECT_THAT(second.server().Start(), HasReason(reason::kListenFailed));
}

TEST(ServerTest, ShutsDownTwiceAndWithoutAStart) {
  TestingServer server;
  server.server().Shutdown(absl::InfinitePast());
  AddSay(server);
  server.Start();
  server.server().Shutdown(absl::Now());
  server.server().Shutdown(absl::Now());
}

TEST(ServerTest, RefusesAMessageBeyondTheLimit) {
  Server::Options options;
  options.max_message_bytes = 1000;
  TestingServer server(options);
  AddSay(server);
  server.Start();
  auto client = server.Client();
  EXPECT_TRUE(Say(*client, std::string(900, 'x')));
  BoundedContext context;
  Text response;
  EXPECT_EQ(client->Say(&context, MakeText(std::string(2000, 'x')), &response).error_code(),
            grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_TRUE(Say(*client, "still there"));
}

TEST(ServerTest, ServesManyClientsAtOnce) {
  constexpr int kClients = 64;
  TestingServer server;
  AddSay(server);
  server.Start();
  std::atomic<int> good = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < kClients; ++i) {
    threads.emplace_back([&, i] {
      auto client = server.Client();
      for (int j = 0; j < 20; ++j) good += Say(*client, absl::StrCat(i, "/", j)) ? 1 : 0;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good, kClients * 20);
}

TEST(ServerTest, SlowHandlersDoNotStopOtherCalls) {
  constexpr int kSlow = 4;
  std::latch release(1);
  std::latch entered(kSlow);
  TestingServer server;
  AddSay(server);
  server.server().Unary(&EchoService::RequestWait, server.service(), [&](Call call) {
    entered.count_down();
    release.wait();
    call->Finish(absl::OkStatus());
  });
  server.Start();
  std::vector<std::thread> slow;
  for (int i = 0; i < kSlow; ++i) {
    slow.emplace_back([&] {
      BoundedContext context;
      Text response;
      EXPECT_TRUE(server.Client()->Wait(&context, MakeText("x"), &response).ok());
    });
  }
  entered.wait();
  auto client = server.Client();
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(Say(*client, "quick"));
  EXPECT_GE(server.server().takeovers(), static_cast<uint64_t>(kSlow));
  release.count_down();
  for (std::thread& thread : slow) thread.join();
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(Say(*client, "quick"));
}

TEST(ServerTest, LetsAnOpenCallFinishBeforeTheDeadline) {
  std::latch entered(1);
  Call held;
  TestingServer server;
  server.server().Unary(&EchoService::RequestSay, server.service(), [&](Call call) {
    held = std::move(call);
    entered.count_down();
  });
  server.Start();
  std::thread caller([&] { EXPECT_TRUE(Say(*server.Client(), "")); });
  entered.wait();
  std::thread stopper([&] { server.server().Shutdown(absl::Now() + absl::Seconds(60)); });
  held->Finish(absl::OkStatus());
  held = nullptr;
  caller.join();
  stopper.join();
}

TEST(ServerTest, CancelsAnOpenCallAtTheDeadline) {
  std::latch entered(1);
  std::latch cancelled(1);
  Call held;
  TestingServer server;
  server.server().LongUnary(&EchoService::RequestWait, server.service(), [&](Call call) {
    call->OnCancelled([&] {
      held->Finish(absl::CancelledError("the server stops"));
      held = nullptr;
      cancelled.count_down();
    });
    held = std::move(call);
    entered.count_down();
  });
  server.Start();
  std::thread caller([&] {
    BoundedContext context;
    context.set_wait_for_ready(false);
    Text response;
    EXPECT_FALSE(server.Client()->Wait(&context, MakeText("x"), &response).ok());
  });
  entered.wait();
  server.server().Shutdown(absl::Now());
  cancelled.wait();
  caller.join();
}

// A client that has connected and then does nothing, not even read.
class SilentClient {
 public:
  explicit SilentClient(const std::string& path) {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    EXPECT_EQ(connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    // The beginning of HTTP/2, and settings that change nothing.
    const std::string hello("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0", 24 + 9);
    EXPECT_EQ(write(socket_, hello.data(), hello.size()), static_cast<ssize_t>(hello.size()));
    // With its own settings the server shows that it knows the connection.
    char byte = 0;
    EXPECT_EQ(read(socket_, &byte, 1), 1);
  }
  ~SilentClient() { close(socket_); }

 private:
  const int socket_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
};

TEST(ServerTest, DoesNotWaitForIdleClientsToTakeLeave) {
  TestingServer server;
  AddSay(server);
  server.Start();
  const SilentClient client(server.server().addresses().at(0).substr(std::strlen("unix:")));
  const absl::Time start = absl::Now();
  server.server().Shutdown(start + absl::Minutes(1));
  // gRPC itself gives up after 20 s.
  EXPECT_LT(absl::Now() - start, absl::Seconds(15));
}

// How a call ends that the server does not answer, on a connection whose client sends pings all
// the time.
grpc::StatusCode EndOfCallWithPings(absl::Duration min_ping_interval,
                                    std::chrono::milliseconds timeout) {
  Server::Options options;
  options.min_ping_interval = min_ping_interval;
  TestingServer server(options);
  Call held;
  server.server().LongUnary(&EchoService::RequestWait, server.service(), [&](Call call) {
    auto& waiting = *call;
    held = std::move(call);
    waiting.OnCancelled([&] { held = nullptr; });
  });
  server.Start();
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  // The shortest that gRPC keeps to.
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 1000);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  auto client = Echo::NewStub(grpc::CreateCustomChannel(
      server.server().addresses().at(0), grpc::InsecureChannelCredentials(), arguments));
  BoundedContext context(timeout);
  Text response;
  return client->Wait(&context, MakeText("x"), &response).error_code();
}

TEST(ServerTest, BearsPingsAtTheIntervalThatItAllowsAndNotMoreOften) {
  // Both at once, because it takes seconds: the fourth ping is one too many.
  std::thread allowed([] {
    EXPECT_EQ(EndOfCallWithPings(absl::Milliseconds(10), std::chrono::seconds(6)),
              grpc::StatusCode::DEADLINE_EXCEEDED);
  });
  EXPECT_EQ(EndOfCallWithPings(absl::Minutes(1), std::chrono::minutes(1)),
            grpc::StatusCode::UNAVAILABLE);
  allowed.join();
}

// A peer whose kernel still takes what is sent, but who does not answer any more.
TEST(ServerTest, GivesUpATcpPeerThatHasVanished) {
  Server::Options options;
  options.listen = {"127.0.0.1:0"};
  options.keepalive_interval = absl::Milliseconds(100);
  options.keepalive_timeout = absl::Milliseconds(100);
  TestingServer server(options);
  AddSay(server);
  server.Start();
  const std::string address = server.server().addresses()[0];
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  to.sin_port = htons(static_cast<uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
  const int peer = socket(AF_INET, SOCK_STREAM, 0);
  ASSERT_GE(peer, 0);
  // Long, so that only a server that never gives up fails.
  const timeval patience = {.tv_sec = 20, .tv_usec = 0};
  ASSERT_EQ(setsockopt(peer, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience), 0);
  ASSERT_EQ(connect(peer, reinterpret_cast<const sockaddr*>(&to), sizeof to), 0);
  // The preface of HTTP/2 and empty settings: from here on the connection is in use.
  const std::string hello("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0", 33);
  ASSERT_EQ(send(peer, hello.data(), hello.size(), 0), static_cast<ssize_t>(hello.size()));
  char bytes[256];
  ssize_t got = 0;
  while ((got = recv(peer, bytes, sizeof bytes, 0)) > 0) {
  }
  EXPECT_TRUE(got == 0 || errno == ECONNRESET) << strerror(errno);
  close(peer);
}

TEST(ServerTest, StopsUnderLoad) {
  for (int round = 0; round < 5; ++round) {
    TestingServer server;
    AddSay(server);
    server.Start();
    std::atomic<bool> stop = false;
    std::latch running(4);
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        auto client = server.Client();
        bool first = true;
        while (!stop) {
          BoundedContext context;
          context.set_wait_for_ready(first);
          Text response;
          client->Say(&context, MakeText("x"), &response);
          if (first) running.count_down();
          first = false;
        }
      });
    }
    running.wait();
    server.server().Shutdown(absl::Now());
    stop = true;
    for (std::thread& thread : threads) thread.join();
  }
}

}  // namespace
}  // namespace pto::daemon::rpc::testing
