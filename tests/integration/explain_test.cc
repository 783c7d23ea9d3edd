// A real daemon that is made to stand still says who is stuck and on what.

#include <signal.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "client/client.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/failpoint.h"
#include "runtime/base/status_matchers.h"
#include "tests/harness/daemon_process.h"
#include "tests/harness/ptoctl.h"
#include "tests/integration/world.h"

namespace pto::testing {
namespace {

using ::testing::HasSubstr;

using Response = v1::ExplainRunResponse;

constexpr int64_t kOne[] = {1};
constexpr uint32_t kRanks = 4;

// Set while daemons start.
class Failpoints {
 public:
  explicit Failpoints(const std::string& text) { setenv("PTOD_FAILPOINTS", text.c_str(), 1); }
  ~Failpoints() { unsetenv("PTOD_FAILPOINTS"); }
};

std::string ReadAll(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Every chip tells the next one, and waits for the one before: 4 notifications and 4 waits, with a
// task after each.
class Ring {
 public:
  explicit Ring(const std::string& address)
      : client_(Client::Connect(address).value()), session_(client_.CreateSession().value()) {
    DomainSpec spec;
    spec.id = "ring";
    spec.chips = {0, 1, 2, 3};
    spec.signal_count = 6;
    domain_.emplace(session_.CreateDomain(spec).value());
    GraphBuilder graph;
    graph.ExplicitDependenciesOnly();
    const auto signal = [&](uint32_t rank) {
      return graph.Tensor(absl::StrCat("signal", rank), domain_->Signals(rank).value(), v1::I64,
                          kOne, {}, /*offset=*/5);
    };
    std::vector<TensorRef> signals;
    for (uint32_t rank = 0; rank < kRanks; ++rank) signals.push_back(signal(rank));
    // One after the other, so that it is known which one is dropped.
    TaskRef before = graph.Task("noop", 0, {}).Name("begin");
    for (uint32_t rank = 0; rank < kRanks; ++rank) {
      before =
          graph.Notify(signals[rank], 1, v1::ADD).Name(absl::StrCat("tell-", rank)).After(before);
    }
    for (uint32_t rank = 0; rank < kRanks; ++rank) {
      const TaskRef hear =
          graph.WaitFor(signals[rank], v1::GE, 1).Name(absl::StrCat("hear-", rank));
      graph.Task("noop", rank, {}).Name(absl::StrCat("use-", rank)).After(hear);
    }
    EXPECT_THAT(session_.Register("ring", graph), IsOk());
  }

  pto::Run Launch() { return session_.Launch("ring").value(); }
  const Domain& domain() const { return *domain_; }
  Session& session() { return session_; }

 private:
  Client client_;
  Session session_;
  absl::optional<Domain> domain_;
};

// Asks until the verdict is that one, for two seconds.
Response ExplainUntil(const pto::Run& run, Response::Verdict verdict) {
  const absl::Time deadline = absl::Now() + absl::Seconds(2);
  Response response;
  do {
    const absl::StatusOr<Response> got = run.Explain();
    EXPECT_THAT(got, IsOk());
    if (!got.ok()) break;
    response = *got;
  } while (response.verdict() != verdict && absl::Now() < deadline);
  return response;
}

class ExplainTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!kHasFailpoints) GTEST_SKIP() << "a release build has no failpoints";
  }
};

TEST_F(ExplainTest, ADroppedNotificationOfFourChips) {
  const Failpoints failpoints("engine.notify=drop@2*1");
  DaemonProcess daemon({"--sim-chips=4"});
  Ring ring(daemon.address());
  const pto::Run run = ring.Launch();
  const Response response = ExplainUntil(run, Response::DEADLOCKED);
  ASSERT_EQ(response.verdict(), Response::DEADLOCKED) << response.DebugString();
  EXPECT_EQ(response.run(), run.name());
  EXPECT_EQ(response.state(), v1::Run::RUNNING);
  EXPECT_FALSE(response.inconsistent());
  ASSERT_GE(response.blocked_size(), 2);
  const Response::BlockedTask& wait = response.blocked(0);
  EXPECT_EQ(wait.kind(), Response::BlockedTask::SIGNAL);
  EXPECT_EQ(wait.task_name(), "hear-2");
  EXPECT_EQ(wait.domain(), ring.domain().name());
  EXPECT_EQ(wait.rank(), 2u);
  EXPECT_EQ(wait.signal(), 5u);
  EXPECT_EQ(wait.comparison(), v1::GE);
  EXPECT_TRUE(wait.has_have());
  EXPECT_EQ(wait.have(), 0u);
  EXPECT_EQ(wait.want(), 1u);
  EXPECT_FALSE(wait.can_be_satisfied());
  EXPECT_TRUE(wait.has_age());
  ASSERT_EQ(wait.ended_senders_size(), 1);
  EXPECT_THAT(wait.ended_senders(0), HasSubstr("'tell-2'"));
  EXPECT_THAT(wait.reason(), HasSubstr("signal 5 of rank 2 of domains/ring: have 0, want >= 1"));
  EXPECT_EQ(response.blocked(1).kind(), Response::BlockedTask::PREDECESSORS);
  EXPECT_EQ(response.blocked(1).task_name(), "use-2");

  const ProgramResult shown = RunPtoctl(daemon.address(), {"runs", "explain", run.name()});
  EXPECT_EQ(shown.exit_code, 0) << shown.err;
  EXPECT_THAT(shown.out, HasSubstr("DEADLOCKED"));
  EXPECT_THAT(shown.out, HasSubstr("signal 5 of rank 2 of domains/ring: have 0, want >= 1"));
  EXPECT_THAT(shown.out, HasSubstr("tell-2"));

  // One that is behind it can do nothing either.
  const pto::Run next = ring.Launch();
  const Response behind = ExplainUntil(next, Response::DEADLOCKED);
  EXPECT_EQ(behind.verdict(), Response::DEADLOCKED) << behind.DebugString();
  ASSERT_EQ(behind.blocked_size(), 1);
  EXPECT_EQ(behind.blocked(0).kind(), Response::BlockedTask::TURN);
  EXPECT_FALSE(behind.blocked(0).peer().empty());
  EXPECT_THAT(run.name(), HasSubstr(behind.blocked(0).peer()));

  // A client can help.
  ASSERT_THAT(ring.domain().Notify(2, 5, 1), IsOk());
  EXPECT_EQ(run.Wait()->state(), v1::Run::SUCCEEDED);
  EXPECT_EQ(next.Wait()->state(), v1::Run::SUCCEEDED);
  const absl::StatusOr<Response> ended = run.Explain();
  ASSERT_THAT(ended, IsOk());
  EXPECT_EQ(ended->verdict(), Response::ENDED);
  EXPECT_EQ(ended->state(), v1::Run::SUCCEEDED);
}

TEST_F(ExplainTest, WhileTheSchedulerIsHeld) {
  const std::string release = absl::StrCat(::testing::TempDir(), "/explain-release");
  std::filesystem::remove(release);
  const Failpoints failpoints(absl::StrCat("engine.scheduler=hold:", release, "*1"));
  DaemonProcess daemon({"--sim-chips=4"});
  Ring ring(daemon.address());
  const pto::Run run = ring.Launch();
  const absl::Time before = absl::Now();
  EXPECT_THAT(run.Explain(0, absl::Seconds(2)), IsOk());
  EXPECT_LT(absl::Now() - before, absl::Seconds(2));
  const Response response = ExplainUntil(run, Response::STALLED);
  EXPECT_EQ(response.verdict(), Response::STALLED) << response.DebugString();
  ASSERT_GE(response.blocked_size(), 1);
  bool named = false;
  for (const Response::BlockedTask& task : response.blocked()) {
    named |= task.kind() == Response::BlockedTask::THREAD && task.task_name() == "begin";
  }
  EXPECT_TRUE(named) << response.DebugString();
  // So does a dump.
  daemon.Signal(SIGQUIT);
  EXPECT_TRUE(Eventually([&] { return absl::StrContains(daemon.Log(), "SIGQUIT"); }))
      << daemon.Log();
  std::ofstream(release) << "go";
  EXPECT_EQ(run.Wait()->state(), v1::Run::SUCCEEDED);
  std::filesystem::remove(release);
}

TEST_F(ExplainTest, AStallIsAnEventALogLineAndADump) {
  const Failpoints failpoints("engine.notify=drop*1");
  DaemonProcess daemon({"--sim-chips=4", "--stall-after=200ms"});
  const std::string state = daemon.directory() + "/state";
  daemon.Stop();
  daemon.Restart({"--sim-chips=4", "--stall-after=200ms", "--state-dir=" + state});
  Ring ring(daemon.address());
  const pto::Run run = ring.Launch();
  EventStream events = run.Events().value();
  v1::RunStalled stalled;
  while (stalled.run().empty()) {
    const auto batch = events.Next(absl::Seconds(30));
    ASSERT_THAT(batch, IsOk());
    ASSERT_TRUE(batch->has_value());
    for (const v1::Event& event : (*batch)->events()) {
      if (event.has_stalled()) stalled = event.stalled();
    }
  }
  EXPECT_EQ(stalled.run(), run.name());
  EXPECT_EQ(stalled.verdict(), Response::DEADLOCKED);
  EXPECT_THAT(stalled.summary(), HasSubstr("signal 5 of rank 0"));
  EXPECT_GE(absl::Seconds(stalled.since_last_progress().seconds()) +
                absl::Nanoseconds(stalled.since_last_progress().nanos()),
            absl::Milliseconds(200));
  EXPECT_THAT(daemon.Log(), HasSubstr("run stalled"));
  std::string dump;
  ASSERT_TRUE(Eventually([&] {
    std::error_code error;
    for (const auto& file : std::filesystem::directory_iterator(state + "/dumps", error)) {
      dump = ReadAll(file.path());
    }
    return absl::StrContains(dump, "\"session\"");
  }));
  EXPECT_THAT(dump, HasSubstr("a run has stalled"));
  EXPECT_THAT(dump, HasSubstr("\"chips/3\""));
  EXPECT_THAT(dump, HasSubstr("DEADLOCKED"));
  // The daemon goes on.
  ASSERT_THAT(ring.domain().Notify(0, 5, 1), IsOk());
  EXPECT_EQ(run.Wait()->state(), v1::Run::SUCCEEDED);
}

TEST(ExplainRunningTest, VerdictsOfRunsThatAreWell) {
  DaemonProcess daemon({"--sim-chips=1", "--sim-clusters=1"});
  Client client = Client::Connect(daemon.address()).value();
  Session session = client.CreateSession().value();
  GraphBuilder spin;
  spin.Task("spin", 0, {}).Scalar(int64_t{20'000'000});
  spin.Task("spin", 0, {}).Scalar(int64_t{20'000'000});
  const pto::Run busy = session.Submit(spin).value();
  EXPECT_EQ(ExplainUntil(busy, Response::PROGRESSING).verdict(), Response::PROGRESSING);
  GraphBuilder more;
  more.Task("noop", 0, {});
  const pto::Run waits = session.Submit(more).value();
  const Response capacity = ExplainUntil(waits, Response::WAITING_FOR_CAPACITY);
  EXPECT_EQ(capacity.verdict(), Response::WAITING_FOR_CAPACITY) << capacity.DebugString();
  ASSERT_EQ(capacity.blocked_size(), 1);
  EXPECT_EQ(capacity.blocked(0).have(), 0u);
  EXPECT_THAT(busy.Cancel(), IsOk());
  EXPECT_EQ(waits.Wait()->state(), v1::Run::SUCCEEDED);
}

}  // namespace
}  // namespace pto::testing
