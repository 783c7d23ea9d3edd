// Runs of a real daemon that are cancelled at every boundary of 200 tasks, and during every kind of
// wait: each ends soon as CANCELLED or SUCCEEDED, and leaves nothing behind.

#include <algorithm>
#include <iostream>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "client/client.h"
#include "client/domain.h"
#include "client/open_run.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/status_matchers.h"
#include "tests/harness/daemon_process.h"
#include "tests/harness/holdings.h"
#include "tests/harness/sanitizer.h"

namespace pto::testing {
namespace {

constexpr int kTasks = 200;
// For each kind of wait; with the boundaries, more than 1,000 runs in total.
constexpr int kRuns = 60;
constexpr absl::Duration kGrace = kAddressSanitizer ? absl::Seconds(30) : absl::Seconds(10);
constexpr uint32_t kClusters = 4;
constexpr int64_t kOne[] = {1};
// Large enough to be cancelled in the middle.
constexpr int64_t kMany = 1 << 20;

class CancelTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    daemon_ = new DaemonProcess({"--sim-chips=2", absl::StrCat("--sim-clusters=", kClusters)});
    baseline_ = new Holdings(LookAt(*daemon_).value());
  }
  static void TearDownTestSuite() {
    std::cout << cancelled_ << " runs were cancelled, " << succeeded_
              << " had succeeded before; the longest end took " << longest_ << "\n";
    delete baseline_;
    delete daemon_;
    daemon_ = nullptr;
  }

  CancelTest()
      : client_(Client::Connect(daemon_->address()).value()),
        session_(client_.CreateSession().value()),
        signal_(session_.CreateBuffer("signal", 0, 64).value()) {}

  // A run that needs every core of the same chips works, and then nothing is left.
  void TearDown() override {
    GraphBuilder graph;
    for (uint32_t chip = 0; chip < 2; ++chip) {
      graph.Task("noop", chip, {}).Blocks(2 * kClusters).SyncStart();
    }
    const absl::StatusOr<pto::Run> run = session_.Submit(graph, {.wait = absl::Seconds(30)});
    ASSERT_THAT(run, IsOk());
    EXPECT_EQ(run->snapshot().state(), v1::Run::SUCCEEDED);
    EXPECT_THAT(signal_.Read<int64_t>(1), IsOk());  // not in use
    EXPECT_THAT(session_.Close(), IsOk());
    // The client's own connections remain until it is destroyed.
    Holdings baseline = *baseline_;
    baseline.files += 8;
    AwaitBaseline(*daemon_, baseline, kGrace);
  }

  TensorRef Signal(GraphBuilder& graph) { return graph.Tensor("signal", signal_, v1::I64, kOne); }

  // Cancels the run, which must end soon. Returns its final state.
  v1::Run Cancel(const pto::Run& run) {
    const absl::Time start = absl::Now();
    EXPECT_THAT(run.Cancel("by the test"), IsOk());
    const absl::StatusOr<v1::Run> ended = run.Wait(kGrace);
    longest_ = std::max(longest_, absl::Now() - start);
    EXPECT_THAT(ended, IsOk());
    if (!ended.ok()) return {};
    EXPECT_TRUE(ended->state() == v1::Run::CANCELLED || ended->state() == v1::Run::SUCCEEDED)
        << ended->DebugString();
    ++(ended->state() == v1::Run::CANCELLED ? cancelled_ : succeeded_);
    return *ended;
  }

  static bool HasDone(const pto::Run& run, uint64_t tasks) {
    return Eventually([&] { return run.Get()->tasks_done() >= tasks; });
  }
  // Waits until the run's only task waits.
  static bool IsRunning(const pto::Run& run) {
    return Eventually([&] { return run.Get()->state() == v1::Run::RUNNING; });
  }

  // Submits the graph repeatedly, and cancels it while it waits forever.
  void CancelWaits(const GraphBuilder& graph) {
    ASSERT_THAT(graph.status(), IsOk());
    for (int i = 0; i < kRuns; ++i) {
      const absl::StatusOr<pto::Run> run = session_.Submit(graph);
      ASSERT_THAT(run, IsOk());
      // Every other one possibly before it has begun.
      if (i % 2 == 0) {
        ASSERT_TRUE(IsRunning(*run));
      }
      ASSERT_EQ(Cancel(*run).state(), v1::Run::CANCELLED);
    }
  }
  // The same at a random time of a run that ends by itself.
  void CancelWork(const GraphBuilder& graph) {
    ASSERT_THAT(graph.status(), IsOk());
    const absl::Time before = absl::Now();
    ASSERT_THAT(session_.Submit(graph, {.wait = absl::Seconds(60)}), IsOk());
    const absl::Duration whole = absl::Now() - before;
    for (int i = 0; i < kRuns; ++i) {
      const absl::StatusOr<pto::Run> run = session_.Submit(graph);
      ASSERT_THAT(run, IsOk());
      absl::SleepFor(whole * std::uniform_real_distribution<double>(0, 1)(random_));
      Cancel(*run);
    }
  }

  // Two ranks with large buffers `in` and `out`.
  Domain MakeDomain() {
    DomainSpec spec;
    spec.chips = {0, 1};
    spec.buffers = {{"in", v1::F32, kMany}, {"out", v1::F32, kMany}};
    spec.signal_count = 1;
    return session_.CreateDomain(spec).value();
  }
  static TensorRef Window(GraphBuilder& graph, const Domain& domain, uint32_t rank,
                          const char* name) {
    return graph.Tensor(absl::StrCat(name, rank), domain.Window(rank, name).value(), v1::F32,
                        {kMany});
  }

  inline static DaemonProcess* daemon_ = nullptr;
  inline static Holdings* baseline_ = nullptr;
  inline static int cancelled_ = 0;
  inline static int succeeded_ = 0;
  inline static absl::Duration longest_;
  Client client_;
  Session session_;
  const Buffer signal_;
  std::mt19937 random_{11};
};

// ---- boundaries

// When the run is cancelled, all tasks before the gate have ended, and none after it has begun.
TEST_F(CancelTest, AtEveryBoundaryOfAChain) {
  for (int gate = 0; gate < kTasks; ++gate) {
    GraphBuilder graph;
    absl::optional<TaskRef> before;
    for (int i = 0; i < kTasks; ++i) {
      TaskRef task = i == gate ? graph.WaitFor(Signal(graph), v1::GE, 1)
                               : graph.Task("noop", static_cast<uint32_t>(i % 2), {});
      if (before.has_value()) task.After(*before);
      before = task;
    }
    const absl::StatusOr<pto::Run> run = session_.Submit(graph);
    ASSERT_THAT(run, IsOk());
    ASSERT_TRUE(HasDone(*run, static_cast<uint64_t>(gate)));
    const v1::Run ended = Cancel(*run);
    ASSERT_EQ(ended.state(), v1::Run::CANCELLED);
    ASSERT_EQ(ended.tasks_done(), static_cast<uint64_t>(gate));
  }
}

// Layers of ten tasks; each task waits for the whole previous layer.
TEST_F(CancelTest, AtEveryBoundaryOfLayers) {
  constexpr int kLayer = 10;
  for (int gate = 0; gate < kTasks; ++gate) {
    GraphBuilder graph;
    std::vector<TaskRef> tasks;
    absl::optional<TaskRef> wait;
    for (int i = 0; i < kTasks; ++i) {
      if (i == gate) {
        wait = graph.WaitFor(Signal(graph), v1::GE, 1);
        for (const TaskRef& task : tasks) wait->After(task);
        tasks.push_back(*wait);
        continue;
      }
      TaskRef task = graph.Task("noop", static_cast<uint32_t>(i % 2), {});
      const int end = i / kLayer * kLayer;
      for (int j = std::max(0, end - kLayer); j < end; ++j) {
        if (j != gate) task.After(tasks[static_cast<size_t>(j)]);
      }
      if (wait.has_value()) task.After(*wait);
      tasks.push_back(task);
    }
    const absl::StatusOr<pto::Run> run = session_.SubmitPacked(graph);
    ASSERT_THAT(run, IsOk());
    ASSERT_TRUE(HasDone(*run, static_cast<uint64_t>(gate)));
    const v1::Run ended = Cancel(*run);
    ASSERT_EQ(ended.state(), v1::Run::CANCELLED);
    ASSERT_EQ(ended.tasks_done(), static_cast<uint64_t>(gate));
  }
}

TEST_F(CancelTest, AtAnyTimeOfShortTasks) {
  GraphBuilder graph;
  for (int i = 0; i < kTasks; ++i) {
    graph.Task("spin", static_cast<uint32_t>(i % 2), {}).Scalar(int64_t{50}).Blocks(2);
  }
  CancelWork(graph);
}

// ---- waits

TEST_F(CancelTest, WhileATaskWaitsForANotification) {
  GraphBuilder graph;
  const TaskRef wait = graph.WaitFor(Signal(graph), v1::GE, 1);
  graph.Task("noop", 0, {}).After(wait);
  CancelWaits(graph);
}

TEST_F(CancelTest, WhileATokenIsWaitedFor) {
  const Buffer token = session_.CreateBuffer("token", 1, 64).value();
  GraphBuilder graph;
  const TensorRef view = graph.Tensor("token", token, v1::I64, kOne);
  graph.WaitFor(Signal(graph), view, v1::GE, 1);
  graph.Task("fill", 1, {view}).Scalar(1.0);
  CancelWaits(graph);
}

TEST_F(CancelTest, WhileAKernelSleepsOnItsCore) {
  GraphBuilder graph;
  graph.Task("hold", 0, {Signal(graph)}).Scalar(1).Blocks(3);
  CancelWaits(graph);
}

TEST_F(CancelTest, WhileAGangHoldsAllCores) {
  GraphBuilder graph;
  graph.Task("hold", 0, {Signal(graph)}).Scalar(1).Blocks(2 * kClusters).SyncStart();
  CancelWaits(graph);
}

TEST_F(CancelTest, WhileAGangOverTwoChipsWaits) {
  const Buffer other = session_.CreateBuffer("other", 1, 64).value();
  GraphBuilder graph;
  graph.Group("hold", {{0, {Signal(graph)}}, {1, {graph.Tensor("other", other, v1::I64, kOne)}}})
      .Scalar(1)
      .Blocks(2 * kClusters)
      .SyncStart();
  CancelWaits(graph);
}

TEST_F(CancelTest, WhileAGangWaitsForItsCores) {
  GraphBuilder holds;
  holds.Task("hold", 0, {Signal(holds)}).Scalar(1);
  GraphBuilder gang;
  gang.Task("noop", 0, {}).Blocks(2 * kClusters).SyncStart();
  for (int i = 0; i < kRuns; ++i) {
    const pto::Run first = session_.Submit(holds).value();
    ASSERT_TRUE(IsRunning(first));
    const pto::Run second = session_.Submit(gang).value();
    // Alternately cancels the run that has no cores yet, and first the one that has one.
    if (i % 2 == 0) {
      ASSERT_EQ(Cancel(second).state(), v1::Run::CANCELLED);
    }
    ASSERT_EQ(Cancel(first).state(), v1::Run::CANCELLED);
    if (i % 2 != 0) {
      ASSERT_EQ(second.Wait(kGrace)->state(), v1::Run::SUCCEEDED);
    }
  }
}

TEST_F(CancelTest, WhileARunWaitsForAnotherOne) {
  const Buffer shared = session_.CreateBuffer("shared", 0, 64).value();
  GraphBuilder graph;
  const TensorRef out = graph.Tensor("out", shared, v1::F32, kOne);
  const TaskRef wait = graph.WaitFor(Signal(graph), v1::GE, 1);
  graph.Task("fill", 0, {out}).Scalar(1.0).After(wait);
  for (int i = 0; i < kRuns / 2; ++i) {
    const pto::Run first = session_.Submit(graph).value();
    const pto::Run second = session_.Submit(graph).value();
    ASSERT_TRUE(IsRunning(first));
    ASSERT_EQ(Cancel(second).state(), v1::Run::CANCELLED);
    ASSERT_EQ(Cancel(first).state(), v1::Run::CANCELLED);
  }
}

TEST_F(CancelTest, WhileASignalOfADomainIsWaitedFor) {
  for (int i = 0; i < kRuns; ++i) {
    const Domain domain = MakeDomain();
    GraphBuilder graph;
    const TensorRef signal = graph.Tensor("own", domain.Signals(1).value(), v1::I64, kOne);
    graph.WaitFor(signal, v1::GE, 1);
    graph.Task("hold", 1, {signal}).Scalar(1);
    const pto::Run run = session_.Submit(graph).value();
    if (i % 2 == 0) {
      ASSERT_TRUE(IsRunning(run));
    }
    ASSERT_EQ(Cancel(run).state(), v1::Run::CANCELLED);
    ASSERT_THAT(domain.Delete(), IsOk());
  }
}

// ---- long operations

TEST_F(CancelTest, DuringCollectives) {
  const Domain domain = MakeDomain();
  GraphBuilder graph;
  std::vector<GroupMember> members;
  for (uint32_t rank = 0; rank < 2; ++rank) {
    members.push_back(
        {rank, {Window(graph, domain, rank, "in"), Window(graph, domain, rank, "out")}});
  }
  for (int64_t i = 0; i < 8; ++i) {
    graph.Group("all_reduce", members).Scalar(1).Scalar(1 + i % 4).Scalar(0).Blocks(2);
    graph.Group("barrier", {{0, {}}, {1, {}}});
  }
  CancelWork(graph);
}

TEST_F(CancelTest, DuringCopiesBetweenChips) {
  const Domain domain = MakeDomain();
  GraphBuilder graph;
  const TensorRef left = Window(graph, domain, 0, "in");
  const TensorRef right = Window(graph, domain, 1, "in");
  for (int i = 0; i < 8; ++i) {
    graph.Copy(right, left);
    graph.Copy(left, right);
  }
  CancelWork(graph);
}

TEST_F(CancelTest, OpenRuns) {
  for (int i = 0; i < kRuns; ++i) {
    OpenRun open = session_.BeginOpenRun().value();
    open.graph().Task("noop", 0, {});
    ASSERT_THAT(open.Flush(), IsOk());
    const TaskRef hold = open.graph().Task("hold", 0, {Signal(open.graph())}).Scalar(1);
    open.graph().Task("noop", 1, {}).After(hold);
    ASSERT_THAT(open.Flush(), IsOk());
    const pto::Run run = session_.GetRun(open.name());
    ASSERT_TRUE(Eventually([&] {
      const absl::StatusOr<v1::Run> now = run.Get();
      return now.ok() && now->tasks_total() == 3 && now->tasks_done() == 1;
    }));
    if (i % 2 == 0) {
      ASSERT_EQ(Cancel(run).state(), v1::Run::CANCELLED);
      const absl::StatusOr<v1::Run> answer = open.Finish(kGrace);
      ASSERT_THAT(answer, IsOk());
      ASSERT_EQ(answer->state(), v1::Run::CANCELLED);
    } else {
      open.Cancel();
      const absl::StatusOr<v1::Run> ended = run.Wait(kGrace);
      ASSERT_THAT(ended, IsOk());
      ASSERT_EQ(ended->state(), v1::Run::CANCELLED);
      ++cancelled_;
    }
  }
}

}  // namespace
}  // namespace pto::testing
