// Open runs whose segments use domains.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/domain/domain.h"
#include "daemon/run/streamed_run.h"
#include "daemon/session/testing/session_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/error.h"
#include "runtime/base/status_matchers.h"

namespace pto::daemon {
namespace {

using ::pto::daemon::testing::SessionTest;
using ::pto::testing::HasReason;
using ::pto::testing::IsOk;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A domain of two ranks, chips 1 and 0, in a session whose runs go on only with RunAll.
class OpenDomainTest : public SessionTest {
 protected:
  OpenDomainTest() {
    limits_.max_session_active_runs = 100;
    session_ = Create("s");
    DomainSpec spec;
    spec.chips = {1, 0};
    spec.buffers = {{"x", PTO_F32, 16}, {"y", PTO_F32, 16}};
    spec.signal_count = 2;
    domain_ = session_->domains().Create("d", spec).value();
  }

  // A run and its graph. What returns a status adds a segment, of one task and of those that were
  // added before.
  struct Open {
    std::shared_ptr<StreamedRun> run;
    std::unique_ptr<engine::OpenGraph> graph;

    void AddTask(const char* kernel, uint32_t tensor,
                 const std::vector<engine::ScalarInput>& scalars) {
      engine::TaskInput task;
      task.kernel = graph->AddKernel(kernel).value();
      task.args = absl::MakeConstSpan(&tensor, 1);
      task.scalars = scalars;
      graph->AddTask(task).value();
    }
    absl::Status Cut() { return run->Append(graph->Cut().value()); }
    absl::Status Signal(const char* kernel, const std::vector<int64_t>& values) {
      std::vector<engine::ScalarInput> scalars(values.size());
      for (size_t i = 0; i < values.size(); ++i) {
        scalars[i].kind = engine::ScalarInput::Kind::kInteger;
        scalars[i].i64 = values[i];
      }
      const uint32_t layout = graph->AddLayout(PTO_I64, {1}, {}).value();
      const uint32_t slot = graph->AddSlot("domains/d/ranks/0/signals");
      AddTask(kernel, graph->AddTensor(slot, layout, 0).value(), scalars);
      return Cut();
    }
    absl::Status AddOne() { return Signal("notify", {PTO_ADD, 1}); }
    absl::Status WaitFor(int64_t value) { return Signal("wait", {PTO_GE, value, 0}); }
    // Of rank 1, which is on chip 0.
    static std::string Window(const std::string& buffer) {
      return absl::StrCat("domains/d/ranks/1/buffers/", buffer);
    }
    // One of the parts of 64 bytes that the slot has.
    void AddFill(const std::string& slot, uint32_t part = 0) {
      const uint32_t layout = graph->AddLayout(PTO_F32, {16}, {}).value();
      AddTask("fill", graph->AddTensor(graph->AddSlot(slot), layout, 16 * part).value(),
              {engine::ScalarInput()});
    }
    absl::Status Fill(const std::string& slot, uint32_t part) {
      AddFill(slot, part);
      return Cut();
    }
    absl::Status Fill(const std::string& buffer) { return Fill(Window(buffer), 0); }
  };
  Open Begin(const std::string& id) {
    Open open;
    RunTerms terms;
    terms.id = id;
    open.run = session_->StartOpenRun(std::move(terms)).value();
    engine::GraphTarget target;
    target.kernels = &BuiltinKernels();
    target.chip_clusters = {2, 2};
    open.graph = std::make_unique<engine::OpenGraph>(target);
    return open;
  }
  static engine::RunState StateOf(const Open& open) { return open.run->Status().state; }
  bool HasRoom(const Open& open) {
    return open.run->AwaitRoom([] {});
  }
  uint64_t UsedBytes() const {
    return engine_->chips()[0]->memory().used_bytes() + engine_->chips()[1]->memory().used_bytes();
  }

  std::shared_ptr<Session> session_;
  std::shared_ptr<Domain> domain_;
};

TEST_F(OpenDomainTest, EverySegmentFindsItsSignalsAtZero) {
  Open open = Begin("o");
  for (uint64_t i = 1; i <= 100; ++i) {
    ASSERT_THAT(open.AddOne(), IsOk());
    RunAll();
    EXPECT_THAT(domain_->ReadSignals(0, 0, 0).value(), ElementsAre(1, 0));
    EXPECT_EQ(domain_->epoch(), i);
  }
  open.run->Close();
  EXPECT_EQ(StateOf(open), engine::RunState::kSucceeded);
}

TEST_F(OpenDomainTest, SegmentsThatUseSignalsTakeTurnsWithEachOtherAndWithRuns) {
  Open first = Begin("first"), second = Begin("second");
  ASSERT_THAT(first.WaitFor(1), IsOk());
  RunAll();
  ASSERT_TRUE(HasRoom(first));
  // It would find the signal that the other segment waits for.
  ASSERT_THAT(first.AddOne(), IsOk());
  ASSERT_THAT(second.AddOne(), IsOk());
  RunAll();
  EXPECT_EQ(engine_->waiting(), 1u);
  EXPECT_FALSE(HasRoom(first));
  EXPECT_FALSE(HasRoom(second));
  EXPECT_EQ(StateOf(second), engine::RunState::kQueued);
  // The second run is told to be behind the first, and no run behind itself.
  EXPECT_EQ(first.run->goes_after(0), 0u);
  EXPECT_EQ(second.run->goes_after(0), first.run->order_number());
  ASSERT_THAT(domain_->Notify(0, 0, PTO_SET, 1), IsOk());
  RunAll();
  EXPECT_TRUE(HasRoom(first));
  EXPECT_TRUE(HasRoom(second));
  EXPECT_EQ(domain_->epoch(), 3u);
  first.run->Close();
  second.run->Close();
  EXPECT_EQ(StateOf(first), engine::RunState::kSucceeded);
  EXPECT_EQ(StateOf(second), engine::RunState::kSucceeded);
}

TEST_F(OpenDomainTest, SegmentsOnBuffersOfWindowsOverlapWithThoseOnSignals) {
  Open waits = Begin("waits"), fills = Begin("fills");
  ASSERT_THAT(waits.WaitFor(1), IsOk());
  RunAll();
  ASSERT_THAT(fills.Fill("x"), IsOk());
  ASSERT_THAT(fills.Fill("y"), IsOk());
  fills.run->Close();
  RunAll();
  EXPECT_EQ(StateOf(fills), engine::RunState::kSucceeded);
  ASSERT_THAT(domain_->Notify(0, 0, PTO_SET, 1), IsOk());
  waits.run->Close();
  RunAll();
  EXPECT_EQ(StateOf(waits), engine::RunState::kSucceeded);
}

TEST_F(OpenDomainTest, ARevocationStopsTheRunWithWhatWaitsAndRefusesMore) {
  Open runs = Begin("runs"), queued = Begin("queued"), between = Begin("between");
  ASSERT_THAT(runs.WaitFor(1), IsOk());
  ASSERT_THAT(queued.WaitFor(1), IsOk());
  ASSERT_THAT(between.Fill("x"), IsOk());
  RunAll();
  domain_->Revoke("lunch");
  RunAll();
  EXPECT_EQ(StateOf(runs), engine::RunState::kFailed);
  ASSERT_FALSE(runs.run->Status().errors.empty());
  EXPECT_THAT(runs.run->Status().errors[0], HasReason(reason::kDomainRevoked));
  // Its turn has come by that.
  EXPECT_EQ(StateOf(queued), engine::RunState::kFailed);
  EXPECT_THAT(queued.run->Status().errors[0], HasReason(reason::kDomainRevoked));
  // What had ended before is not touched.
  EXPECT_EQ(StateOf(between), engine::RunState::kRunning);
  EXPECT_THAT(between.Fill("x"), HasReason(reason::kDomainRevoked));
  between.run->Close();
  EXPECT_EQ(StateOf(between), engine::RunState::kSucceeded);
  // The one that was refused keeps no memory.
  session_->RemoveDomain("d");
  EXPECT_EQ(UsedBytes(), 0u);
}

// Not only when its turn comes, for which a client may wait in vain.
TEST_F(OpenDomainTest, ARevocationStopsARunWhoseSegmentIsQueuedBehindABuffer) {
  ASSERT_THAT(MakeBuffers(*session_, {{"b", 0, 64}}), IsOk());
  Open holds = Begin("holds"), queued = Begin("queued");
  ASSERT_THAT(holds.Fill("b", 0), IsOk());
  queued.AddFill(queued.Window("x"));
  ASSERT_THAT(queued.Fill("b", 0), IsOk());
  EXPECT_FALSE(HasRoom(queued));
  domain_->Revoke("lunch");
  EXPECT_EQ(StateOf(queued), engine::RunState::kFailed);
  ASSERT_FALSE(queued.run->Status().errors.empty());
  EXPECT_THAT(queued.run->Status().errors[0], HasReason(reason::kDomainRevoked));
  EXPECT_TRUE(HasRoom(queued));
  // Its place stays, and what is behind it comes to its turn.
  const auto last = session_->StartRun([&] {
    RunRequest request = FillRequest("last");
    request.bindings = {{"x", "b", 0}};
    return request;
  }());
  ASSERT_THAT(last, IsOk());
  EXPECT_EQ((*last)->Status().state, engine::RunState::kQueued);
  holds.run->Close();
  RunAll();
  EXPECT_EQ(StateOf(holds), engine::RunState::kSucceeded);
  EXPECT_EQ((*last)->Status().state, engine::RunState::kSucceeded);
  session_->RemoveDomain("d");
  session_->RemoveBuffer("b");
  EXPECT_EQ(UsedBytes(), 0u);
}

// Each has begun on its own part of a buffer, and waits to go on with the domain and another's.
TEST_F(OpenDomainTest, ARevocationStopsAChainOfRunsAtOnce) {
  constexpr uint32_t kRuns = 1000;
  limits_.max_session_active_runs = kRuns + 1;
  limits_.max_session_finished_runs = kRuns + 1;
  ASSERT_THAT(MakeBuffers(*session_, {{"b", 0, 64 * (kRuns + 1)}}), IsOk());
  Open first = Begin("first");
  ASSERT_THAT(first.Fill("b", 0), IsOk());
  std::vector<Open> chain;
  for (uint32_t i = 1; i <= kRuns; ++i) {
    Open& open = chain.emplace_back(Begin(absl::StrCat("r", i)));
    ASSERT_THAT(open.Fill("b", i), IsOk());
    ASSERT_TRUE(HasRoom(open));
    open.AddFill(open.Window("x"));
    ASSERT_THAT(open.Fill("b", i - 1), IsOk());
    ASSERT_FALSE(HasRoom(open));
  }
  domain_->Revoke("lunch");
  for (const Open& open : chain) {
    ASSERT_EQ(StateOf(open), engine::RunState::kFailed);
    ASSERT_THAT(open.run->Status().errors[0], HasReason(reason::kDomainRevoked));
  }
  first.run->Close();
  RunAll();
  EXPECT_EQ(StateOf(first), engine::RunState::kSucceeded);
  EXPECT_EQ(engine_->active_runs(), 0u);
}

TEST_F(OpenDomainTest, ASegmentThatLeavesItsSignalsHalfWayRevokes) {
  Open open = Begin("o"), queued = Begin("queued");
  ASSERT_THAT(open.WaitFor(1), IsOk());
  RunAll();
  ASSERT_THAT(queued.WaitFor(1), IsOk());
  // It has not begun, so it left nothing.
  queued.run->Stop(engine::RunState::kCancelled, Error(reason::kRunCancelled, "a test"));
  RunAll();
  EXPECT_THAT(domain_->error(), IsOk());
  open.run->Stop(engine::RunState::kCancelled, Error(reason::kRunCancelled, "another test"));
  RunAll();
  EXPECT_EQ(StateOf(open), engine::RunState::kCancelled);
  EXPECT_THAT(domain_->error(), HasReason(reason::kDomainRevoked));
  EXPECT_THAT(std::string(domain_->error().message()),
              HasSubstr("sessions/s/runs/o used its signals and ended as CANCELLED"));
}

TEST_F(OpenDomainTest, MemoryStaysUntilTheLastSegmentHasEnded) {
  Open runs = Begin("runs"), queued = Begin("queued");
  ASSERT_THAT(runs.WaitFor(1), IsOk());
  ASSERT_THAT(queued.AddOne(), IsOk());
  RunAll();
  EXPECT_EQ(session_->RemoveDomain("d"), domain_);
  EXPECT_GT(UsedBytes(), 0u);
  // It is known to those that have it, also to the one whose turn has not come.
  EXPECT_EQ(domain_->Notify(0, 0, PTO_SET, 1).value(), 1u);
  RunAll();
  EXPECT_EQ(domain_->epoch(), 2u);
  EXPECT_EQ(UsedBytes(), 0u);
  EXPECT_THAT(runs.AddOne(), HasReason(reason::kDomainUnknown));
  runs.run->Close();
  queued.run->Close();
  EXPECT_EQ(StateOf(runs), engine::RunState::kSucceeded);
  EXPECT_EQ(StateOf(queued), engine::RunState::kSucceeded);
}

TEST_F(OpenDomainTest, TheEndOfTheSessionFreesAll) {
  Open runs = Begin("runs"), queued = Begin("queued");
  ASSERT_THAT(runs.WaitFor(1), IsOk());
  ASSERT_THAT(queued.WaitFor(1), IsOk());
  RunAll();
  session_->End("is over");
  RunAll();
  EXPECT_EQ(StateOf(runs), engine::RunState::kCancelled);
  EXPECT_EQ(StateOf(queued), engine::RunState::kCancelled);
  EXPECT_EQ(UsedBytes(), 0u);
}

}  // namespace
}  // namespace pto::daemon
