// What a client sees when the daemon's process is stopped or killed.

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/functional/function_ref.h"
#include "client/client.h"
#include "client/internal/core.h"
#include "client/testing/client_fixture.h"
#include "client/testing/fake_process.h"
#include "client/testing/temp_socket.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/error.h"
#include "runtime/base/status_matchers.h"

namespace pto {
namespace {

using ::pto::testing::FakeProcess;
using ::pto::testing::HasReason;
using ::pto::testing::IsOk;
using ::pto::testing::kLong;
using ::pto::testing::kSlack;
using ::pto::testing::Stopwatch;
using ::testing::AnyOf;

// For calls that should time out.
constexpr absl::Duration kTimeout = absl::Milliseconds(200);
// For calls that should end earlier by themselves. An event stream uses all of it: it keeps trying
// to reach the daemon.
constexpr absl::Duration kAmple = absl::Seconds(3);

// A client with one object of each kind, all in use before the fault.
class FaultTest : public ::testing::Test {
 protected:
  void SetUp() override {
    Start("boot-1");
    absl::StatusOr<Client> client = Client::Connect(socket_.address());
    ASSERT_THAT(client, IsOk());
    client_ = std::make_unique<Client>(*std::move(client));
    absl::StatusOr<Session> session = client_->CreateSession();
    ASSERT_THAT(session, IsOk());
    session_ = std::make_unique<Session>(*std::move(session));
    absl::StatusOr<Buffer> buffer = session_->CreateBuffer("b", 0, 16 << 20);
    ASSERT_THAT(buffer, IsOk());
    buffer_ = std::make_unique<Buffer>(*std::move(buffer));
    ASSERT_THAT(buffer_->Write(std::vector<float>{1}), IsOk());
    launch_.set_graph(session_->name() + "/graphs/g");
    absl::StatusOr<LaunchStream> launches = session_->OpenLaunchStream();
    ASSERT_THAT(launches, IsOk());
    launches_ = std::make_unique<LaunchStream>(*std::move(launches));
    ASSERT_THAT(launches_->LaunchAndWait(launch_), IsOk());
    absl::StatusOr<EventStream> events = session_->Watch();
    ASSERT_THAT(events, IsOk());
    events_ = std::make_unique<EventStream>(*std::move(events));
    ASSERT_THAT(events_->Next(kTimeout), HasReason(reason::kClientTimeout));
  }

  void Start(const std::string& boot_id) {
    process_.reset();
    process_ = std::make_unique<FakeProcess>(socket_.address(), boot_id);
    ASSERT_TRUE(process_->ok());
  }

  // Makes each kind of call once. Each must return in time.
  std::vector<absl::Status> CallEverything(absl::Duration timeout) {
    std::vector<absl::Status> statuses;
    const auto add = [&](absl::FunctionRef<absl::Status()> call) {
      Stopwatch stopwatch;
      statuses.push_back(call());
      EXPECT_LT(stopwatch.Elapsed(), timeout + kSlack) << "call " << statuses.size();
    };
    v1::GraphSpec graph;
    graph.add_tasks()->set_kernel("add");
    GraphBuilder builder;
    builder.Task("add", 0, {});
    const std::vector<float> much(4 << 20);
    const pto::Run run = session_->GetRun("r");
    add([&] { return session_->CreateBuffer("c", 0, 8, timeout).status(); });
    add([&] { return session_->Submit(graph, {}, timeout).status(); });
    add([&] { return session_->SubmitPacked(builder, {}, timeout).status(); });
    add([&] { return session_->Launch("g", {}, timeout).status(); });
    add([&] { return run.Wait(timeout).status(); });
    add([&] { return run.Get(timeout).status(); });
    add([&] { return run.Cancel("", timeout).status(); });
    add([&] { return buffer_->Write(much, 0, timeout); });
    add([&] { return buffer_->Read<float>(1, 0, timeout).status(); });
    add([&] { return launches_->LaunchAndWait(launch_, timeout).status(); });
    add([&] { return launches_->Next(timeout).status(); });
    add([&] { return events_->Next(timeout).status(); });
    return statuses;
  }

  testing::TempSocket socket_;
  std::unique_ptr<FakeProcess> process_;
  v1::LaunchGraphRequest launch_;
  std::unique_ptr<Client> client_;
  std::unique_ptr<Session> session_;
  std::unique_ptr<Buffer> buffer_;
  std::unique_ptr<LaunchStream> launches_;
  std::unique_ptr<EventStream> events_;
};

TEST_F(FaultTest, AFrozenDaemonIsATimeout) {
  process_->Freeze();
  for (const absl::Status& status : CallEverything(kTimeout)) {
    EXPECT_THAT(status, HasReason(reason::kClientTimeout));
  }
  EXPECT_THAT(client_->GetNode(kTimeout), HasReason(reason::kClientTimeout));
  EXPECT_THAT(Client::Connect(socket_.address(), {.connect_timeout = kTimeout}),
              HasReason(reason::kClientTimeout));
  Stopwatch stopwatch;
  session_.reset();
  events_.reset();
  launches_.reset();
  client_.reset();
  EXPECT_LT(stopwatch.Elapsed(), absl::Seconds(2) + kSlack);
}

TEST_F(FaultTest, AFrozenDaemonBehindAFullConnectionIsATimeout) {
  process_->Freeze();
  // More than the sockets buffer: gRPC cannot send it, nor any call behind it.
  v1::GraphSpec large;
  large.add_tasks()->set_kernel(std::string(3 << 20, 'k'));
  for (int i = 0; i < 3; ++i) {
    Stopwatch stopwatch;
    EXPECT_THAT(session_->Submit(large, {}, kTimeout), HasReason(reason::kClientTimeout));
    EXPECT_LT(stopwatch.Elapsed(), kTimeout + kSlack);
  }
  for (const absl::Status& status : CallEverything(kTimeout)) {
    EXPECT_THAT(status, HasReason(reason::kClientTimeout));
  }
  // When the daemon continues, so do the calls.
  process_->Thaw();
  EXPECT_THAT(session_->CreateBuffer("d", 0, 8), IsOk());
  EXPECT_THAT(buffer_->Write(std::vector<float>{1}), IsOk());
}

TEST_F(FaultTest, AFrozenDaemonBehindAFullConnectionDoesNotKeepUsHere) {
  process_->Freeze();
  v1::GraphSpec large;
  large.add_tasks()->set_kernel(std::string(3 << 20, 'k'));
  EXPECT_THAT(session_->Submit(large, {}, kTimeout), HasReason(reason::kClientTimeout));
  EXPECT_THAT(buffer_->Write(std::vector<float>(4 << 20), 0, kTimeout),
              HasReason(reason::kClientTimeout));
  EXPECT_THAT(launches_->LaunchAndWait(launch_, kTimeout), HasReason(reason::kClientTimeout));
  Stopwatch stopwatch;
  session_.reset();
  events_.reset();
  launches_.reset();
  buffer_.reset();
  client_.reset();
  EXPECT_LT(stopwatch.Elapsed(), absl::Seconds(2) + kSlack);
}

// Like a renewal when its client is destroyed.
TEST_F(FaultTest, ACallBehindAFullConnectionIsGivenUpWhenTold) {
  absl::StatusOr<std::shared_ptr<internal::Core>> core =
      internal::Core::Connect(socket_.address(), {});
  ASSERT_THAT(core, IsOk());
  process_->Freeze();
  v1::SubmitRunRequest large;
  large.mutable_graph()->add_tasks()->set_kernel(std::string(3 << 20, 'k'));
  EXPECT_THAT((*core)->Call("SubmitRun", (*core)->transport().run,
                            &v1::RunService::Stub::PrepareAsyncSubmitRun, large,
                            internal::Deadline::After(kTimeout), internal::Retry::kNever),
              HasReason(reason::kClientTimeout));
  std::atomic<bool> stop = false;
  Stopwatch stopwatch;
  std::thread renewal([&] {
    EXPECT_THAT(
        (*core)->Call("RenewSession", (*core)->transport().session,
                      &v1::SessionService::Stub::PrepareAsyncRenewSession, {},
                      internal::Deadline::After(absl::Seconds(60)), internal::Retry::kOnce, &stop),
        HasReason(reason::kClientTimeout));
  });
  stop = true;
  renewal.join();
  EXPECT_LT(stopwatch.Elapsed(), kSlack);
}

TEST_F(FaultTest, AKilledDaemonIsUnreachable) {
  process_->Kill();
  for (const absl::Status& status : CallEverything(kAmple)) {
    EXPECT_THAT(status, HasReason(reason::kDaemonUnreachable));
  }
  EXPECT_THAT(client_->GetNode(), HasReason(reason::kDaemonUnreachable));
}

TEST_F(FaultTest, ADaemonThatIsKilledDuringACallEndsIt) {
  // Long timeouts: only the death of the daemon can end these calls.
  std::thread event([&] {
    EXPECT_THAT(events_->Next(absl::Seconds(100)), HasReason(reason::kDaemonUnreachable));
  });
  std::thread launch([&] {
    EXPECT_THAT(launches_->Next(absl::Seconds(100)), HasReason(reason::kDaemonUnreachable));
  });
  std::thread wait([&] {
    EXPECT_THAT(session_->GetRun("none").Wait(absl::Seconds(100)),
                HasReason(reason::kDaemonUnreachable));
  });
  // The calls must end, whether they have begun or not.
  process_->Kill();
  Stopwatch stopwatch;
  event.join();
  launch.join();
  wait.join();
  EXPECT_LT(stopwatch.Elapsed(), 3 * kSlack);
}

TEST_F(FaultTest, ARestartedDaemonSaysSo) {
  Start("boot-2");
  // The first call may come while a connection waits for its next attempt; the others then know.
  absl::Status status = session_->CreateBuffer("c", 0, 8).status();
  for (Stopwatch stopwatch;
       ReasonOf(status) == reason::kDaemonUnreachable.name && stopwatch.Elapsed() < kLong;) {
    status = session_->CreateBuffer("c", 0, 8).status();
  }
  EXPECT_THAT(status, HasReason(reason::kBootIdChanged));
  for (const absl::Status& later : CallEverything(kAmple)) {
    EXPECT_THAT(later, HasReason(reason::kBootIdChanged));
  }
  // A new session works.
  absl::StatusOr<Session> session = client_->CreateSession();
  ASSERT_THAT(session, IsOk());
  EXPECT_EQ(session->boot_id(), "boot-2");
}

}  // namespace
}  // namespace pto
