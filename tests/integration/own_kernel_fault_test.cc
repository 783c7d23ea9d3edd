// What bad kernels of clients do to their session, and what they must not do to others.

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/client.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/error.h"
#include "runtime/base/status_matchers.h"
#include "tests/harness/daemon_process.h"
#include "tests/harness/holdings.h"
#include "tests/integration/own_kernels.h"

namespace pto::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class OwnKernelFaultTest : public ::testing::Test {
 protected:
  Session MakeSession() {
    absl::StatusOr<Session> session = client_.CreateSession();
    EXPECT_TRUE(session.ok()) << session.status();
    return *std::move(session);
  }
  // A run of one kernel of the test object, which takes a number.
  static absl::Status RunNumber(Session& session, const std::string& kernel, int64_t number) {
    GraphBuilder graph;
    graph.Task(kernel, 0, {}).Scalar(number);
    return RunToEnd(session, graph);
  }
  v1::Host HostOf(const Session& session) {
    const absl::StatusOr<std::vector<v1::Host>> hosts = client_.ListHosts();
    EXPECT_TRUE(hosts.ok()) << hosts.status();
    for (const v1::Host& host : *hosts) {
      if (host.session() == session.name()) return host;
    }
    return v1::Host();
  }
  // Runs whose task writes that it runs, and then does not end.
  struct Spinning {
    pto::Run run;
    Tensor<int64_t> word;
  };
  Spinning StartSpinning(Session& session, const std::string& kernel) {
    absl::StatusOr<Tensor<int64_t>> word = session.CreateTensor<int64_t>(0, {1});
    EXPECT_TRUE(word.ok()) << word.status();
    GraphBuilder graph;
    graph.Task(kernel, 0, {graph.Tensor(*word)});
    absl::StatusOr<pto::Run> run = session.Submit(graph);
    EXPECT_TRUE(run.ok()) << run.status();
    AwaitBlocks(session, 1);
    return {*std::move(run), *std::move(word)};
  }
  // Waits until the host of the session runs so many blocks.
  void AwaitBlocks(const Session& session, uint32_t blocks) {
    const absl::Time until = absl::Now() + absl::Seconds(20);
    while (HostOf(session).running_blocks() != blocks) {
      ASSERT_LT(absl::Now(), until) << "the host does not run " << blocks << " blocks";
    }
  }

  DaemonProcess daemon_;
  Client client_ = ConnectTo(daemon_);
};

TEST_F(OwnKernelFaultTest, ACrashNamesWhatItWasAndTheSessionGoesOn) {
  Session session = MakeSession();
  ASSERT_THAT(RegisterTestKernel(session, "fault"), IsOk());
  ASSERT_THAT(RegisterTestKernel(session, "vector_add"), IsOk());
  const int64_t before = HostOf(session).pid();
  const absl::Status crash = RunNumber(session, "fault", 0);
  EXPECT_THAT(crash, HasReason(reason::kHostLost));
  EXPECT_THAT(std::string(crash.message()),
              AllOf(HasSubstr("SIGSEGV"), HasSubstr("kernel 'fault'"), HasSubstr("task 0"),
                    HasSubstr("block 0"), HasSubstr("chips/0"), HasSubstr("test_store")));
  EXPECT_THAT(AddWith(session, "vector_add"), IsOk());
  const v1::Host host = HostOf(session);
  EXPECT_EQ(host.restarts(), 1u);
  EXPECT_THAT(host.last_death(), HasSubstr("SIGSEGV"));
  EXPECT_NE(host.pid(), before);
  EXPECT_LT(host.last_restart_time().seconds(), 1);
  EXPECT_FALSE(ProcessExists(before));
}

TEST_F(OwnKernelFaultTest, OtherSessionsDoNotNotice) {
  Session good = MakeSession();
  Session bad = MakeSession();
  ASSERT_THAT(RegisterTestKernel(good, "vector_add"), IsOk());
  ASSERT_THAT(RegisterTestKernel(bad, "fault"), IsOk());
  std::atomic<bool> stop{false};
  absl::Status status;
  int runs = 0;
  std::thread others([&] {
    while (!stop && status.ok()) {
      status = AddWith(good, "vector_add");
      ++runs;
    }
  });
  for (const int64_t fault : {0, 2, 3, 4, 5, 8, 9, 11}) {
    EXPECT_THAT(RunNumber(bad, "fault", fault), HasReason(reason::kHostLost)) << fault;
  }
  stop = true;
  others.join();
  EXPECT_THAT(status, IsOk());
  EXPECT_GT(runs, 0);
  EXPECT_EQ(HostOf(good).restarts(), 0u);
  EXPECT_EQ(HostOf(bad).restarts(), 8u);
}

TEST_F(OwnKernelFaultTest, AnEndlessLoopEndsWhenItsRunIsCancelled) {
  Session session = MakeSession();
  ASSERT_THAT(RegisterTestKernel(session, "spin_for_ever"), IsOk());
  ASSERT_THAT(RegisterTestKernel(session, "vector_add"), IsOk());
  const int64_t before = HostOf(session).pid();
  Spinning spinning = StartSpinning(session, "spin_for_ever");
  ASSERT_THAT(spinning.run.Cancel(), IsOk());
  const absl::StatusOr<v1::Run> ended = spinning.run.Wait();
  ASSERT_THAT(ended, IsOk());
  EXPECT_EQ(ended->state(), v1::Run::CANCELLED);
  EXPECT_FALSE(ProcessExists(before));
  EXPECT_THAT(AddWith(session, "vector_add"), IsOk());
}

TEST_F(OwnKernelFaultTest, AKernelThatIsDeletedWhileItRunsEndsItsRun) {
  Session session = MakeSession();
  ASSERT_THAT(RegisterTestKernel(session, "spin"), IsOk());
  Spinning spinning = StartSpinning(session, "spin");
  EXPECT_THAT(session.DeleteKernel("spin"), IsOk());
  ASSERT_THAT(spinning.run.Cancel(), IsOk());
  const absl::StatusOr<v1::Run> ended = spinning.run.Wait();
  ASSERT_THAT(ended, IsOk());
  EXPECT_EQ(ended->state(), v1::Run::CANCELLED);
  EXPECT_EQ(HostOf(session).restarts(), 0u);
}

TEST_F(OwnKernelFaultTest, ASessionThatIsDeletedTakesItsHostAlong) {
  absl::StatusOr<Holdings> baseline = LookAt(daemon_);
  ASSERT_THAT(baseline, IsOk());
  // The client's connection for uploads stays.
  ++baseline->files;
  int64_t pid = 0;
  {
    Session session = MakeSession();
    ASSERT_THAT(RegisterTestKernel(session, "spin_for_ever"), IsOk());
    pid = HostOf(session).pid();
    EXPECT_TRUE(ProcessExists(pid));
    Spinning spinning = StartSpinning(session, "spin_for_ever");
  }
  AwaitBaseline(daemon_, *baseline, absl::Seconds(30));
  EXPECT_FALSE(ProcessExists(pid));
}

TEST_F(OwnKernelFaultTest, FiftyDeathsAndSessionsLeaveNothing) {
  absl::StatusOr<Holdings> baseline = LookAt(daemon_);
  ASSERT_THAT(baseline, IsOk());
  ++baseline->files;
  // What the first session leaves in the allocator counts as the baseline.
  std::unique_ptr<Session> session = std::make_unique<Session>(MakeSession());
  ASSERT_THAT(RegisterTestKernel(*session, "fault"), IsOk());
  EXPECT_THAT(RunNumber(*session, "fault", 0), HasReason(reason::kHostLost));
  session.reset();
  const uint64_t memory = daemon_.ResidentBytes();
  for (int i = 0; i < 10; ++i) {
    session = std::make_unique<Session>(MakeSession());
    ASSERT_THAT(session->CreateTensor<float>(0, {1000}), IsOk());
    ASSERT_THAT(RegisterTestKernel(*session, "fault"), IsOk());
    for (int j = 0; j < 5; ++j) {
      EXPECT_THAT(RunNumber(*session, "fault", 0), HasReason(reason::kHostLost));
    }
    session.reset();
  }
  AwaitBaseline(daemon_, *baseline, absl::Seconds(30));
  EXPECT_LT(daemon_.ResidentBytes(), memory + (uint64_t{8} << 20));
}

TEST_F(OwnKernelFaultTest, AnObjectThatCrashesWhileItIsLoadedIsRefused) {
  Session session = MakeSession();
  ASSERT_THAT(RegisterTestKernel(session, "vector_add"), IsOk());
  KernelOptions options;
  options.entry = "noop";
  EXPECT_THAT(session.RegisterKernel(TestKernels("crash_on_load"), options),
              HasReason(reason::kHostLost));
  EXPECT_THAT(AddWith(session, "vector_add"), IsOk());
}

TEST_F(OwnKernelFaultTest, ADaemonThatStopsEndsItsHostsAndWhatTheyRun) {
  Session session = MakeSession();
  ASSERT_THAT(RegisterTestKernel(session, "spin_for_ever"), IsOk());
  const int64_t pid = HostOf(session).pid();
  Spinning spinning = StartSpinning(session, "spin_for_ever");
  session.Detach();
  daemon_.Stop();
  EXPECT_FALSE(ProcessExists(pid));
}

TEST_F(OwnKernelFaultTest, ADaemonThatIsKilledTakesItsHostsAlong) {
  Session session = MakeSession();
  ASSERT_THAT(RegisterTestKernel(session, "spin_for_ever"), IsOk());
  const int64_t pid = HostOf(session).pid();
  Spinning spinning = StartSpinning(session, "spin_for_ever");
  session.Detach();
  daemon_.Kill();
  const absl::Time until = absl::Now() + absl::Seconds(10);
  while (ProcessExists(pid)) ASSERT_LT(absl::Now(), until) << "the host is still there";
  daemon_.Restart();
  absl::StatusOr<Session> next = ConnectTo(daemon_).CreateSession();
  ASSERT_THAT(next, IsOk());
  EXPECT_THAT(RegisterTestKernel(*next, "vector_add"), IsOk());
  EXPECT_THAT(AddWith(*next, "vector_add"), IsOk());
}

TEST_F(OwnKernelFaultTest, ADomainThatALostHostHasUsedIsRevoked) {
  Session session = MakeSession();
  DomainSpec spec;
  spec.chips = {0, 1};
  spec.buffers = {{.name = "x", .dtype = v1::I64, .count = 8}};
  absl::StatusOr<Domain> domain = session.CreateDomain(spec);
  ASSERT_THAT(domain, IsOk());
  ASSERT_THAT(RegisterTestKernel(session, "add_number"), IsOk());
  ASSERT_THAT(RegisterTestKernel(session, "fault"), IsOk());
  absl::StatusOr<Buffer> window =
      session.GetBuffer(absl::StrCat(domain->name(), "/ranks/0/buffers/x"));
  ASSERT_THAT(window, IsOk());
  GraphBuilder graph;
  graph.Task("add_number", 0, {graph.Tensor("x", *window, v1::I64, {8})}).Scalar(1);
  graph.Task("fault", 0, {}).Scalar(0);
  EXPECT_THAT(RunToEnd(session, graph), HasReason(reason::kHostLost));
  GraphBuilder next;
  next.Task("add_number", 0, {next.Tensor("x", *window, v1::I64, {8})}).Scalar(1);
  const absl::Status revoked = RunToEnd(session, next);
  EXPECT_THAT(revoked, HasReason(reason::kDomainRevoked));
  EXPECT_THAT(std::string(revoked.message()), HasSubstr("SIGSEGV"));
}

}  // namespace
}  // namespace pto::testing
