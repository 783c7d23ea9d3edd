#include "daemon/run/streamed_run.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "daemon/session/testing/session_testing.h"
#include "runtime/base/error.h"
#include "runtime/base/status_matchers.h"

namespace pto::daemon {
namespace {

using ::pto::daemon::testing::SessionTest;
using ::pto::testing::HasReason;
using ::pto::testing::IsOk;

// Open runs of fill tasks on buffers `x` and `y` of 64 bytes.
class StreamedRunTest : public SessionTest {
 protected:
  StreamedRunTest() {
    limits_.max_session_live_tasks = 4;
    limits_.max_session_active_runs = 100;
    session_ = Create("a");
    EXPECT_THAT(MakeBuffers(*session_, {{"x", 0, 64}, {"y", 0, 64}}), IsOk());
  }

  // A run and its graph.
  struct Open {
    std::shared_ptr<StreamedRun> run;
    std::unique_ptr<engine::OpenGraph> graph;
    uint32_t fill = 0;
    std::vector<uint32_t> tensors;  // of x and y

    absl::Status Add(const std::vector<uint32_t>& buffers) {
      const engine::ScalarInput value;
      for (const uint32_t buffer : buffers) {
        engine::TaskInput task;
        task.kernel = fill;
        task.args = absl::MakeConstSpan(&tensors[buffer], 1);
        task.scalars = absl::MakeConstSpan(&value, 1);
        graph->AddTask(task).value();
      }
      return run->Append(graph->Cut().value());
    }
  };
  Open Begin(const std::string& id, RunTerms terms = {}) {
    Open open;
    terms.id = id;
    open.run = session_->StartOpenRun(std::move(terms)).value();
    engine::GraphTarget target;
    target.kernels = &BuiltinKernels();
    target.chip_clusters = {2, 2};
    open.graph = std::make_unique<engine::OpenGraph>(target);
    open.fill = open.graph->AddKernel("fill").value();
    const uint32_t layout = open.graph->AddLayout(PTO_F32, {16}, {}).value();
    for (const char* name : {"x", "y"}) {
      open.tensors.push_back(open.graph->AddTensor(open.graph->AddSlot(name), layout, 0).value());
    }
    return open;
  }
  std::shared_ptr<RunEntry> StartFill() { return session_->StartRun(FillRequest()).value(); }
  static engine::RunState StateOf(const RunEntry& entry) { return entry.Status().state; }
  uint32_t InUse(const std::string& buffer) {
    return session_->FindBuffer(buffer).value()->in_use.load();
  }
  uint64_t Ready() const { return engine_->chip_use(0).ready_tasks; }

  std::shared_ptr<Session> session_;
};

TEST_F(StreamedRunTest, ItIsARunOfItsSession) {
  Open open = Begin("o");
  EXPECT_EQ(session_->usage().active_runs, 1u);
  EXPECT_EQ(StateOf(*open.run), engine::RunState::kQueued);
  EXPECT_TRUE(open.run->Status().open);
  ASSERT_THAT(open.Add({0, 0}), IsOk());
  EXPECT_EQ(open.run->Status().tasks_total, 2u);
  EXPECT_EQ(InUse("x"), 1u);
  EXPECT_EQ(InUse("y"), 0u);
  RunAll();
  EXPECT_EQ(InUse("x"), 0u);
  EXPECT_EQ(StateOf(*open.run), engine::RunState::kRunning);
  int told = 0;
  open.run->AddWaiter([&](const RunStatus& status) {
    ++told;
    EXPECT_EQ(status.state, engine::RunState::kSucceeded);
    EXPECT_EQ(status.counts.done, 2u);
    EXPECT_EQ(status.tasks_total, 2u);
    EXPECT_FALSE(status.open);
  });
  open.run->Close();
  EXPECT_EQ(told, 1);
  EXPECT_EQ(session_->usage().active_runs, 0u);
  EXPECT_EQ(session_->FindRun("o").value(), open.run);
  RunTerms again;
  again.id = "o";
  EXPECT_THAT(session_->StartOpenRun(again), HasReason(reason::kRunIdUsed));
}

TEST_F(StreamedRunTest, AStallIsToldAfterWhatItHasDoneAndNotAfterItsEnd) {
  Open open = Begin("o");
  ASSERT_THAT(open.Add({0}), IsOk());
  RunAll();
  open.run->TellStall({}, clock_.WallTime());
  std::vector<LogEntry> events = session_->log().Read(0, 100);
  ASSERT_EQ(events.size(), 4u);
  EXPECT_TRUE(std::holds_alternative<TaskBlock>(events[2].event));
  EXPECT_TRUE(std::holds_alternative<RunStall>(events[3].event));
  open.run->Close();
  open.run->TellStall({}, clock_.WallTime());
  events = session_->log().Read(0, 100);
  ASSERT_EQ(events.size(), 5u);
  EXPECT_EQ(std::get<RunEvent>(events[4].event).state, engine::RunState::kSucceeded);
}

TEST_F(StreamedRunTest, ErrorsThatItDoesNotListAreEventsBeforeItsEnd) {
  constexpr size_t kTasks = 50;
  Open open = Begin("o");
  const uint32_t fail = open.graph->AddKernel("fail").value();
  engine::ScalarInput code;
  code.kind = engine::ScalarInput::Kind::kInteger;
  code.i64 = 1;
  for (size_t i = 0; i < kTasks; ++i) {
    engine::TaskInput task;
    task.kernel = fail;
    task.scalars = absl::MakeConstSpan(&code, 1);
    open.graph->AddTask(task).value();
  }
  ASSERT_THAT(open.run->Append(open.graph->Cut().value()), IsOk());
  RunAll();
  open.run->Close();
  const RunStatus status = open.run->Status();
  EXPECT_EQ(status.state, engine::RunState::kFailed);
  EXPECT_EQ(status.counts.errors_unlisted, kTasks - status.errors.size());
  std::set<std::string> messages;
  for (const absl::Status& error : status.errors) messages.insert(std::string(error.message()));
  const std::vector<LogEntry> events = session_->log().Read(0, 1000);
  for (const LogEntry& entry : events) {
    const auto* errors = std::get_if<RunErrors>(&entry.event);
    if (errors == nullptr) continue;
    EXPECT_EQ(errors->run->id, "o");
    EXPECT_LE(errors->errors->size(), RunErrors::kMost);
    for (const absl::Status& error : *errors->errors) {
      EXPECT_TRUE(messages.insert(std::string(error.message())).second) << error;
    }
  }
  EXPECT_EQ(messages.size(), kTasks);
  EXPECT_TRUE(std::holds_alternative<RunEvent>(events.back().event));
}

TEST_F(StreamedRunTest, SegmentsAndRunsWaitForEachOther) {
  Open open = Begin("o");
  ASSERT_THAT(open.Add({0}), IsOk());
  const auto second = StartFill();  // of x
  EXPECT_EQ(Ready(), 1u);
  // The segments of one run do not wait for each other's turns, but for what came between them.
  ASSERT_THAT(open.Add({1}), IsOk());
  EXPECT_EQ(Ready(), 2u);
  ASSERT_THAT(open.Add({0}), IsOk());
  EXPECT_FALSE(open.run->AwaitRoom([] {}));  // until its turn has come
  EXPECT_EQ(Ready(), 2u);
  const auto last = StartFill();
  RunAll();
  EXPECT_EQ(StateOf(*second), engine::RunState::kSucceeded);
  EXPECT_EQ(StateOf(*last), engine::RunState::kSucceeded);
  // Nobody waits for segments that have not come.
  EXPECT_EQ(StateOf(*StartFill()), engine::RunState::kQueued);
  EXPECT_EQ(Ready(), 1u);
  open.run->Close();
  EXPECT_EQ(StateOf(*open.run), engine::RunState::kSucceeded);
  RunAll();
}

TEST_F(StreamedRunTest, ASegmentThatWaitsIsDroppedWithItsRun) {
  const auto first = StartFill();
  Open open = Begin("o");
  ASSERT_THAT(open.Add({0}), IsOk());
  EXPECT_EQ(InUse("x"), 2u);
  open.run->Stop(engine::RunState::kCancelled, Error(reason::kRunCancelled, "a test"));
  EXPECT_EQ(StateOf(*open.run), engine::RunState::kCancelled);
  EXPECT_EQ(InUse("x"), 1u);
  // Its place is kept.
  const auto last = StartFill();
  EXPECT_EQ(Ready(), 1u);
  RunAll();
  EXPECT_EQ(StateOf(*last), engine::RunState::kSucceeded);
  EXPECT_EQ(session_->usage().active_runs, 0u);
  EXPECT_EQ(InUse("x"), 0u);
}

TEST_F(StreamedRunTest, AFullBudgetHoldsBackAllButThoseThatHaveNothing) {
  Open open = Begin("o"), other = Begin("p");
  int called = 0;
  const auto count = [&] { ++called; };
  EXPECT_TRUE(open.run->AwaitRoom(count));
  ASSERT_THAT(open.Add({0, 0, 0}), IsOk());
  EXPECT_TRUE(open.run->AwaitRoom(count));
  ASSERT_THAT(open.Add({0, 0}), IsOk());
  EXPECT_FALSE(open.run->AwaitRoom(count));
  EXPECT_TRUE(other.run->AwaitRoom(count));
  ASSERT_THAT(other.Add({1}), IsOk());
  int other_called = 0;
  EXPECT_FALSE(other.run->AwaitRoom([&] { ++other_called; }));
  EXPECT_EQ(called + other_called, 0);
  RunAll();
  EXPECT_EQ(called, 1);
  EXPECT_EQ(other_called, 1);
  EXPECT_TRUE(open.run->AwaitRoom(count));
  EXPECT_TRUE(other.run->AwaitRoom(count));
  open.run->Close();
  other.run->Close();
}

// Two sessions of one client that may have three tasks.
class ClientTasksTest : public StreamedRunTest {
 protected:
  ClientTasksTest() {
    limits_.max_sessions = 3;
    limits_.max_client_tasks = 3;
    first_ = Make("first");
    second_ = Make("second");
  }
  std::shared_ptr<Session> Make(const std::string& id) {
    SessionManager::Request request;
    request.id = id;
    request.client = "c";
    std::shared_ptr<Session> session =
        sessions_->Create(auth::Daemon(), std::move(request)).value();
    EXPECT_THAT(MakeBuffers(*session, {{"x", 0, 64}, {"y", 0, 64}}), IsOk());
    return session;
  }
  Open BeginIn(const std::shared_ptr<Session>& session, const std::string& id) {
    session_ = session;
    return Begin(id);
  }

  std::shared_ptr<Session> first_, second_;
};

TEST_F(ClientTasksTest, AFullClientHoldsBackAllItsSessions) {
  Open open = BeginIn(first_, "o"), other = BeginIn(second_, "p");
  int called = 0, other_called = 0;
  ASSERT_THAT(open.Add({0, 0, 0}), IsOk());
  EXPECT_FALSE(open.run->AwaitRoom([&] { ++called; })) << "its session has room, its client not";
  // It has nothing that could end, so one segment of it is taken, even if that is too much.
  ASSERT_TRUE(other.run->AwaitRoom([&] { ++other_called; }));
  ASSERT_THAT(other.Add({1, 1}), IsOk());
  EXPECT_FALSE(other.run->AwaitRoom([&] { ++other_called; }));
  EXPECT_TRUE(other.run->held_back());
  const absl::Status refused = second_->StartRun(FillRequest()).status();
  EXPECT_THAT(refused, HasReason(reason::kQuotaTasks));
  EXPECT_EQ(GetErrorDetail(refused)->quota->limit, 3u);
  EXPECT_EQ(GetErrorDetail(refused)->quota->usage, 5u);
  EXPECT_EQ(GetErrorDetail(refused)->quota->requested, 1u);
  EXPECT_EQ(second_->usage().tasks, 0u);
  EXPECT_EQ(second_->usage().open_tasks, 2u);
  EXPECT_EQ(called + other_called, 0);
  RunAll();
  EXPECT_EQ(called, 1);
  EXPECT_EQ(other_called, 1);
  EXPECT_TRUE(open.run->AwaitRoom([] {}));
  EXPECT_TRUE(other.run->AwaitRoom([] {}));
  EXPECT_EQ(second_->usage().open_tasks, 0u);
  RunRequest whole = FillRequest();
  whole.image = FillGraph(3);
  EXPECT_THAT(second_->StartRun(std::move(whole)), IsOk());
  open.run->Close();
  other.run->Close();
}

TEST_F(ClientTasksTest, TheEndOfARunThatIsNotOpenMakesRoom) {
  RunRequest request = FillRequest();
  request.image = FillGraph(3);
  const std::shared_ptr<RunEntry> run = first_->StartRun(std::move(request)).value();
  Open open = BeginIn(second_, "o");
  int called = 0;
  ASSERT_TRUE(open.run->AwaitRoom([&] { ++called; }));
  ASSERT_THAT(open.Add({0}), IsOk());
  EXPECT_FALSE(open.run->AwaitRoom([&] { ++called; }));
  run->Stop(engine::RunState::kCancelled, absl::CancelledError("enough"));
  EXPECT_EQ(StateOf(*run), engine::RunState::kCancelled);
  EXPECT_EQ(called, 1);
  EXPECT_TRUE(open.run->AwaitRoom([] {})) << "with a task that has not run";
  open.run->Close();
  RunAll();
  EXPECT_EQ(StateOf(*open.run), engine::RunState::kSucceeded);
}

TEST_F(StreamedRunTest, DeadlinesSayWhichOfThemItWas) {
  RunTerms terms;
  terms.queue_timeout_ns = 1'000'000;
  terms.timeout_ns = 5'000'000;
  Open idle = Begin("idle", terms);
  Open busy = Begin("busy", terms);
  ASSERT_THAT(busy.Add({0, 0}), IsOk());
  ASSERT_TRUE(engine_->RunOne());
  clock_.Advance(absl::Milliseconds(2));
  timers_.RunDue();
  EXPECT_EQ(StateOf(*idle.run), engine::RunState::kFailed);
  EXPECT_THAT(idle.run->Status().errors[0], HasReason(reason::kQueueDeadline));
  EXPECT_FALSE(engine::IsFinal(StateOf(*busy.run)));
  clock_.Advance(absl::Milliseconds(4));
  timers_.RunDue();
  RunAll();
  EXPECT_EQ(StateOf(*busy.run), engine::RunState::kFailed);
  EXPECT_THAT(busy.run->Status().errors[0], HasReason(reason::kRunDeadline));
}

TEST_F(StreamedRunTest, TheSessionsEndEndsIt) {
  Open open = Begin("o"), idle = Begin("p");
  ASSERT_THAT(open.Add({0}), IsOk());
  session_->End("test");
  EXPECT_EQ(StateOf(*open.run), engine::RunState::kCancelled);
  EXPECT_EQ(StateOf(*idle.run), engine::RunState::kCancelled);
  EXPECT_TRUE(session_->log().ended());
  EXPECT_THAT(open.Add({0}), HasReason(reason::kSessionEnded));
}

TEST_F(StreamedRunTest, ABufferMustBeThereWhenASegmentUsesIt) {
  Open open = Begin("o");
  ASSERT_THAT(open.Add({0}), IsOk());
  RunAll();
  session_->RemoveBuffer("x");
  EXPECT_THAT(open.Add({0}), HasReason(reason::kBufferUnknown));
  open.run->Stop(engine::RunState::kFailed, Error(reason::kBufferUnknown, "a test"));
  EXPECT_EQ(StateOf(*open.run), engine::RunState::kFailed);
}

TEST_F(StreamedRunTest, ItsSegmentsCanBeLookedAt) {
  Open open = Begin("r");
  EXPECT_TRUE(open.run->graph_parts().empty());
  ASSERT_THAT(open.Add({0, 1}), IsOk());
  RunAll();
  clock_.Advance(absl::Seconds(2));
  ASSERT_THAT(open.Add({0}), IsOk());
  // Whether its tasks have ended or not.
  for (const bool ended : {false, true}) {
    const GraphParts parts = open.run->graph_parts();
    ASSERT_EQ(parts.size(), 2u);
    EXPECT_EQ(parts[0]->end_task(), 2u);
    EXPECT_EQ(parts[0]->submitted_ns, 0);
    EXPECT_EQ(parts[1]->first_task, 2u);
    EXPECT_EQ(parts[1]->submitted_ns, 2'000'000'000);
    EXPECT_EQ(open.run->ended(), ended);
    open.run->Close();
    RunAll();
  }
  RunTerms quiet;
  quiet.record_level = engine::RecordLevel::kFailed;
  open = Begin("quiet", quiet);
  ASSERT_THAT(open.Add({0}), IsOk());
  EXPECT_TRUE(open.run->graph_parts().empty());
  open.run->Close();
  RunAll();
}

}  // namespace
}  // namespace pto::daemon
