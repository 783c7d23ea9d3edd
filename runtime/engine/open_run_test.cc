#include "runtime/engine/open_run.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <fstream>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "kernels/registry.h"
#include "runtime/base/error.h"
#include "runtime/base/failpoint.h"
#include "runtime/base/status_matchers.h"
#include "runtime/engine/testing/engine_testing.h"
#include "runtime/engine/testing/open_run_testing.h"

namespace pto::engine {
namespace {

using ::pto::engine::testing::OpenRunWatcher;

constexpr uint32_t kCells = 32;
constexpr uint64_t kMaxLive = 4096;

uint64_t& Cell(const pto_context* context, uint32_t index) {
  return *static_cast<uint64_t*>(context->tensors[index].data);
}
int32_t Step(const pto_context* context) {
  Cell(context, 0) = Cell(context, 0) * 3 + 1;
  return 0;
}
int32_t Mix(const pto_context* context) {
  Cell(context, 1) = Cell(context, 1) * 5 + Cell(context, 0);
  return 0;
}
int32_t Fail(const pto_context*) { return 1; }

const KernelRegistry& Kernels() {
  static const KernelRegistry* const kernels = [] {
    static const pto_argument_info one[] = {{"data", PTO_INOUT, PTO_DTYPE_ALL}};
    static const pto_argument_info two[] = {{"from", PTO_INPUT, PTO_DTYPE_ALL},
                                            {"to", PTO_INOUT, PTO_DTYPE_ALL}};
    constexpr uint32_t kSize = sizeof(pto_kernel_info);
    static const pto_kernel_info infos[] = {
        {kSize, "step", "3x + 1.", &Step, nullptr, PTO_AIV, one, 1, nullptr, 0, 0, 0, 0},
        {kSize, "mix", "5x + y.", &Mix, nullptr, PTO_AIV, two, 2, nullptr, 0, 0, 0, 0},
        {kSize, "bad", "Fails.", &Fail, nullptr, PTO_AIV, one, 1, nullptr, 0, 0, 0, 0}};
    auto* registry = new KernelRegistry;
    for (const pto_kernel_info& info : infos) EXPECT_TRUE(registry->Add(info).ok());
    return registry;
  }();
  return *kernels;
}

class OpenRunTest : public ::testing::Test {
 protected:
  enum Kernel : uint32_t { kStep, kMix, kBad };

  explicit OpenRunTest(uint32_t executors = 2) : graph_(Target()) {
    Engine::Options options;
    options.chips = engine::testing::MakeTestChips({2});
    options.executors = executors;
    engine_ = std::make_unique<Engine>(std::move(options));
    memory_ = engine_->chips()[0]->memory().AllocateHost(kCells * sizeof(uint64_t)).value();
    slots_ = std::make_shared<const RunSlots>(RunSlots{{memory_, 0}});
    OpenRun::Options run;
    run.engine = engine_.get();
    run.observer = watcher_;
    run.record_level = level_;
    run_ = OpenRun::Make(run);
    for (const char* name : {"step", "mix", "bad"}) graph_.AddKernel(name).value();
    const uint32_t slot = graph_.AddSlot("cells");
    const uint32_t layout = graph_.AddLayout(PTO_U64, {}, {}).value();
    for (uint32_t i = 0; i < kCells; ++i) graph_.AddTensor(slot, layout, i).value();
  }

  static GraphTarget Target() {
    GraphTarget target;
    target.kernels = &Kernels();
    target.chip_clusters = {2};
    return target;
  }

  void Add(Kernel kernel, std::vector<uint32_t> args) {
    TaskInput task;
    task.kernel = kernel;
    task.args = args;
    graph_.AddTask(task).value();
  }
  void Cut() {
    run_->Append(graph_.Cut().value(), slots_);
    graph_.ForgetBefore(run_->ended_before());
  }
  uint64_t* cells() { return reinterpret_cast<uint64_t*>(memory_->data()); }

  RecordLevel level_ = RecordLevel::kAll;
  OpenGraph graph_;
  const std::shared_ptr<OpenRunWatcher> watcher_ = std::make_shared<OpenRunWatcher>();
  std::unique_ptr<Engine> engine_;
  std::shared_ptr<HostAllocation> memory_;
  std::shared_ptr<const RunSlots> slots_;
  std::shared_ptr<OpenRun> run_;
};

class OpenRunByHandTest : public OpenRunTest {
 protected:
  OpenRunByHandTest() : OpenRunTest(0) {}
  void RunAll() {
    while (engine_->RunOne()) {
    }
  }
};

TEST_F(OpenRunByHandTest, TasksStartAsTheyArriveAndWaitForEarlierSegments) {
  EXPECT_EQ(run_->state(), RunState::kQueued);
  Add(kStep, {0});
  Cut();
  Add(kMix, {0, 1});
  Add(kStep, {2});
  Cut();
  EXPECT_EQ(run_->live_tasks(), 3u);
  EXPECT_EQ(engine_->chip_use(0).ready_tasks, 2u);  // not the one that waits
  RunAll();
  EXPECT_EQ(cells()[0], 1u);
  EXPECT_EQ(cells()[1], 1u);
  EXPECT_EQ(cells()[2], 1u);
  EXPECT_EQ(run_->live_tasks(), 0u);
  EXPECT_EQ(run_->kept_segments(), 0u);
  EXPECT_EQ(run_->ended_before(), 3u);
  EXPECT_EQ(run_->state(), RunState::kRunning);
  run_->Close();
  EXPECT_EQ(run_->state(), RunState::kSucceeded);
  EXPECT_EQ(watcher_->finished(), 1);
  EXPECT_EQ(run_->counts().done, 3u);
}

TEST_F(OpenRunByHandTest, RecordsOfSegmentsComeTogether) {
  for (uint32_t i = 0; i < 10; ++i) {
    Add(kStep, {i});
    Cut();
  }
  RunAll();
  // Not one call for each.
  EXPECT_LE(watcher_->records_told(), 2);
  const std::vector<RecordBlock> blocks = run_->TakeRecords();
  ASSERT_EQ(blocks.size(), 1u);
  EXPECT_EQ(blocks[0].count, 10u);
  for (uint32_t i = 0; i < 10; ++i) {
    Add(kStep, {i});
    Cut();
  }
  RunAll();
  EXPECT_EQ(engine::testing::TakeOutcomes(*run_).front().first, 10u);
  run_->Close();
}

TEST_F(OpenRunByHandTest, AStoppedSegmentStopsTheRun) {
  Add(kStep, {0});
  Cut();
  Add(kStep, {1});
  Cut();
  engine_->StopIf([first = true](const auto&) mutable { return std::exchange(first, false); },
                  RunState::kFailed, absl::AbortedError("a reset"));
  EXPECT_EQ(run_->state(), RunState::kFailed);
  EXPECT_EQ(watcher_->finished(), 1);
  ASSERT_FALSE(run_->errors().empty());
  EXPECT_EQ(run_->errors()[0], absl::AbortedError("a reset"));
  Add(kStep, {2});
  EXPECT_FALSE(run_->Append(graph_.Cut().value(), slots_));
}

TEST_F(OpenRunByHandTest, AFailureReachesLaterSegmentsWheneverTheyCome) {
  Add(kBad, {0});
  Add(kStep, {3});
  Cut();
  Add(kMix, {0, 1});  // waits for the bad one when it fails
  Add(kMix, {1, 2});
  Add(kStep, {3});
  Cut();
  RunAll();
  Add(kStep, {2});  // comes when all is over
  Add(kStep, {4});
  Cut();
  RunAll();
  run_->Close();
  EXPECT_EQ(run_->state(), RunState::kFailed);
  EXPECT_EQ(run_->counts().failed, 1u);
  EXPECT_EQ(run_->counts().skipped, 3u);
  EXPECT_EQ(run_->counts().done, 3u);
  EXPECT_EQ(run_->errors().size(), 1u);
  using Outcome = std::pair<uint32_t, TaskOutcome>;
  EXPECT_EQ(engine::testing::TakeOutcomes(*run_), (std::vector<Outcome>{{0, TaskOutcome::kFailed},
                                                                        {1, TaskOutcome::kDone},
                                                                        {2, TaskOutcome::kSkipped},
                                                                        {3, TaskOutcome::kSkipped},
                                                                        {4, TaskOutcome::kDone},
                                                                        {5, TaskOutcome::kSkipped},
                                                                        {6, TaskOutcome::kDone}}));
}

TEST_F(OpenRunByHandTest, ErrorsOfAllSegmentsAreKeptOrCounted) {
  for (uint32_t i = 0; i < 20; ++i) {
    Add(kStep, {31});
    Add(kBad, {i});
    Cut();
    RunAll();
  }
  const std::vector<absl::Status> errors = run_->errors();
  ASSERT_EQ(errors.size(), 17u);
  for (size_t i = 0; i < errors.size(); ++i) {
    // The first ones, by their numbers in the whole run.
    EXPECT_THAT(std::string(errors[i].message()),
                ::testing::StartsWith(absl::StrCat("task ", 2 * i + 1, ": ")));
  }
  EXPECT_EQ(run_->counts().errors_unlisted, 3u);
  EXPECT_EQ(run_->TakeUnlistedErrors().size(), 3u);
  // What stops it is kept once, however many segments it stops.
  Add(kStep, {29});
  Cut();
  Add(kStep, {30});
  Cut();
  run_->Stop(RunState::kCancelled, absl::CancelledError("enough"));
  RunAll();
  ASSERT_EQ(run_->errors().size(), 18u);
  EXPECT_EQ(run_->errors()[0], errors[0]);
  EXPECT_EQ(run_->errors()[17], absl::CancelledError("enough"));
  EXPECT_EQ(run_->counts().errors_unlisted, 3u);
  EXPECT_TRUE(run_->TakeUnlistedErrors().empty());
}

// Also when it is asked while the segment goes on, and what stops it comes after.
TEST_F(OpenRunByHandTest, EveryErrorOfASegmentIsToldOnce) {
  constexpr uint32_t kTasks = 32;
  for (uint32_t i = 0; i < kTasks; ++i) Add(kBad, {i});
  Cut();
  std::set<std::string> told;
  const auto take = [&] {
    for (const absl::Status& error : run_->TakeUnlistedErrors()) {
      EXPECT_TRUE(told.insert(std::string(error.message())).second) << error;
    }
  };
  while (run_->counts().failed < 25) ASSERT_TRUE(engine_->RunOne());
  EXPECT_EQ(run_->errors().size(), 17u);
  EXPECT_EQ(run_->counts().errors_unlisted, 8u);
  take();
  while (run_->counts().failed < 28) ASSERT_TRUE(engine_->RunOne());
  EXPECT_EQ(run_->counts().errors_unlisted, 11u);
  run_->Stop(RunState::kCancelled, absl::CancelledError("enough"));
  RunAll();
  take();
  EXPECT_EQ(run_->counts().errors_unlisted, told.size());
  for (const absl::Status& error : run_->errors()) {
    EXPECT_TRUE(told.insert(std::string(error.message())).second) << error;
  }
  EXPECT_EQ(told.count("enough"), 1u);
  EXPECT_EQ(told.size(), run_->counts().failed + 1);
}

TEST_F(OpenRunByHandTest, ErrorsOfSegmentsThatGoOnAreListedOrCounted) {
  constexpr uint32_t kEach = 15;
  for (uint32_t i = 0; i < kEach; ++i) Add(kBad, {i});
  Add(kStep, {30});
  Cut();
  for (uint32_t i = 0; i < kEach; ++i) Add(kBad, {15 + i});
  Add(kStep, {31});
  Cut();
  while (run_->counts().failed < 2 * kEach) ASSERT_TRUE(engine_->RunOne());
  EXPECT_EQ(run_->errors().size(), 17u);
  EXPECT_EQ(run_->counts().errors_unlisted, 2 * kEach - 17);
  RunAll();
  EXPECT_EQ(run_->errors().size(), 17u);
  EXPECT_EQ(run_->counts().errors_unlisted, 2 * kEach - 17);
  EXPECT_EQ(run_->TakeUnlistedErrors().size(), 2 * kEach - 17);
}

TEST_F(OpenRunByHandTest, AFailureComesBeforeTheStopThatFollowedIt) {
  Add(kBad, {0});
  Add(kStep, {1});
  Cut();
  ASSERT_TRUE(engine_->RunOne());
  ASSERT_EQ(run_->counts().failed, 1u);
  EXPECT_EQ(run_->errors().size(), 1u);
  run_->Stop(RunState::kCancelled, absl::CancelledError("enough"));
  RunAll();
  ASSERT_EQ(run_->errors().size(), 2u);
  EXPECT_THAT(run_->errors()[0], ::pto::testing::HasReason(reason::kKernelFailed));
  EXPECT_EQ(run_->errors()[1], absl::CancelledError("enough"));
}

TEST_F(OpenRunByHandTest, StoppingEndsAllSegments) {
  for (int i = 0; i < 20'000; ++i) {
    Add(kStep, {0});
    Cut();
  }
  run_->Stop(RunState::kCancelled, absl::CancelledError("enough"));
  RunAll();
  EXPECT_EQ(run_->state(), RunState::kCancelled);
  EXPECT_EQ(run_->live_tasks(), 0u);
  EXPECT_EQ(run_->errors().size(), 1u);
  EXPECT_EQ(watcher_->finished(), 1);
  EXPECT_EQ(engine_->active_runs(), 0u);
}

// Observes segments, and stops the run when one begins if the test asks for it.
class SegmentWatcher final : public OpenRunObserver {
 public:
  std::string name() const override { return "test"; }
  void OnRecords(size_t) override {}
  void OnSegmentBegins(uint32_t first_task) override {
    ++begins;
    last_begin = first_task;
    if (stops != nullptr) stops->Stop(RunState::kCancelled, absl::CancelledError("enough"));
  }
  void OnSegmentEnded(uint32_t, const Run&, Completions&) override { ended = true; }
  void OnFinished(Completions&) override { finished = true; }

  OpenRun* stops = nullptr;
  std::atomic<int> begins{0};
  std::atomic<uint32_t> last_begin{0};
  std::atomic<bool> ended{false};
  std::atomic<bool> finished{false};
};

class OpenRunStopTest : public OpenRunByHandTest {
 protected:
  std::shared_ptr<OpenRun> MakeRun(const std::shared_ptr<SegmentWatcher>& watcher) {
    OpenRun::Options options;
    options.engine = engine_.get();
    options.observer = watcher;
    return OpenRun::Make(options);
  }
};

TEST_F(OpenRunStopTest, ASegmentThatIsStoppedWhenItIsToBeginDoesNot) {
  const auto watcher = std::make_shared<SegmentWatcher>();
  const std::shared_ptr<OpenRun> run = MakeRun(watcher);
  Add(kStep, {0});
  ASSERT_TRUE(run->Append(graph_.Cut().value(), slots_));
  EXPECT_EQ(watcher->begins, 1);
  RunAll();
  ASSERT_EQ(cells()[0], 1u);
  watcher->stops = run.get();
  Add(kStep, {0});
  ASSERT_TRUE(run->Append(graph_.Cut().value(), slots_));
  EXPECT_EQ(watcher->begins, 2);
  EXPECT_EQ(watcher->last_begin, 1u);
  EXPECT_TRUE(watcher->finished);
  EXPECT_EQ(run->state(), RunState::kCancelled);
  EXPECT_EQ(engine_->active_runs(), 0u);
  RunAll();
  EXPECT_EQ(cells()[0], 1u);
}

// The run is stopped when a segment belongs to it already and has not been accepted.
TEST_F(OpenRunStopTest, ASegmentOfARunThatWasStoppedIsNotToldToBegin) {
  if (!kHasFailpoints) GTEST_SKIP() << "this build has no failpoints";
  const auto watcher = std::make_shared<SegmentWatcher>();
  const std::shared_ptr<OpenRun> run = MakeRun(watcher);
  Add(kStep, {0});
  const GraphSegment segment = graph_.Cut().value();
  const std::string path = absl::StrCat(::testing::TempDir(), "/accept.", getpid());
  ASSERT_TRUE(failpoint::Set(absl::StrCat("open_run.accept=hold:", path, "*1")).ok());
  std::thread appends([&] { EXPECT_TRUE(run->Append(segment, slots_)); });
  while (failpoint::Hits("open_run.accept") == 0) std::this_thread::yield();
  run->Stop(RunState::kCancelled, absl::CancelledError("enough"));
  // Nobody could stop the segment so far.
  EXPECT_EQ(run->state(), RunState::kCancelling);
  EXPECT_FALSE(watcher->ended);
  std::ofstream(path) << "go";
  appends.join();
  std::remove(path.c_str());
  ASSERT_TRUE(failpoint::Set("").ok());
  // Who was told that it begins would take all that it uses for half done.
  EXPECT_EQ(watcher->begins, 0);
  EXPECT_TRUE(watcher->ended);
  EXPECT_TRUE(watcher->finished);
  EXPECT_EQ(run->state(), RunState::kCancelled);
  EXPECT_EQ(engine_->active_runs(), 0u);
  RunAll();
  EXPECT_EQ(cells()[0], 0u);
}

// What executors make of it is what one after the other makes of it.
TEST_F(OpenRunTest, RandomTasksGiveWhatTheProgramSays) {
  constexpr uint32_t kTasks = 50'000;
  std::minstd_rand random(7);
  std::vector<uint64_t> expected(kCells);
  size_t most_segments = 0;
  for (uint32_t i = 0; i < kTasks; ++i) {
    const auto a = static_cast<uint32_t>(random() % kCells);
    const auto b = static_cast<uint32_t>(random() % kCells);
    if (a == b || random() % 3 == 0) {
      Add(kStep, {a});
      expected[a] = expected[a] * 3 + 1;
    } else {
      Add(kMix, {a, b});
      expected[b] = expected[b] * 5 + expected[a];
    }
    if (random() % 20 != 0) continue;
    Cut();
    most_segments = std::max(most_segments, run_->kept_segments());
    watcher_->WaitUntil([&] { return run_->live_tasks() < kMaxLive; });
  }
  if (graph_.uncut_tasks() > 0) Cut();
  run_->Close();
  watcher_->WaitFinished();
  EXPECT_EQ(run_->state(), RunState::kSucceeded);
  EXPECT_EQ(run_->counts().done, kTasks);
  EXPECT_EQ(std::vector<uint64_t>(cells(), cells() + kCells), expected);
  EXPECT_EQ(engine::testing::TakeOutcomes(*run_).size(), kTasks);
  EXPECT_EQ(run_->kept_segments(), 0u);
  EXPECT_LE(most_segments, kMaxLive);
}

}  // namespace
}  // namespace pto::engine
