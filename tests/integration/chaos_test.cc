// Calls that are refused, lost and broken at random: with run ids every run is executed once, and
// every call ends in time, with a result or an error.

#include <atomic>
#include <cstdint>
#include <functional>
#include <iostream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "client/client.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/error.h"
#include "runtime/base/status_matchers.h"
#include "tests/harness/daemon_process.h"
#include "tests/harness/failpoints.h"
#include "tests/harness/sanitizer.h"

namespace pto::testing {
namespace {

constexpr int kRuns = kAddressSanitizer ? 20 : 60;  // of each kind
constexpr absl::Duration kTimeout = absl::Seconds(20);
// How much a call may exceed its timeout on a busy machine.
constexpr absl::Duration kSlack = absl::Seconds(5);
// For sessions whose client never got the reply.
constexpr absl::Duration kTtl = absl::Seconds(5);

// ---- calls that are repeated until they are answered

struct Attempts {
  std::atomic<uint64_t> calls{0};
  std::atomic<uint64_t> failed{0};
};

// Repeats a call while the daemon is reported as unreachable. Every attempt ends in time.
template <typename F>
auto Insist(Attempts& attempts, const F& call) {
  constexpr int kMost = 200;
  for (int i = 1;; ++i) {
    const absl::Time start = absl::Now();
    auto result = call();
    EXPECT_LT(absl::Now() - start, kTimeout + kSlack);
    ++attempts.calls;
    if (i == kMost || !absl::IsUnavailable(GetStatus(result))) return result;
    ++attempts.failed;
  }
}

// One client with a number on a chip, which each of its runs increments.
class Worker {
  template <typename F>
  auto Insist(const F& call) {
    return testing::Insist(attempts_, call);
  }

 public:
  Worker(const std::string& address, Attempts& attempts)
      : attempts_(attempts),
        client_(Insist([&] {
                  ClientOptions options;
                  options.timeout = kTimeout;
                  return Client::Connect(address, options);
                }).value()),
        session_(Insist([&] { return client_.CreateSession({.ttl = kTtl}); }).value()),
        one_(Make("one")),
        sum_(Make("sum")) {
    EXPECT_THAT(Insist([&] { return one_.Write(std::vector<float>{1}); }), IsOk());
    graph_.Task("axpy", 0, {View(graph_, one_), View(graph_, sum_)}).Scalar(1.0);
  }

  // The ways to run a graph; each returns the number of executed tasks.
  uint64_t Submit(int number, bool packed) {
    const RunOptions options = {.run_id = absl::StrCat("submitted-", number)};
    const absl::StatusOr<pto::Run> run = Insist([&] {
      return packed ? session_.SubmitPacked(graph_, options) : session_.Submit(graph_, options);
    });
    return TasksOf(run);
  }
  uint64_t Launch(int number) {
    if (number == 0) {
      EXPECT_THAT(Insist([&] { return session_.Register("add", graph_); }), IsOk());
    }
    const absl::StatusOr<pto::Run> run = Insist([&] {
      return session_.Launch(
          "add", {.run_id = absl::StrCat("launched-", number), .wait = absl::Seconds(number % 2)});
    });
    return TasksOf(run);
  }
  uint64_t LaunchOnStream(int number) {
    if (number == 0) {
      EXPECT_THAT(Insist([&] { return session_.Register("add", graph_); }), IsOk());
    }
    v1::LaunchGraphRequest request;
    request.set_graph(session_.name() + "/graphs/add");
    request.set_run_id(absl::StrCat("launched-", number));
    // A broken stream is replaced; the same id makes it the same run.
    const absl::StatusOr<v1::LaunchCompletion> completion =
        Insist([&]() -> absl::StatusOr<v1::LaunchCompletion> {
          if (!stream_.has_value()) {
            absl::StatusOr<LaunchStream> opened = session_.OpenLaunchStream();
            if (!opened.ok()) return opened.status();
            stream_.emplace(*std::move(opened));
          }
          absl::StatusOr<v1::LaunchCompletion> ended = stream_->LaunchAndWait(request);
          if (!ended.ok()) stream_.reset();
          return ended;
        });
    EXPECT_THAT(completion, IsOk());
    if (!completion.ok()) return 0;
    EXPECT_THAT(StatusOf(*completion), IsOk());
    return 1;
  }
  // An open run cannot be sent twice, but GetRun returns its outcome.
  uint64_t Stream(int number) {
    const std::string id = absl::StrCat("streamed-", number);
    absl::StatusOr<OpenRun> run = session_.BeginOpenRun({.run_id = id});
    EXPECT_THAT(run, IsOk());
    if (!run.ok()) return 0;
    for (int i = 0; i < 3; ++i) {
      run->graph().Task("axpy", 0, {ViewIn(*run, one_, i), ViewIn(*run, sum_, i)}).Scalar(1.0);
      if (!run->Flush().ok()) break;
    }
    const absl::Time start = absl::Now();
    absl::StatusOr<v1::Run> ended = run->Finish();
    EXPECT_LT(absl::Now() - start, kTimeout + kSlack);
    if (ended.ok() && StatusOf(*ended).ok()) return ended->tasks_done();
    const pto::Run handle = session_.GetRun(id);
    ended = Insist([&] { return handle.Wait(); });
    if (ReasonOf(ended.status()) == reason::kRunUnknown.name) return 0;  // it never arrived
    EXPECT_THAT(ended, IsOk());
    if (!ended.ok()) return 0;
    // A task that was running when its run was cancelled does not count as done.
    uncertain_ += ended->tasks_total() - ended->tasks_done();
    return ended->tasks_done();
  }

  uint64_t uncertain() const { return uncertain_; }

  void ExpectSum(uint64_t want) {
    const absl::StatusOr<std::vector<float>> sum = Insist([&] { return sum_.Read<float>(1); });
    ASSERT_THAT(sum, IsOk());
    EXPECT_GE((*sum)[0], static_cast<float>(want));
    EXPECT_LE((*sum)[0], static_cast<float>(want + uncertain_));
    EXPECT_THAT(Insist([&] { return session_.Close(); }), IsOk());
  }

 private:
  Buffer Make(const std::string& id) {
    return Insist([&] { return session_.CreateBuffer(id, 0, sizeof(float)); }).value();
  }
  static TensorRef View(GraphBuilder& graph, const Buffer& buffer) {
    return graph.Tensor(buffer.id(), buffer, v1::F32, {1});
  }
  static TensorRef ViewIn(OpenRun& run, const Buffer& buffer, int number) {
    return run.graph().Tensor(absl::StrCat(buffer.id(), number), buffer, v1::F32, {1});
  }
  uint64_t TasksOf(const absl::StatusOr<pto::Run>& run) {
    EXPECT_THAT(run, IsOk());
    if (!run.ok()) return 0;
    const absl::StatusOr<v1::Run> ended = Insist([&] { return run->Wait(); });
    EXPECT_THAT(ended, IsOk());
    if (!ended.ok()) return 0;
    EXPECT_THAT(StatusOf(*ended), IsOk());
    return ended->tasks_done();
  }

  Attempts& attempts_;
  Client client_;
  Session session_;
  const Buffer one_;
  const Buffer sum_;
  GraphBuilder graph_;
  absl::optional<LaunchStream> stream_;
  uint64_t uncertain_ = 0;
};

class ChaosTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!kHasFailpoints) GTEST_SKIP() << "a release build has no failpoints";
  }
};

TEST_P(ChaosTest, EveryRunIsExecutedOnce) {
  const DaemonFailpoints failpoints(GetParam());
  DaemonProcess daemon({"--sim-chips=1"});
  Attempts attempts;
  std::atomic<uint64_t> executed{0};
  std::atomic<uint64_t> uncertain{0};
  // The kinds of clients.
  const std::vector<std::function<uint64_t(Worker&, int)>> kinds = {
      [](Worker& worker, int i) { return worker.Submit(i, /*packed=*/false); },
      [](Worker& worker, int i) { return worker.Submit(i, /*packed=*/true); },
      [](Worker& worker, int i) { return worker.Launch(i); },
      [](Worker& worker, int i) { return worker.LaunchOnStream(i); },
      [](Worker& worker, int i) { return worker.Stream(i); },
  };
  {
    std::vector<std::jthread> threads;
    for (const auto& kind : kinds) {
      threads.emplace_back([&] {
        Worker worker(daemon.address(), attempts);
        uint64_t tasks = 0;
        for (int i = 0; i < kRuns; ++i) tasks += kind(worker, i);
        worker.ExpectSum(tasks);
        executed += tasks;
        uncertain += worker.uncertain();
      });
    }
  }
  EXPECT_GE(executed.load(), 4u * kRuns);
  std::cout << GetParam() << ": " << attempts.calls << " calls, of which " << attempts.failed
            << " failed; " << executed << " tasks\n";
  // Every executed run was reported, and no session is left.
  absl::StatusOr<Client> client =
      Insist(attempts, [&] { return Client::Connect(daemon.address()); });
  ASSERT_THAT(client, IsOk());
  const uint64_t completed =
      Insist(attempts, [&] { return client->GetChip("chips/0"); })->completed_tasks();
  EXPECT_GE(completed, executed.load());
  EXPECT_LE(completed, executed + uncertain);
  EXPECT_TRUE(Eventually(
      [&] { return Insist(attempts, [&] { return client->GetNode(); })->session_count() == 0; }));
}

INSTANTIATE_TEST_SUITE_P(Places, ChaosTest,
                         ::testing::Values("rpc.before=error%10", "rpc.before=drop%20",
                                           "rpc.during=drop%10", "rpc.after=error%10",
                                           "rpc.after=drop%20",
                                           "rpc.before=delay:5ms%20,rpc.after=delay:5ms%20",
                                           "rpc.before=drop%7,rpc.during=drop%7,rpc.after=drop%7"));

// ---- one failpoint at a time

class ChaosOnceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!kHasFailpoints) GTEST_SKIP() << "a release build has no failpoints";
  }
};

TEST_F(ChaosOnceTest, AnAnswerThatIsLostTwiceIsAskedForAgain) {
  const DaemonFailpoints failpoints("rpc.after.SubmitRun=drop*2");
  DaemonProcess daemon({"--sim-chips=1"});
  Client client = Client::Connect(daemon.address()).value();
  Session session = client.CreateSession().value();
  GraphBuilder graph;
  graph.Task("noop", 0, {});
  // The library retries once.
  EXPECT_THAT(session.Submit(graph, {.run_id = "once"}), HasReason(reason::kDaemonUnreachable));
  const absl::StatusOr<v1::Run> ended = session.GetRun("once").Wait();
  ASSERT_THAT(ended, IsOk());
  EXPECT_EQ(ended->state(), v1::Run::SUCCEEDED);
  const absl::StatusOr<pto::Run> again = session.Submit(graph, {.run_id = "once"});
  ASSERT_THAT(again, IsOk());
  EXPECT_EQ(again->snapshot().state(), v1::Run::SUCCEEDED);
  EXPECT_EQ(client.GetChip("chips/0")->completed_tasks(), 1u);
  EXPECT_THAT(session.status(), IsOk());
}

TEST_F(ChaosOnceTest, WithoutAnIdALostAnswerIsNotAskedForAgain) {
  const DaemonFailpoints failpoints("rpc.after.SubmitRun=drop*1");
  DaemonProcess daemon({"--sim-chips=1"});
  Client client = Client::Connect(daemon.address()).value();
  Session session = client.CreateSession().value();
  GraphBuilder graph;
  graph.Task("noop", 0, {});
  EXPECT_THAT(session.Submit(graph), HasReason(reason::kDaemonUnreachable));
  EXPECT_TRUE(Eventually([&] { return client.GetNode()->active_run_count() == 0; }));
  EXPECT_EQ(client.GetChip("chips/0")->completed_tasks(), 1u);
}

TEST_F(ChaosOnceTest, ARefusalIsNoExecution) {
  const DaemonFailpoints failpoints("rpc.before.SubmitRun=error*1");
  DaemonProcess daemon({"--sim-chips=1"});
  Client client = Client::Connect(daemon.address()).value();
  Session session = client.CreateSession().value();
  GraphBuilder graph;
  graph.Task("noop", 0, {});
  EXPECT_THAT(session.Submit(graph, {.run_id = "x"}), HasReason(reason::kNodeDraining));
  EXPECT_EQ(client.GetChip("chips/0")->completed_tasks(), 0u);
  EXPECT_THAT(session.GetRun("x").Get(), HasReason(reason::kRunUnknown));
  EXPECT_THAT(session.Submit(graph, {.run_id = "x"}), IsOk());
}

}  // namespace
}  // namespace pto::testing
