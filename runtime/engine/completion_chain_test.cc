// Chains of runs that end each other need no deep stack.

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/base/sanitized.h"
#include "runtime/engine/open_run.h"
#include "runtime/engine/testing/engine_testing.h"
#include "runtime/engine/testing/open_run_testing.h"
#include "runtime/engine/testing/slow_testing.h"
#include "runtime/engine/testing/small_stack.h"

namespace pto::engine {
namespace {

using ::pto::engine::testing::KernelBody;
using ::pto::engine::testing::MakeTestGraph;
using ::pto::engine::testing::OnSmallStack;
using ::pto::engine::testing::OpenRunWatcher;
using ::pto::engine::testing::SlowEngine;
using ::pto::engine::testing::SlowKernels;

// Stops the next run when its own run has ended.
class Domino final : public RunObserver {
 public:
  Domino(Engine& engine, size_t& ended) : engine_(engine), ended_(ended) {}
  std::string name() const override { return "domino"; }
  void OnStarted(Run&) override {}
  void OnRecords(Run&, size_t) override {}
  void OnFinished(Run& run, Completions& completions) override {
    EXPECT_EQ(run.state(), RunState::kCancelled);
    ++ended_;
    if (next != nullptr) {
      engine_.Stop(*next, RunState::kCancelled, absl::CancelledError("next"), completions);
    }
  }
  std::shared_ptr<pto::engine::Run> next;

 private:
  Engine& engine_;
  size_t& ended_;
};

TEST(CompletionChainTest, RunsThatStopTheNextOne) {
  constexpr size_t kRuns = kSanitized ? 20'000 : 100'000;
  SlowEngine node({2});
  const std::shared_ptr<const GraphImage> image =
      MakeTestGraph({{}}, {2}, [](uint32_t, const pto_context&) { return 0; });
  size_t ended = 0;
  std::shared_ptr<pto::engine::Run> first;
  std::shared_ptr<Domino> before;
  for (size_t i = 0; i < kRuns; ++i) {
    RunSpec spec;
    spec.image = image;
    const auto observer = std::make_shared<Domino>(*node.engine, ended);
    spec.observer = observer;
    const std::shared_ptr<pto::engine::Run> run = node.engine->Prepare(std::move(spec));
    // Some have begun, and some have not.
    node.engine->Accept(run);
    if (i % 3 == 0) node.engine->Begin(run);
    if (before != nullptr) before->next = run;
    if (first == nullptr) first = run;
    before = observer;
  }
  OnSmallStack(
      [&] { node.engine->Stop(*first, RunState::kCancelled, absl::CancelledError("first")); });
  EXPECT_EQ(ended, kRuns);
  EXPECT_EQ(node.engine->active_runs(), 0u);
}

// Segments of one task each, which waits for the one before.
class LinkedSegmentsTest : public ::testing::Test {
 protected:
  static constexpr uint32_t kSegments = kSanitized ? 2'000 : 5'000;

  LinkedSegmentsTest() : node_({2}) {
    GraphTarget target;
    target.kernels = &SlowKernels();
    target.chip_clusters = node_.clusters;
    graph_ = std::make_unique<OpenGraph>(target);
    kernel_ = graph_->AddKernel("plain").value();
    const uint32_t slot = graph_->AddSlot("words");
    const uint32_t all = graph_->AddLayout(PTO_I64, {SlowEngine::kWords}, {}).value();
    all_ = graph_->AddTensor(slot, all, 0).value();
    const uint32_t one = graph_->AddLayout(PTO_I64, {}, {}).value();
    word_ = graph_->AddTensor(slot, one, 0).value();
    OpenRun::Options options;
    options.engine = node_.engine.get();
    options.observer = watcher_;
    run_ = OpenRun::Make(std::move(options));
  }

  // A task behind another one, if that is not kNone. With `never` it is passed over.
  static constexpr uint32_t kNone = 0xffffffff;
  uint32_t Add(uint32_t after, bool never) {
    ScalarInput scalars[2];
    scalars[0].kind = scalars[1].kind = ScalarInput::Kind::kInteger;
    scalars[0].i64 = graph_->task_count();
    scalars[1].i64 = reinterpret_cast<int64_t>(&body_);
    TaskInput task;
    task.kernel = kernel_;
    task.args = absl::MakeConstSpan(&all_, 1);
    task.scalars = scalars;
    if (after != kNone) task.dependencies = absl::MakeConstSpan(&after, 1);
    if (never) task.predicate = PredicateInput{word_, PTO_EQ, 1};
    return graph_->AddTask(task).value();
  }
  void Cut() { run_->Append(graph_->Cut().value(), node_.slots()); }
  void AddChain(bool never) {
    uint32_t before = kNone;
    for (uint32_t i = 0; i < kSegments; ++i) {
      before = Add(before, never && i > 0);
      Cut();
    }
    run_->Close();
    EXPECT_EQ(watcher_->finished(), 0);
  }

  KernelBody body_ = [](uint32_t, const pto_context&) { return 0; };
  SlowEngine node_;
  std::unique_ptr<OpenGraph> graph_;
  uint32_t kernel_ = 0;
  uint32_t all_ = 0;
  uint32_t word_ = 0;
  const std::shared_ptr<OpenRunWatcher> watcher_ = std::make_shared<OpenRunWatcher>();
  std::shared_ptr<OpenRun> run_;
};

TEST_F(LinkedSegmentsTest, ThatArePassedOver) {
  AddChain(true);
  OnSmallStack([&] { node_.RunAll(); });
  EXPECT_EQ(watcher_->finished(), 1);
  EXPECT_EQ(run_->state(), RunState::kSucceeded);
  EXPECT_EQ(run_->counts().passed_over, kSegments - 1);
  node_.ExpectClean();
}

TEST_F(LinkedSegmentsTest, ThatAreSkipped) {
  body_ = [](uint32_t, const pto_context&) { return 1; };
  AddChain(false);
  OnSmallStack([&] { node_.RunAll(); });
  EXPECT_EQ(watcher_->finished(), 1);
  EXPECT_EQ(run_->state(), RunState::kFailed);
  EXPECT_EQ(run_->counts().failed, 1u);
  EXPECT_EQ(run_->counts().skipped, kSegments - 1);
  node_.ExpectClean();
}

TEST_F(LinkedSegmentsTest, ThatAreStopped) {
  AddChain(false);
  OnSmallStack([&] { run_->Stop(RunState::kCancelled, Error(reason::kRunCancelled, "a test")); });
  EXPECT_EQ(watcher_->finished(), 1);
  EXPECT_EQ(run_->state(), RunState::kCancelled);
  node_.ExpectClean();
}

// The thread that ends another segment has a task to run next, which may take long.
TEST_F(LinkedSegmentsTest, TheEndOfOneDoesNotWaitForTheNextTask) {
  std::vector<uint64_t> live;
  body_ = [&](uint32_t, const pto_context&) {
    live.push_back(run_->live_tasks());
    return 0;
  };
  // The first ones are measured to be short, so that the turn does not end for another reason.
  uint32_t before = kNone;
  for (int i = 0; i < 8; ++i) before = Add(before, false);
  Add(before, false);
  Cut();
  Add(before, true);
  Cut();
  node_.RunAll();
  // The last task begins when the other segment has ended.
  EXPECT_EQ(live, (std::vector<uint64_t>{10, 10, 10, 10, 10, 10, 10, 10, 9}));
  run_->Close();
  EXPECT_EQ(watcher_->finished(), 1);
}

}  // namespace
}  // namespace pto::engine
