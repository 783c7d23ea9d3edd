// Clients that do harm on purpose: each must go, and others must be served meanwhile.

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "daemon/rpc/net/testing_frames.h"
#include "daemon/rpc/outages.h"
#include "daemon/rpc/testing_server.h"
#include "gtest/gtest.h"
#include "runtime/base/clock.h"

namespace pto::daemon::rpc::testing {
namespace {

using Call = UnaryCallPtr<Text, Text>;

constexpr char kSay[] = "/pto.daemon.rpc.testing.Echo/Say";
constexpr absl::Duration kLongest = absl::Seconds(1);

// Calls again and again on a connection of its own, and remembers the longest time.
class Witness {
 public:
  explicit Witness(TestingServer& server)
      : client_(server.Client()), thread_([this] {
          while (!stop_) {
            const absl::Time start = absl::Now();
            BoundedContext context;
            Text response;
            if (!client_->Say(&context, MakeText("x"), &response).ok()) ++failures_;
            longest_ = std::max(longest_, absl::Now() - start);
            ++calls_;
          }
        }) {
    while (calls_ == 0) std::this_thread::yield();
  }
  ~Witness() {
    stop_ = true;
    thread_.join();
    EXPECT_EQ(failures_, 0);
    EXPECT_LT(longest_, kLongest);
  }

 private:
  const std::unique_ptr<Echo::Stub> client_;
  std::atomic<bool> stop_{false};
  std::atomic<int> calls_{0};
  std::atomic<int> failures_{0};
  absl::Duration longest_;
  std::thread thread_;
};

int64_t ResidentBytes() {
  std::ifstream file("/proc/self/statm");
  int64_t total = 0;
  int64_t resident = 0;
  file >> total >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

class HostileTest : public ::testing::Test {
 protected:
  void Start() {
    server_ = std::make_unique<TestingServer>(options_);
    server_->server().Unary(&EchoService::RequestSay, server_->service(), [this](Call call) {
      ++calls_;
      call->response()->set_text(call->request().text());
      call->Finish(absl::OkStatus());
    });
    server_->Start();
  }
  std::string path() { return server_->server().addresses().at(0).substr(5); }
  Connections::Stats stats() { return server_->server().connection_stats(); }
  bool Serves() {
    BoundedContext context;
    Text response;
    return server_->Client()->Say(&context, MakeText("x"), &response).ok();
  }
  // Sends `bytes` again and again, at most `most` in all. Returns whether the server ended it.
  static bool Flood(RawClient& client, const std::string& bytes, int64_t most) {
    for (int64_t sent = 0; sent < most; sent += static_cast<int64_t>(bytes.size())) {
      if (!client.Send(bytes)) return true;
    }
    return client.WaitForEnd(absl::Seconds(5));
  }

  Outages outages_;
  Server::Options options_;
  std::unique_ptr<TestingServer> server_;
  std::atomic<int> calls_{0};
};

TEST_F(HostileTest, CompressedMessagesAreRefusedAndNotExpanded) {
  Start();
  const int64_t before = ResidentBytes();
  for (const grpc_compression_algorithm algorithm : {GRPC_COMPRESS_GZIP, GRPC_COMPRESS_DEFLATE}) {
    const Witness witness(*server_);
    BoundedContext context;
    context.set_compression_algorithm(algorithm);
    Text response;
    const int calls = calls_;
    // It has some KiB when it is compressed.
    const grpc::Status status =
        server_->Client()->Say(&context, MakeText(std::string(15 << 20, '\0')), &response);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::UNIMPLEMENTED) << status.error_message();
    EXPECT_GE(calls_, calls);
  }
  EXPECT_LT(ResidentBytes() - before, 200 << 20);
}

TEST_F(HostileTest, HeadersWithoutEnd) {
  Start();
  const Witness witness(*server_);
  RawClient client(path());
  ASSERT_TRUE(client.Send(absl::StrCat(Hello(), MakeFrame(Frame::kHeaders, 0, 1, "x"))));
  EXPECT_TRUE(
      Flood(client, MakeFrame(Frame::kContinuation, 0, 1, std::string(16'000, 'x')), 16 << 20));
  EXPECT_EQ(stats().ended, 1u);
}

// One byte stands for an entry of 4 KiB of the table.
TEST_F(HostileTest, HeadersThatStandForMuch) {
  Start();
  const Witness witness(*server_);
  RawClient client(path());
  // Entered into the table by the first call.
  const std::string entry =
      absl::StrCat("\x40", HpackLength(5), "large", HpackLength(3900), std::string(3900, 'x'));
  ASSERT_TRUE(
      client.Send(absl::StrCat(Hello(), MakeFrame(Frame::kHeaders, Frame::kEndHeaders, 1,
                                                  absl::StrCat(CallHeaders(kSay), entry)))));
  bool ended = false;
  // The first entry of the dynamic table is number 62.
  const std::string block = absl::StrCat(CallHeaders(kSay), std::string(15'000, '\xbe'));
  for (uint32_t stream = 3; stream < 2000 && !ended; stream += 2) {
    ended = !client.Send(
        absl::StrCat(MakeFrame(Frame::kHeaders, 0, stream, block),
                     MakeFrame(Frame::kContinuation, Frame::kEndHeaders, stream, block)));
  }
  // Call by call or as a whole, it is refused: what matters is the witness.
  EXPECT_TRUE(Serves());
}

TEST_F(HostileTest, RapidReset) {
  Start();
  const int64_t before = ResidentBytes();
  const Witness witness(*server_);
  RawClient client(path());
  ASSERT_TRUE(client.Send(Hello()));
  bool ended = false;
  for (uint32_t stream = 1; stream < 2'000'000 && !ended;) {
    std::string batch;
    for (int i = 0; i < 100; ++i, stream += 2) {
      absl::StrAppend(&batch, OpenCall(stream, kSay), ResetCall(stream));
    }
    ended = !client.Send(batch);
  }
  EXPECT_TRUE(ended);
  // By the guard or, on a busy machine, by the watch over the poller.
  EXPECT_EQ(stats().ended, 1u);
  EXPECT_LT(ResidentBytes() - before, 256 << 20);
}

TEST_F(HostileTest, FramesThatAreNoWork) {
  Start();
  const Witness witness(*server_);
  uint64_t ended = 0;
  for (const auto& [type, size] : {std::pair<uint8_t, size_t>{Frame::kPriority, 5},
                                   {0x40, 5},
                                   {Frame::kSettings, 0},
                                   {Frame::kPing, 8}}) {
    RawClient client(path());
    ASSERT_TRUE(client.Send(Hello()));
    std::string batch;
    for (int i = 0; i < 1000; ++i) {
      batch += MakeFrame(type, 0, type == Frame::kPriority ? 1 : 0, std::string(size, '\0'));
    }
    EXPECT_TRUE(Flood(client, batch, 64 << 20)) << int{type};
    ended = stats().ended;
  }
  // gRPC itself ends some of them.
  EXPECT_GE(ended, 2u);
}

TEST_F(HostileTest, UnfinishedMessages) {
  options_.connections.traffic.max_unfinished_bytes = 20'000;
  options_.connections.unfinished_bytes = 30'000;
  Start();
  const Witness witness(*server_);
  const auto unfinished = [](uint32_t stream, size_t bytes) {
    return absl::StrCat(OpenCall(stream, kSay),
                        MakeFrame(Frame::kData, 0, stream,
                                  absl::StrCat(MessagePrefix(1 << 20), std::string(bytes, 'x'))));
  };
  RawClient one(path());
  ASSERT_TRUE(one.Send(absl::StrCat(Hello(), unfinished(1, 15'000))));
  EXPECT_FALSE(one.WaitForEnd(absl::Milliseconds(200)));
  ASSERT_TRUE(one.Send(unfinished(3, 10'000)));
  EXPECT_TRUE(one.WaitForEnd());
  EXPECT_EQ(stats().ended, 1u);
  // Of several, the largest goes.
  RawClient small(path());
  RawClient large(path());
  RawClient last(path());
  ASSERT_TRUE(small.Send(absl::StrCat(Hello(), unfinished(1, 10'000))));
  ASSERT_TRUE(large.Send(absl::StrCat(Hello(), unfinished(1, 15'000))));
  EXPECT_FALSE(small.WaitForEnd(absl::Milliseconds(100)));
  EXPECT_FALSE(large.WaitForEnd(absl::Milliseconds(100)));
  ASSERT_TRUE(last.Send(absl::StrCat(Hello(), unfinished(1, 12'000))));
  EXPECT_TRUE(large.WaitForEnd());
  EXPECT_EQ(stats().ended, 2u);
  EXPECT_FALSE(small.WaitForEnd(absl::Milliseconds(100)));
  EXPECT_FALSE(last.WaitForEnd(absl::Milliseconds(100)));
}

TEST_F(HostileTest, MoreCallsThanAConnectionMayHave) {
  options_.max_connection_calls = 8;
  Start();
  RawClient client(path());
  ASSERT_TRUE(client.Send(Hello()));
  std::string calls;
  for (uint32_t stream = 1; stream < 40; stream += 2) calls += OpenCall(stream, kSay);
  // gRPC has told the limit with its settings before.
  ASSERT_TRUE(client.WaitForBytes());
  ASSERT_TRUE(client.Send(absl::StrCat(MakeFrame(Frame::kSettings, 1, 0), calls)));
  EXPECT_TRUE(client.WaitForEnd());
  EXPECT_TRUE(Serves());
}

// The watch over the poller, when the guard lets everything pass.
TEST_F(HostileTest, WhoKeepsThePollerBusyIsEnded) {
  options_.connections.traffic.frame_burst = int64_t{1} << 40;
  options_.connections.traffic.frames_per_second = int64_t{1} << 20;
  options_.outages = &outages_;
  Start();
  RawClient client(path());
  ASSERT_TRUE(client.Send(Hello()));
  std::string batch;
  for (int i = 0; i < 10'000; ++i) {
    batch += MakeFrame(Frame::kPriority, 0, 1, std::string(5, '\0'));
  }
  const int64_t began = Clock::Real().NowNanos();
  EXPECT_TRUE(Flood(client, batch, int64_t{20} << 30));
  EXPECT_EQ(stats().ended, 1u);
  EXPECT_LT(Clock::Real().NowNanos() - began, int64_t{20} * 1'000'000'000);
  EXPECT_TRUE(Serves());
  // Sessions get the time back.
  EXPECT_GT(outages_.Since(began, Clock::Real().NowNanos()), 0);
}

TEST_F(HostileTest, APeerOnAUnixSocketThatIsFrozen) {
  options_.keepalive_interval = absl::Milliseconds(100);
  options_.keepalive_timeout = absl::Milliseconds(100);
  Start();
  RawClient client(path());
  ASSERT_TRUE(client.Send(Hello()));
  EXPECT_TRUE(client.WaitForEnd());
}

TEST_F(HostileTest, APeerThatDoesNotBegin) {
  options_.handshake_timeout = absl::Milliseconds(100);
  Start();
  RawClient client(path());
  EXPECT_TRUE(client.WaitForEnd());
  RawClient half(path());
  ASSERT_TRUE(half.Send(Hello().substr(0, 10)));
  EXPECT_TRUE(half.WaitForEnd());
  EXPECT_EQ(stats().ended, 2u);
}

TEST_F(HostileTest, MoreConnectionsThanAllowed) {
  options_.connections.max_connections = 20;
  options_.connections.max_user_connections = 10;
  options_.connections.is_operator = [](const Peer&) { return false; };
  Start();
  {
    std::vector<std::unique_ptr<RawClient>> clients;
    for (int i = 0; i < 10; ++i) clients.push_back(std::make_unique<RawClient>(path()));
    BoundedContext context(std::chrono::seconds(2));
    context.set_wait_for_ready(false);
    Text response;
    const grpc::Status status = server_->Client()->Say(&context, MakeText("x"), &response);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE) << status.error_message();
    EXPECT_GE(stats().refused, 1u);
  }
  EXPECT_TRUE(Serves());
}

}  // namespace
}  // namespace pto::daemon::rpc::testing
