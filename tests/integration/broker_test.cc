// Buffers in memory shared by client and daemon: the client library against a real ptod.

#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "client/client.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/error.h"
#include "runtime/base/failpoint.h"
#include "runtime/base/status_matchers.h"
#include "tests/harness/daemon_process.h"
#include "tests/harness/directory.h"
#include "tests/harness/failpoints.h"
#include "tests/integration/world.h"

namespace pto::testing {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int64_t kCount = 300'000;
constexpr uint64_t kBytes = kCount * sizeof(float);

// The number of buffers that this process has mapped.
int MappedBuffers() {
  int count = 0;
  for (const absl::string_view line : absl::StrSplit(ReadFile("/proc/self/maps"), '\n')) {
    if (absl::StrContains(line, "/memfd:ptod-buffer")) ++count;
  }
  return count;
}

bool Exists(const std::string& path) {
  struct stat found = {};
  return lstat(path.c_str(), &found) == 0;
}

std::vector<float> Numbers(float first) {
  std::vector<float> numbers(kCount);
  std::iota(numbers.begin(), numbers.end(), first);
  return numbers;
}

Client Connect(const DaemonProcess& daemon,
               ClientOptions::Broker broker = ClientOptions::Broker::kAuto) {
  ClientOptions options;
  options.broker = broker;
  return Client::Connect(daemon.address(), options).value();
}

// Doubles `x` into `y`, after spinning on another core for a while.
v1::GraphSpec Double(const Tensor<float>& x, const Tensor<float>& y,
                     absl::Duration first_spin = absl::ZeroDuration()) {
  GraphBuilder graph;
  if (first_spin > absl::ZeroDuration()) {
    graph.Task("spin", 0, {}).Scalar(absl::ToInt64Microseconds(first_spin));
  }
  graph.Task("scale", 0, {graph.Tensor(x), graph.Tensor(y)}).Scalar(2.0).Blocks(4);
  return graph.Build().value();
}

absl::Status RunToEnd(Session& session, const v1::GraphSpec& graph) {
  absl::StatusOr<pto::Run> run = session.Submit(graph);
  if (!run.ok()) return run.status();
  const absl::StatusOr<v1::Run> ended = run->Wait();
  return ended.ok() ? StatusOf(*ended) : ended.status();
}

class BrokerTest : public ::testing::Test {
 protected:
  BrokerTest() : client_(Connect(daemon_)), session_(client_.CreateSession().value()) {}

  Tensor<float> Create() { return session_.CreateTensor<float>(0, {kCount}).value(); }

  DaemonProcess daemon_;
  Client client_;
  Session session_;
};

TEST_F(BrokerTest, WhatIsWrittenIsRunAndRead) {
  EXPECT_THAT(client_.node().capabilities(), Contains("broker"));
  EXPECT_EQ(client_.node().broker_socket(), daemon_.socket_path() + ".mem");
  const Tensor<float> x = Create();
  const Tensor<float> y = Create();
  ASSERT_THAT(session_.Register("double", Double(x, y)), IsOk());
  RunOptions until_ended;
  until_ended.wait = absl::Seconds(60);
  // The first run binds its buffers before they are shared.
  ASSERT_THAT(session_.Launch("double", until_ended), IsOk());
  EXPECT_EQ(MappedBuffers(), 0);
  for (int round = 0; round < 20; ++round) {
    std::vector<float> numbers = Numbers(static_cast<float>(round));
    ASSERT_THAT(x.buffer().Write(numbers), IsOk());
    ASSERT_THAT(session_.Launch("double", until_ended), IsOk());
    std::vector<float> read(kCount);
    ASSERT_THAT(y.buffer().Read(std::span<float>(read)), IsOk());
    for (float& number : numbers) number *= 2;
    ASSERT_EQ(read, numbers) << round;
  }
  EXPECT_EQ(MappedBuffers(), 2);
  // A client that copies sees the same data.
  Client copies = Connect(daemon_, ClientOptions::Broker::kOff);
  Session same = copies.AttachSession(session_.name()).value();
  const Buffer copied = same.GetBuffer(y.buffer().id()).value();
  EXPECT_EQ(copied.Read<float>(kCount).value(), y.buffer().Read<float>(kCount).value());
  EXPECT_EQ(MappedBuffers(), 2);
}

TEST_F(BrokerTest, PartsGoToTheirPlaces) {
  const Buffer buffer = session_.CreateBuffer("b", 0, kBytes).value();
  const std::vector<float> numbers = Numbers(1);
  const std::span<const float> all = numbers;
  ASSERT_THAT(buffer.Write(all.subspan(100'000), 100'000 * sizeof(float)), IsOk());
  // Too small for the broker, although the buffer is already mapped.
  ASSERT_THAT(buffer.Write(all.first(10)), IsOk());
  ASSERT_THAT(buffer.Write(all.subspan(10, 99'990), 10 * sizeof(float)), IsOk());
  EXPECT_EQ(buffer.Read<float>(kCount).value(), numbers);
  EXPECT_EQ(buffer.Read<float>(50'000, 7 * sizeof(float)).value(),
            std::vector<float>(numbers.begin() + 7, numbers.begin() + 50'007));
  EXPECT_THAT(buffer.Write(numbers, 4), HasReason(reason::kRangeOutOfBounds));
  EXPECT_THAT(buffer.Read<float>(kCount + 1), HasReason(reason::kRangeOutOfBounds));
  EXPECT_EQ(MappedBuffers(), 1);
}

TEST_F(BrokerTest, ALittleOfALargeBufferDoesNotTakeAllOfIt) {
  const Buffer large = session_.CreateBuffer("large", 0, uint64_t{1} << 33).value();
  const uint64_t before = daemon_.ResidentBytes();
  ASSERT_THAT(large.Write(Numbers(1), uint64_t{1} << 32), IsOk());
  EXPECT_EQ(large.Read<float>(kCount, uint64_t{1} << 32).value(), Numbers(1));
  EXPECT_EQ(MappedBuffers(), 0);
  EXPECT_LT(daemon_.ResidentBytes(), before + (uint64_t{100} << 20));
}

TEST_F(BrokerTest, ARunKeepsItsBuffersToItself) {
  const Tensor<float> x = Create();
  const Tensor<float> y = Create();
  const Tensor<float> fresh = Create();
  std::vector<float> numbers = Numbers(3);
  ASSERT_THAT(x.buffer().Write(numbers), IsOk());
  ASSERT_THAT(y.buffer().Write(numbers), IsOk());
  const absl::StatusOr<pto::Run> run = session_.Submit(Double(x, y, absl::Seconds(20)));
  ASSERT_THAT(run, IsOk());
  const absl::StatusOr<pto::Run> second = session_.Submit(Double(x, fresh, absl::Seconds(20)));
  ASSERT_THAT(second, IsOk());
  // Already shared, and not.
  for (const Tensor<float>& used : {x, y, fresh}) {
    EXPECT_THAT(used.buffer().Write(numbers), HasReason(reason::kBufferInUse));
    EXPECT_THAT(used.buffer().Read<float>(kCount), HasReason(reason::kBufferInUse));
  }
  EXPECT_THAT(fresh.buffer().Map(), HasReason(reason::kBufferInUse));
  ASSERT_THAT(run->Cancel(), IsOk());
  ASSERT_THAT(second->Cancel(), IsOk());
  ASSERT_THAT(run->Wait(), IsOk());
  ASSERT_THAT(second->Wait(), IsOk());
  EXPECT_THAT(fresh.buffer().Map(), IsOk());
  ASSERT_THAT(RunToEnd(session_, Double(x, y)), IsOk());
  for (float& number : numbers) number *= 2;
  EXPECT_EQ(y.buffer().Read<float>(kCount).value(), numbers);
}

TEST_F(BrokerTest, WhatIsGoneIsGone) {
  const Buffer buffer = session_.CreateBuffer("b", 0, kBytes).value();
  const std::vector<float> numbers = Numbers(1);
  ASSERT_THAT(buffer.Write(numbers), IsOk());
  EXPECT_EQ(MappedBuffers(), 1);
  // Another client deletes it while this client still has it mapped.
  v1::DeleteBuffersRequest request;
  request.add_names(buffer.name());
  ASSERT_THAT(Call(*daemon_.api().buffer, &v1::BufferService::Stub::DeleteBuffers, request),
              IsOk());
  EXPECT_THAT(buffer.Write(numbers), HasReason(reason::kBufferUnknown));
  EXPECT_THAT(buffer.Read<float>(kCount), HasReason(reason::kBufferUnknown));
  // A new buffer with the same name is a different buffer.
  const Buffer second = session_.CreateBuffer("b", 0, kBytes).value();
  EXPECT_EQ(second.Read<float>(kCount).value(), std::vector<float>(kCount));
  ASSERT_THAT(second.Write(numbers), IsOk());
  EXPECT_EQ(MappedBuffers(), 2);
  ASSERT_THAT(second.Delete(), IsOk());
  EXPECT_EQ(MappedBuffers(), 1);
  EXPECT_THAT(second.Write(numbers), HasReason(reason::kBufferUnknown));
  DeleteSession(daemon_.api(), session_.name());
  EXPECT_THAT(second.Write(numbers), HasReason(reason::kSessionEnded));
  EXPECT_TRUE(Eventually([&] { return GetChip(daemon_.api(), 0).memory_used_bytes() == 0; }));
}

TEST_F(BrokerTest, AMappedBufferIsTheBufferItself) {
  const Tensor<float> x = Create();
  const Tensor<float> y = Create();
  const absl::StatusOr<MappedBuffer> in = x.buffer().Map();
  const absl::StatusOr<MappedBuffer> out = y.buffer().Map();
  ASSERT_THAT(in, IsOk());
  ASSERT_THAT(out, IsOk());
  ASSERT_EQ(in->bytes().size(), kBytes);
  const std::span<float> numbers = in->as<float>();
  std::iota(numbers.begin(), numbers.end(), 1.0f);
  ASSERT_THAT(RunToEnd(session_, Double(x, y)), IsOk());
  EXPECT_EQ(out->as<float>()[0], 2.0f);
  EXPECT_EQ(out->as<float>()[kCount - 1], 2.0f * kCount);
  // Mapped only once, however often it is requested.
  EXPECT_THAT(y.buffer().Map(), IsOk());
  EXPECT_EQ(MappedBuffers(), 2);
  // The mapping outlives its buffer, as harmless zeros.
  ASSERT_THAT(y.buffer().Delete(), IsOk());
  EXPECT_TRUE(Eventually([&] { return out->as<float>()[7] == 0.0f; }));
  std::fill(out->as<float>().begin(), out->as<float>().end(), 1.0f);
  EXPECT_TRUE(
      Eventually([&] { return GetChip(daemon_.api(), 0).memory_used_bytes() < 2 * kBytes; }));
  EXPECT_TRUE(daemon_.IsServing());
}

TEST_F(BrokerTest, OnlyWhoMadeTheSessionMaps) {
  const Buffer buffer = session_.CreateBuffer("b", 0, kBytes).value();
  ASSERT_THAT(buffer.Write(Numbers(1)), IsOk());
  Session other = client_.AttachSession(session_.name()).value();
  const Buffer same = other.GetBuffer("b").value();
  EXPECT_THAT(same.Map(), HasReason(reason::kNotAvailable));
  EXPECT_EQ(same.Read<float>(kCount).value(), Numbers(1));
  // Nor does a client that creates the same session again.
  Session named = client_.CreateSession({.id = "named"}).value();
  Client second_client = Connect(daemon_);
  Session again = second_client.CreateSession({.id = "named"}).value();
  const Buffer shared = named.CreateBuffer("c", 0, kBytes).value();
  EXPECT_THAT(shared.Map(), IsOk());
  const Buffer copied = again.GetBuffer("c").value();
  EXPECT_THAT(copied.Map(), HasReason(reason::kNotAvailable));
  EXPECT_THAT(copied.Write(Numbers(2)), IsOk());
  EXPECT_EQ(shared.Read<float>(kCount).value(), Numbers(2));
}

TEST_F(BrokerTest, ThreadsShareAndDelete) {
  const size_t files = daemon_.OpenFiles();
  const std::vector<float> numbers = Numbers(5);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20; ++i) {
        const Buffer buffer =
            session_.CreateBuffer(absl::StrCat("b-", t, "-", i), 0, kBytes).value();
        EXPECT_THAT(buffer.Write(numbers), IsOk());
        EXPECT_EQ(buffer.Read<float>(kCount).value(), numbers);
        EXPECT_THAT(buffer.Delete(), IsOk());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(MappedBuffers(), 0);
  // Except for the connections that it took.
  EXPECT_TRUE(Eventually([&] { return daemon_.OpenFiles() <= files + 2; }));
  EXPECT_EQ(GetChip(daemon_.api(), 0).memory_used_bytes(), 0u);
}

TEST_F(BrokerTest, ADaemonThatHangsCostsNoMoreThanTheTimeout) {
  const Buffer buffer = session_.CreateBuffer("b", 0, kBytes).value();
  const std::vector<float> numbers = Numbers(1);
  ASSERT_THAT(buffer.Write(numbers), IsOk());
  daemon_.Pause();
  const absl::Time start = absl::Now();
  EXPECT_THAT(buffer.Write(numbers, 0, absl::Milliseconds(300)), HasReason(reason::kClientTimeout));
  EXPECT_LT(absl::Now() - start, absl::Seconds(20));
  daemon_.Resume();
  EXPECT_THAT(buffer.Write(numbers), IsOk());
  // Copied for a while, then mapped again.
  EXPECT_TRUE(Eventually([&] { return buffer.Map().ok(); }));
  EXPECT_EQ(buffer.Read<float>(kCount).value(), numbers);
}

TEST_F(BrokerTest, ARestartIsSaid) {
  const Buffer buffer = session_.CreateBuffer("b", 0, kBytes).value();
  const absl::StatusOr<MappedBuffer> mapped = buffer.Map();
  ASSERT_THAT(mapped, IsOk());
  daemon_.Kill();
  EXPECT_TRUE(Exists(daemon_.socket_path() + ".mem"));
  mapped->bytes()[0] = std::byte{1};
  // Leftovers of the killed daemon are removed.
  daemon_.Restart();
  absl::Status status;
  EXPECT_TRUE(Eventually([&] {
    status = buffer.Write(Numbers(1));
    return ReasonOf(status) == reason::kBootIdChanged.name;
  })) << status;
  EXPECT_THAT(buffer.Map(), HasReason(reason::kBootIdChanged));
  Client client = Connect(daemon_);
  Session session = client.CreateSession().value();
  EXPECT_THAT(session.CreateBuffer("b", 0, kBytes).value().Map(), IsOk());
}

TEST(BrokerOffTest, TheDaemonCanDoWithout) {
  DaemonProcess daemon({"--sim-chips=1", "--broker=off"});
  Client client = Connect(daemon);
  EXPECT_THAT(client.node().capabilities(), Not(Contains("broker")));
  EXPECT_EQ(client.node().broker_socket(), "");
  EXPECT_FALSE(Exists(daemon.socket_path() + ".mem"));
  Session session = client.CreateSession().value();
  const Buffer buffer = session.CreateBuffer("b", 0, kBytes).value();
  ASSERT_THAT(buffer.Write(Numbers(1)), IsOk());
  EXPECT_EQ(buffer.Read<float>(kCount).value(), Numbers(1));
  EXPECT_THAT(buffer.Map(), HasReason(reason::kNotAvailable));
  EXPECT_EQ(MappedBuffers(), 0);
}

// A broker that cannot map, in the ways that failpoints offer.
class BrokerFailsTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!kHasFailpoints) GTEST_SKIP() << "a release build has no failpoints";
  }
};

TEST_P(BrokerFailsTest, TheClientCopiesInstead) {
  const DaemonFailpoints failpoints(absl::StrCat("broker.map=", GetParam()));
  DaemonProcess daemon;
  Client client = Connect(daemon);
  Session session = client.CreateSession().value();
  const Buffer buffer = session.CreateBuffer("b", 0, kBytes).value();
  ASSERT_THAT(buffer.Write(Numbers(1)), IsOk());
  EXPECT_EQ(buffer.Read<float>(kCount).value(), Numbers(1));
  EXPECT_EQ(MappedBuffers(), 0);
}

INSTANTIATE_TEST_SUITE_P(Ways, BrokerFailsTest, ::testing::Values("error", "drop"));

TEST(BrokerFullTest, WhoMapsIsToldThatThereIsNoRoomAndMayTryAgain) {
  if (!kHasFailpoints) GTEST_SKIP() << "a release build has no failpoints";
  const DaemonFailpoints failpoints("broker.map=error*1");
  DaemonProcess daemon;
  Client client = Connect(daemon);
  Session session = client.CreateSession().value();
  const Buffer buffer = session.CreateBuffer("b", 0, kBytes).value();
  const absl::Status refused = buffer.Map().status();
  EXPECT_THAT(refused, HasReason(reason::kChipMemoryExhausted));
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  const absl::optional<ErrorDetail> detail = GetErrorDetail(refused);
  ASSERT_TRUE(detail.has_value());
  const std::pair<std::string, std::string> requested = {"requested", absl::StrCat(kBytes)};
  EXPECT_THAT(detail->metadata, Contains(requested));
  EXPECT_THAT(detail->hint, HasSubstr("Write and Read"));
  EXPECT_THAT(buffer.Map(), IsOk());
}

TEST(BrokerOffTest, TheClientCanDoWithout) {
  DaemonProcess daemon;
  const auto copies = [&](Client client) {
    Session session = client.CreateSession().value();
    const Buffer buffer = session.CreateBuffer("b", 0, kBytes).value();
    ASSERT_THAT(buffer.Write(Numbers(1)), IsOk());
    EXPECT_EQ(buffer.Read<float>(kCount).value(), Numbers(1));
    EXPECT_EQ(MappedBuffers(), 0);
  };
  copies(Connect(daemon, ClientOptions::Broker::kOff));
  setenv("PTOD_BROKER", "off", 1);  // NOLINT: one thread
  copies(Connect(daemon));
  unsetenv("PTOD_BROKER");  // NOLINT: one thread
}

TEST(BrokerOffTest, ADaemonThatCannotHaveOneServes) {
  DaemonProcess daemon;
  const std::string path = daemon.socket_path() + ".mem";
  EXPECT_TRUE(Exists(path));
  struct stat found = {};
  ASSERT_EQ(lstat(path.c_str(), &found), 0);
  EXPECT_TRUE(S_ISSOCK(found.st_mode));
  EXPECT_EQ(found.st_mode & 0777u, 0660u);
  daemon.Stop();
  EXPECT_FALSE(Exists(path));
  EXPECT_FALSE(Exists(path + ".lock"));
  WriteFile(path, "precious");
  daemon.Restart();
  EXPECT_TRUE(daemon.IsServing());
  EXPECT_EQ(GetNode(daemon.api()).broker_socket(), "");
  EXPECT_TRUE(Eventually([&] { return absl::StrContains(daemon.Log(), "no memory broker"); }));
  EXPECT_EQ(ReadFile(path), "precious");
}

}  // namespace
}  // namespace pto::testing
