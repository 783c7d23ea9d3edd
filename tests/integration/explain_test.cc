// A real daemon whose runs are stuck explains which task is stuck, and on what.

#include <signal.h>

#include <filesystem>
#include <fstream>
#include <functional>
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
#include "runtime/base/status_matchers.h"
#include "tests/harness/daemon_process.h"
#include "tests/harness/failpoints.h"
#include "tests/harness/ptoctl.h"
#include "tests/harness/sanitizer.h"
#include "tests/integration/world.h"

namespace pto::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

using Response = v1::ExplainRunResponse;

constexpr int64_t kOne[] = {1};
constexpr uint32_t kRanks = 4;

std::string ReadAll(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Every chip notifies the next one and waits for the previous one: 4 notifications and 4 waits,
// with a task after each.
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
    // Sequential, so that it is known which notification is dropped.
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

// The maximum time until a stall is reported.
constexpr absl::Duration kVerdictTime = absl::Seconds(kAddressSanitizer ? 20 : 2);

// Repeats the request until it returns that verdict, up to kVerdictTime from now. The daemon may
// not have read the first segment of an open run yet; until then it does not know the run.
Response AskUntil(const std::function<absl::StatusOr<Response>()>& ask, Response::Verdict verdict) {
  const absl::Time deadline = absl::Now() + kVerdictTime;
  Response response;
  Eventually([&] {
    const absl::StatusOr<Response> got = ask();
    if (absl::IsNotFound(got.status()) && absl::Now() < deadline) return false;
    EXPECT_THAT(got, IsOk());
    if (!got.ok()) return true;
    response = *got;
    return response.verdict() == verdict || absl::Now() >= deadline;
  });
  return response;
}
Response ExplainUntil(const pto::Run& run, Response::Verdict verdict) {
  return AskUntil([&] { return run.Explain(); }, verdict);
}

// Waits until `tasks` tasks have ended, the last ones before the stall.
void AwaitDone(const pto::Run& run, uint64_t tasks) {
  EXPECT_TRUE(Eventually([&] {
    const absl::StatusOr<v1::Run> now = run.Get();
    EXPECT_THAT(now, IsOk());
    return !now.ok() || now->tasks_done() >= tasks;
  }));
}

// The newest dump that contains this text, if any.
std::string WaitForDump(const std::string& state_dir, const std::string& text) {
  std::string dump;
  EXPECT_TRUE(Eventually([&] {
    std::error_code error;
    for (const auto& file : std::filesystem::directory_iterator(state_dir + "/dumps", error)) {
      dump = ReadAll(file.path());
      if (absl::StrContains(dump, text)) return true;
    }
    return false;
  })) << "no dump has "
      << text;
  return dump;
}

class ExplainTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!kHasFailpoints) GTEST_SKIP() << "a release build has no failpoints";
  }
};

TEST_F(ExplainTest, ADroppedNotificationOfFourChips) {
  const DaemonFailpoints failpoints("engine.notify=drop@2*1");
  DaemonProcess daemon({"--sim-chips=4"});
  Ring ring(daemon.address());
  const pto::Run run = ring.Launch();
  // All except the wait for the dropped notification, and the task behind it.
  AwaitDone(run, 3 * kRanks - 1);
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

  // A waiting client is told without asking, and again at its timeout.
  const ProgramResult waited =
      RunPtoctl(daemon.address(), {"runs", "wait", run.name(), "--timeout", "12s"});
  EXPECT_EQ(waited.exit_code, 4);
  EXPECT_THAT(waited.err, HasSubstr("has made no progress for at least 5 s: DEADLOCKED: "));
  EXPECT_THAT(waited.err,
              HasSubstr(absl::StrCat("timed out waiting for ", run.name(), "; DEADLOCKED: ")));

  // A run behind it is stuck, too.
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
  const DaemonFailpoints failpoints(absl::StrCat("engine.scheduler=hold:", release, "*1"));
  DaemonProcess daemon({"--sim-chips=4"});
  Ring ring(daemon.address());
  const pto::Run run = ring.Launch();
  const absl::Time before = absl::Now();
  EXPECT_THAT(run.Explain(0, kVerdictTime), IsOk());
  EXPECT_LT(absl::Now() - before, kVerdictTime);
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
  const DaemonFailpoints failpoints("engine.notify=drop*1");
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
  EXPECT_TRUE(Eventually([&] { return absl::StrContains(daemon.Log(), "run stalled"); }));
  const std::string dump = WaitForDump(state, "\"session\"");
  EXPECT_THAT(dump, HasSubstr("a run has stalled"));
  EXPECT_THAT(dump, HasSubstr("\"chips/3\""));
  EXPECT_THAT(dump, HasSubstr("DEADLOCKED"));
  // The run can be continued.
  ASSERT_THAT(ring.domain().Notify(0, 5, 1), IsOk());
  EXPECT_EQ(run.Wait()->state(), v1::Run::SUCCEEDED);
}

TEST(ExplainRunningTest, AFailedRunAndSigquitMakeADump) {
  DaemonProcess daemon({"--sim-chips=2"});
  const std::string state = daemon.directory() + "/state";
  daemon.Stop();
  daemon.Restart({"--sim-chips=2", "--state-dir=" + state});
  Client client = Client::Connect(daemon.address()).value();
  Session session = client.CreateSession().value();
  GraphBuilder graph;
  graph.Task("fail", 0, {}).Scalar(int64_t{42});
  const pto::Run failed = session.Submit(graph).value();
  EXPECT_EQ(failed.Wait()->state(), v1::Run::FAILED);
  const std::string dump = WaitForDump(state, "failedRun");
  EXPECT_THAT(dump, HasSubstr("a run has failed"));
  EXPECT_THAT(dump, HasSubstr(failed.name()));
  EXPECT_THAT(dump, HasSubstr("KERNEL_FAILED"));
  daemon.Signal(SIGQUIT);
  EXPECT_THAT(WaitForDump(state, "SIGQUIT"), HasSubstr("\"chips/1\""));
  // The daemon continues.
  EXPECT_EQ(failed.Explain()->verdict(), Response::ENDED);
  // Also if the session belongs to a former boot.
  daemon.Stop();
  daemon.Restart();
  const auto former = client.ExplainRun(failed.name());
  ASSERT_THAT(former, IsOk());
  EXPECT_EQ(former->verdict(), Response::ENDED);
  EXPECT_EQ(former->state(), v1::Run::FAILED);
}

TEST(ExplainRunningTest, WithoutAStateDirectoryAFailedRunIsDumpedToTheLog) {
  DaemonProcess daemon({"--sim-chips=1"});
  Client client = Client::Connect(daemon.address()).value();
  Session session = client.CreateSession().value();
  GraphBuilder graph;
  graph.Task("fail", 0, {}).Scalar(int64_t{42});
  const pto::Run failed = session.Submit(graph).value();
  EXPECT_EQ(failed.Wait()->state(), v1::Run::FAILED);
  EXPECT_TRUE(Eventually([&] { return absl::StrContains(daemon.Log(), "failedRun"); }))
      << daemon.Log();
  EXPECT_TRUE(Eventually([&] { return absl::StrContains(daemon.Log(), "a run has failed"); }));
}

class ExplainOpenRunTest : public ::testing::Test {
 protected:
  ExplainOpenRunTest()
      : daemon_({"--sim-chips=1", "--max-session-live-tasks=4"}),
        client_(Client::Connect(daemon_.address()).value()),
        session_(client_.CreateSession().value()),
        signal_(session_.CreateBuffer("signal", 0, 64).value()),
        data_(session_.CreateTensor<float>(0, {16}).value()) {}

  TensorRef SignalIn(GraphBuilder& graph) { return graph.Tensor("signal", signal_, v1::I64, {}); }
  Response AskAbout(const OpenRun& run, Response::Verdict verdict) {
    return AskUntil([&] { return client_.ExplainRun(run.name()); }, verdict);
  }

  DaemonProcess daemon_;
  Client client_;
  Session session_;
  Buffer signal_;
  Tensor<float> data_;
};

TEST_F(ExplainOpenRunTest, WaitsForTasksThenForItsTurn) {
  OpenRun open = session_.BeginOpenRun().value();
  open.graph().Task("noop", 0, {});
  ASSERT_THAT(open.Flush(), IsOk());
  const Response idle = AskAbout(open, Response::WAITING_FOR_TASKS);
  EXPECT_EQ(idle.verdict(), Response::WAITING_FOR_TASKS) << idle.DebugString();
  // Another run uses the memory that the next tasks need, and is stuck.
  GraphBuilder graph;
  const TaskRef wait = graph.WaitFor(SignalIn(graph), v1::GE, 1);
  const TensorRef own = graph.Tensor(data_);
  graph.Task("scale", 0, {own, own}).Scalar(2.0).After(wait);
  const pto::Run before = session_.Submit(graph).value();
  const TensorRef data = open.graph().Tensor(data_);
  open.graph().Task("scale", 0, {data, data}).Scalar(2.0);
  ASSERT_THAT(open.Flush(), IsOk());
  // The open run is older than the run that its tasks wait for.
  const Response turn = AskAbout(open, Response::WAITING_FOR_TURN);
  EXPECT_EQ(turn.verdict(), Response::WAITING_FOR_TURN) << turn.DebugString();
  ASSERT_EQ(turn.blocked_size(), 1);
  EXPECT_EQ(turn.blocked(0).kind(), Response::BlockedTask::TURN);
  EXPECT_THAT(before.name(), HasSubstr(turn.blocked(0).peer()));
  GraphBuilder help;
  help.Notify(SignalIn(help), 1);
  ASSERT_THAT(session_.Submit(help), IsOk());
  EXPECT_EQ(before.Wait()->state(), v1::Run::SUCCEEDED);
  const auto ended = open.Finish();
  ASSERT_THAT(ended, IsOk());
  EXPECT_EQ(ended->state(), v1::Run::SUCCEEDED);
}

TEST_F(ExplainOpenRunTest, IsDeadlockedWhenNoMoreTasksCanCome) {
  OpenRun open = session_.BeginOpenRun().value();
  const TensorRef signal = SignalIn(open.graph());
  open.graph().WaitFor(signal, v1::GE, 1);
  ASSERT_THAT(open.Flush(), IsOk());
  // Its client may still send a task that notifies the signal.
  Response response = AskAbout(open, Response::WAITING_FOR_NOTIFICATION);
  EXPECT_EQ(response.verdict(), Response::WAITING_FOR_NOTIFICATION) << response.DebugString();
  for (int i = 0; i < 3; ++i) open.graph().WaitFor(signal, v1::GE, 1);
  ASSERT_THAT(open.Flush(), IsOk());
  response = AskAbout(open, Response::DEADLOCKED);
  EXPECT_EQ(response.verdict(), Response::DEADLOCKED) << response.DebugString();
  EXPECT_THAT(response.summary(), HasSubstr("held back"));
  EXPECT_EQ(response.blocked_size(), 4);
  open.Cancel();
}

TEST_F(ExplainOpenRunTest, IsDeadlockedWhenTheSenderIsBehindWhoWaitsForIt) {
  DomainSpec spec;
  spec.id = "d";
  spec.chips = {0};
  spec.signal_count = 1;
  const Domain domain = session_.CreateDomain(spec).value();
  OpenRun open = session_.BeginOpenRun().value();
  const TensorRef signal =
      open.graph().Tensor("s", domain.Signals(0).value(), v1::I64, kOne, {}, /*offset=*/0);
  open.graph().WaitFor(signal, v1::GE, 1);
  ASSERT_THAT(open.Flush(), IsOk());
  // Its client may still help.
  Response response = AskAbout(open, Response::WAITING_FOR_NOTIFICATION);
  EXPECT_EQ(response.verdict(), Response::WAITING_FOR_NOTIFICATION) << response.DebugString();
  // Segments that use signals of one domain take turns, so this one never begins.
  open.graph().Notify(signal, 1);
  ASSERT_THAT(open.Flush(), IsOk());
  response = AskAbout(open, Response::DEADLOCKED);
  ASSERT_EQ(response.verdict(), Response::DEADLOCKED) << response.DebugString();
  ASSERT_EQ(response.blocked_size(), 2) << response.DebugString();
  EXPECT_THAT(response.blocked(0).reason(), HasSubstr("a client may still call Notify"));
  EXPECT_EQ(response.blocked(1).kind(), Response::BlockedTask::TURN);
  EXPECT_FALSE(response.blocked(1).can_be_satisfied());
  EXPECT_THAT(response.blocked(1).reason(), HasSubstr("this run's tasks from number 0 on"));
  ASSERT_THAT(domain.Notify(0, 0, 1), IsOk());
  const auto ended = open.Finish();
  ASSERT_THAT(ended, IsOk());
  EXPECT_EQ(ended->state(), v1::Run::SUCCEEDED);
}

// The only task that would notify comes after the one that waits.
TEST_F(ExplainOpenRunTest, NamesASenderThatComesAfterTheWait) {
  GraphBuilder graph;
  const TensorRef signal = SignalIn(graph);
  const TaskRef hear = graph.WaitFor(signal, v1::GE, 1).Name("hear");
  graph.Notify(signal, 1).Name("tell").After(hear);
  const pto::Run run = session_.Submit(graph).value();
  const Response response = ExplainUntil(run, Response::DEADLOCKED);
  ASSERT_EQ(response.verdict(), Response::DEADLOCKED) << response.DebugString();
  EXPECT_EQ(response.blocked(0).task_name(), "hear");
  EXPECT_THAT(response.blocked(0).peer(), HasSubstr("task 1 'tell'"));
  EXPECT_THAT(response.blocked(0).reason(), HasSubstr("task 1 'tell' would, but comes after"));
  EXPECT_THAT(run.Cancel(), IsOk());
}

TEST_F(ExplainOpenRunTest, SuggestsNotifyForSignalsOfDomainsOnly) {
  GraphBuilder graph;
  graph.WaitFor(SignalIn(graph), v1::GE, 1);
  const pto::Run run = session_.Submit(graph).value();
  const Response response = ExplainUntil(run, Response::DEADLOCKED);
  ASSERT_EQ(response.verdict(), Response::DEADLOCKED) << response.DebugString();
  EXPECT_THAT(response.blocked(0).reason(), Not(HasSubstr("call Notify")));
  EXPECT_THAT(response.blocked(0).reason(), HasSubstr("submit a task that notifies it"));
  // This helps.
  GraphBuilder help;
  help.Notify(SignalIn(help), 1);
  ASSERT_THAT(session_.Submit(help), IsOk());
  EXPECT_EQ(run.Wait()->state(), v1::Run::SUCCEEDED);
}

TEST_F(ExplainOpenRunTest, ARunWithADeadlineIsNotDeadlocked) {
  GraphBuilder graph;
  graph.WaitFor(SignalIn(graph), v1::GE, 1);
  RunOptions options;
  options.timeout = absl::Hours(1);
  const pto::Run run = session_.Submit(graph, options).value();
  const Response response = ExplainUntil(run, Response::WAITING_FOR_NOTIFICATION);
  EXPECT_EQ(response.verdict(), Response::WAITING_FOR_NOTIFICATION) << response.DebugString();
  EXPECT_THAT(run.Cancel(), IsOk());
}

// The only task that would notify needs a core, and the tasks that wait keep all of them.
TEST(ExplainRunningTest, NamesASenderThatGetsNoCore) {
  DaemonProcess daemon({"--sim-chips=1", "--sim-clusters=1"});
  Client client = Client::Connect(daemon.address()).value();
  Session session = client.CreateSession().value();
  const Buffer signal = session.CreateBuffer("signal", 0, 64).value();
  const auto signal_in = [&](GraphBuilder& graph) {
    return graph.Tensor("signal", signal, v1::I64, {});
  };
  GraphBuilder keep;
  keep.Task("hold", 0, {signal_in(keep)}).Scalar(1).Blocks(2).Name("keep");
  const pto::Run waits = session.Submit(keep).value();
  EXPECT_EQ(ExplainUntil(waits, Response::DEADLOCKED).verdict(), Response::DEADLOCKED);
  // Rank 0 of one notifies in phase 0 and fails.
  GraphBuilder tell;
  tell.Group("falter", {{0, {signal_in(tell)}}}).Scalar(0).Scalar(0).Scalar(1).Name("tell");
  const pto::Run sends = session.Submit(tell).value();
  Response response;
  EXPECT_TRUE(Eventually([&] {
    response = waits.Explain().value();
    return !response.blocked(0).peer().empty();
  }));
  EXPECT_EQ(response.verdict(), Response::DEADLOCKED) << response.DebugString();
  EXPECT_THAT(response.blocked(0).peer(), HasSubstr("task 0 'tell'")) << response.DebugString();
  EXPECT_THAT(response.blocked(0).reason(), HasSubstr("task 0 'tell' would, but gets no core"));
  EXPECT_THAT(waits.Cancel(), IsOk());
  EXPECT_EQ(sends.Wait()->state(), v1::Run::FAILED);
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
  // The second run may need a moment to get a thread.
  Response capacity;
  for (const absl::Time until = absl::Now() + absl::Seconds(20); absl::Now() < until;) {
    capacity = ExplainUntil(waits, Response::WAITING_FOR_CAPACITY);
    if (capacity.blocked_size() == 1 && capacity.blocked(0).have() == 0) break;
  }
  EXPECT_EQ(capacity.verdict(), Response::WAITING_FOR_CAPACITY) << capacity.DebugString();
  ASSERT_EQ(capacity.blocked_size(), 1);
  EXPECT_EQ(capacity.blocked(0).have(), 0u);
  EXPECT_THAT(busy.Cancel(), IsOk());
  EXPECT_EQ(waits.Wait()->state(), v1::Run::SUCCEEDED);
}

}  // namespace
}  // namespace pto::testing
