#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "daemon/session/testing/session_testing.h"
#include "runtime/base/error.h"
#include "runtime/base/sanitized.h"
#include "runtime/base/status_matchers.h"
#include "runtime/engine/testing/small_stack.h"

namespace pto::daemon {
namespace {

using ::pto::daemon::testing::SessionTest;
using ::pto::testing::HasReason;
using ::pto::testing::IsOk;

// Runs of one session on the same bytes have their turns one after the other.
class RunOrderTest : public SessionTest {
 protected:
  RunOrderTest() {
    limits_.max_session_active_runs = 200'000;
    limits_.max_session_finished_runs = 200'000;
    session_ = Create("a");
    EXPECT_THAT(MakeBuffers(*session_, {{"x", 0, 64}, {"y", 0, 256}}), IsOk());
  }

  std::shared_ptr<RunEntry> Start(std::vector<SlotBinding> bindings = {}, int64_t timeout_ns = 0) {
    RunRequest request = FillRequest();
    request.bindings = std::move(bindings);
    request.timeout_ns = timeout_ns;
    return session_->StartRun(std::move(request)).value();
  }
  // Runs that have begun: each has one task, which waits.
  uint64_t Begun() const { return engine_->chip_use(0).ready_tasks; }
  static engine::RunState StateOf(const std::shared_ptr<RunEntry>& entry) {
    return entry->Status().state;
  }
  void Cancel(const std::shared_ptr<RunEntry>& entry) {
    entry->Stop(engine::RunState::kCancelled, Error(reason::kRunCancelled, "a test"));
  }

  std::shared_ptr<Session> session_;
};

TEST_F(RunOrderTest, ARunWaitsForEarlierOnesOnTheSameBytes) {
  const auto first = Start(), second = Start();
  EXPECT_EQ(Begun(), 1u);
  EXPECT_EQ(StateOf(second), engine::RunState::kQueued);
  // Told at once.
  EXPECT_EQ(session_->log().last_sequence(), 2u);
  RunAll();
  EXPECT_EQ(StateOf(first), engine::RunState::kSucceeded);
  EXPECT_EQ(StateOf(second), engine::RunState::kSucceeded);
  std::vector<std::pair<std::string, engine::RunState>> states;
  for (const LogEntry& entry : session_->log().Read(0, 100)) {
    if (const auto* event = std::get_if<RunEvent>(&entry.event)) {
      states.emplace_back(event->run->id, event->state);
    }
  }
  EXPECT_EQ(states, (std::vector<std::pair<std::string, engine::RunState>>{
                        {"r-1", engine::RunState::kQueued},
                        {"r-2", engine::RunState::kQueued},
                        {"r-1", engine::RunState::kRunning},
                        {"r-1", engine::RunState::kSucceeded},
                        {"r-2", engine::RunState::kRunning},
                        {"r-2", engine::RunState::kSucceeded}}));
}

TEST_F(RunOrderTest, OtherBytesAndOtherSessionsAreNoReasonToWait) {
  Start();
  Start({{"x", "y", 0}});
  Start({{"x", "y", 64}});
  EXPECT_EQ(Begun(), 3u);
  Start({{"x", "y", 60}});
  EXPECT_EQ(Begun(), 3u);
  const std::shared_ptr<Session> other = Create("b");
  ASSERT_THAT(MakeBuffers(*other, {{"x", 0, 64}}), IsOk());
  ASSERT_THAT(other->StartRun(FillRequest()), IsOk());
  EXPECT_EQ(Begun(), 4u);
  RunAll();
}

TEST_F(RunOrderTest, OneThatIsStoppedEndsAtOnceAndKeepsTheOrder) {
  const auto first = Start(), second = Start(), third = Start({}, 1'000'000), last = Start();
  Cancel(second);
  EXPECT_EQ(StateOf(second), engine::RunState::kCancelled);
  clock_.Advance(absl::Milliseconds(2));
  timers_.RunDue();
  EXPECT_EQ(StateOf(third), engine::RunState::kFailed);
  EXPECT_THAT(third->Status().errors[0], HasReason(reason::kRunDeadline));
  EXPECT_EQ(StateOf(last), engine::RunState::kQueued);
  EXPECT_EQ(Begun(), 1u);
  const auto newer = Start();
  EXPECT_EQ(Begun(), 1u);
  Cancel(first);
  EXPECT_EQ(Begun(), 1u);  // the last
  RunAll();
  EXPECT_EQ(StateOf(last), engine::RunState::kSucceeded);
  EXPECT_EQ(StateOf(newer), engine::RunState::kSucceeded);
  EXPECT_EQ(session_->usage().active_runs, 0u);
}

TEST_F(RunOrderTest, ARunThatWaitsIsNotHelped) {
  RunRequest request;
  request.graph = session_->AddGraph("g", Digest{}, FillGraph()).value();
  request.image = request.graph->image;
  request.graph->last_run_ns = 1;  // known to be short
  request.help = true;
  const auto first = Start();
  const std::shared_ptr<RunEntry> entry = session_->StartRun(request).value();
  EXPECT_EQ(StateOf(entry), engine::RunState::kQueued);
  EXPECT_EQ(session_->log().last_sequence(), 2u);
  RunAll();
  EXPECT_EQ(StateOf(entry), engine::RunState::kSucceeded);
  EXPECT_EQ(StateOf(session_->StartRun(request).value()), engine::RunState::kSucceeded);
}

TEST_F(RunOrderTest, ARunIsAnsweredBeforeLaterOnesBegin) {
  // The second run is launched while the first one is being answered, and could run at once.
  RunRequest request;
  request.graph = session_->AddGraph("g", Digest{}, FillGraph()).value();
  request.image = request.graph->image;
  request.graph->last_run_ns = 1;  // known to be short
  request.help = true;
  const std::shared_ptr<RunEntry> first = Start();
  std::shared_ptr<RunEntry> second;
  first->AddWaiter([&](const RunStatus&) {
    second = session_->StartRun(request).value();
    EXPECT_EQ(StateOf(second), engine::RunState::kQueued);
  });
  RunAll();
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(StateOf(second), engine::RunState::kSucceeded);
}

TEST_F(RunOrderTest, ThousandsInARow) {
  std::vector<std::shared_ptr<RunEntry>> runs;
  for (int i = 0; i < 10'000; ++i) runs.push_back(Start());
  EXPECT_EQ(Begun(), 1u);
  RunAll();
  for (const auto& run : runs) ASSERT_EQ(StateOf(run), engine::RunState::kSucceeded);
  // And when the session ends.
  runs.clear();
  for (int i = 0; i < 10'000; ++i) runs.push_back(Start());
  session_->End("test");
  for (const auto& run : runs) ASSERT_EQ(StateOf(run), engine::RunState::kCancelled);
  EXPECT_TRUE(session_->log().ended());
}

// Each run ends while it waits for its turn, and lets the next one pass.
TEST_F(RunOrderTest, ManyThatHaveNotBegunPassWithoutDeepCalls) {
  constexpr int kRuns = kSanitized ? 10'000 : 100'000;
  const auto first = Start();
  std::vector<std::shared_ptr<RunEntry>> stopped;
  for (int i = 0; i < kRuns; ++i) {
    stopped.push_back(Start());
    Cancel(stopped.back());
    ASSERT_EQ(StateOf(stopped.back()), engine::RunState::kCancelled);
  }
  const auto last = Start();
  EXPECT_EQ(Begun(), 1u);
  EXPECT_EQ(StateOf(last), engine::RunState::kQueued);
  engine::testing::OnSmallStack([&] { RunAll(); });
  EXPECT_EQ(StateOf(first), engine::RunState::kSucceeded);
  EXPECT_EQ(StateOf(last), engine::RunState::kSucceeded);
  EXPECT_EQ(session_->usage().active_runs, 0u);
}

TEST_F(RunOrderTest, TheFailureOfOneIsNotThatOfAnother) {
  const auto first = Start({}, 1'000'000), second = Start();
  clock_.Advance(absl::Milliseconds(2));
  timers_.RunDue();
  EXPECT_EQ(StateOf(first), engine::RunState::kFailed);
  RunAll();
  EXPECT_EQ(StateOf(second), engine::RunState::kSucceeded);
}

// Two tasks that fill slots p and q.
std::shared_ptr<const engine::GraphImage> FillTwo() {
  engine::GraphTarget target;
  target.kernels = &BuiltinKernels();
  target.chip_clusters = {2, 2};
  engine::GraphBuilder builder(target);
  engine::TaskInput task;
  task.kernel = builder.AddKernel("fill").value();
  const uint32_t layout = builder.AddLayout(PTO_F32, {16}, {}).value();
  const engine::ScalarInput value;
  task.scalars = absl::MakeConstSpan(&value, 1);
  for (const char* slot : {"p", "q"}) {
    const uint32_t tensor = builder.AddTensor(builder.AddSlot(slot), layout, 0).value();
    task.args = absl::MakeConstSpan(&tensor, 1);
    builder.AddTask(task).value();
  }
  return builder.Build().value();
}

TEST_F(RunOrderTest, SlotsThatOverlapMakeDependencies) {
  RunRequest request;
  request.graph = session_->AddGraph("g", Digest{}, FillTwo()).value();
  request.image = request.graph->image;
  std::vector<std::shared_ptr<pto::engine::Run>> runs;
  const auto image_for = [&](uint64_t p, uint64_t q) {
    request.bindings = {{"p", "y", p}, {"q", "y", q}};
    runs.push_back(std::static_pointer_cast<ImageRun>(session_->StartRun(request).value())->run());
    RunAll();
    EXPECT_EQ(runs.back()->state(), engine::RunState::kSucceeded);
    return &runs.back()->image();
  };
  EXPECT_EQ(image_for(0, 64), request.image.get());
  const engine::GraphImage* const overlapping = image_for(0, 32);
  EXPECT_NE(overlapping, request.image.get());
  EXPECT_EQ(overlapping->edge_count(), 1u);
  // The same way of overlapping is known.
  EXPECT_EQ(image_for(100, 132), overlapping);
  EXPECT_EQ(image_for(64, 0), request.image.get());
  for (uint64_t i = 0; i < AliasedImages::kMax; ++i) {
    EXPECT_EQ(image_for(0, 4 * i)->edge_count(), 1u);
  }
  EXPECT_EQ(request.graph->aliased.size(), AliasedImages::kMax);
  // A graph that is submitted once has no place to keep it.
  request.graph = nullptr;
  EXPECT_EQ(image_for(0, 32)->edge_count(), 1u);
}

// A task that scales slot p to slot q.
std::shared_ptr<const engine::GraphImage> ScaleTo(bool find_dependencies) {
  engine::GraphTarget target;
  target.kernels = &BuiltinKernels();
  target.chip_clusters = {2, 2};
  engine::GraphBuilder builder(target, {.find_dependencies = find_dependencies});
  engine::TaskInput task;
  task.kernel = builder.AddKernel("scale").value();
  const uint32_t layout = builder.AddLayout(PTO_F32, {16}, {}).value();
  const engine::ScalarInput value;
  task.scalars = absl::MakeConstSpan(&value, 1);
  const uint32_t args[] = {builder.AddTensor(builder.AddSlot("p"), layout, 0).value(),
                           builder.AddTensor(builder.AddSlot("q"), layout, 0).value()};
  task.args = args;
  builder.AddTask(task).value();
  return builder.Build().value();
}

TEST_F(RunOrderTest, SlotsThatMakeArgumentsOverlapAreRefused) {
  for (const bool find_dependencies : {true, false}) {
    RunRequest request;
    request.graph =
        session_
            ->AddGraph(find_dependencies ? "found" : "named", Digest{}, ScaleTo(find_dependencies))
            .value();
    request.image = request.graph->image;
    const auto launch = [&](uint64_t p, uint64_t q) {
      request.bindings = {{"p", "y", p}, {"q", "y", q}};
      const absl::Status status = session_->StartRun(request).status();
      RunAll();
      return status;
    };
    EXPECT_THAT(launch(0, 64), IsOk());
    EXPECT_THAT(launch(0, 4), HasReason(reason::kArgumentsOverlap));
    // In place, twice: the second time it is known to be right.
    EXPECT_THAT(launch(32, 32), IsOk());
    EXPECT_THAT(launch(0, 0), IsOk());
    EXPECT_THAT(launch(0, 4), HasReason(reason::kArgumentsOverlap));
    EXPECT_EQ(GetErrorDetail(launch(60, 0))->field, "buffers");
  }
}

}  // namespace
}  // namespace pto::daemon
