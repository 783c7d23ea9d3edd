#include "daemon/rpc/server.h"

#include <atomic>
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

namespace pto::rpc::testing {
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
}  // namespace pto::rpc::testing
