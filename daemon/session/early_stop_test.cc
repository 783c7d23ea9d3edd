// Runs that are stopped while they are being started: from the moment that others can find a run
// until it begins, no stop is lost.

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/domain/domain.h"
#include "daemon/session/testing/held_failpoint.h"
#include "daemon/session/testing/open_run_testing.h"
#include "daemon/session/testing/session_testing.h"
#include "gtest/gtest.h"
#include "runtime/base/error.h"
#include "runtime/base/sanitized.h"
#include "runtime/base/status_matchers.h"

namespace pto::daemon {
namespace {

using ::pto::daemon::testing::HeldFailpoint;
using ::pto::daemon::testing::OpenFill;
using ::pto::daemon::testing::SessionTest;
using ::pto::testing::HasReason;
using ::pto::testing::IsOk;

constexpr char kSlot[] = "domains/d/ranks/0/buffers/w";
constexpr char kSignals[] = "domains/d/ranks/0/signals";

// Session `a` has buffer x and domain d, both on chip 0.
class EarlyStopTest : public SessionTest {
 protected:
  EarlyStopTest() {
    limits_.max_session_active_runs = 100'000;
    limits_.max_session_finished_runs = 100'000;
    session_ = Create("a");
    EXPECT_THAT(MakeBuffers(*session_, {{"x", 0, 64}}), IsOk());
    DomainSpec spec;
    spec.chips = {0};
    spec.buffers = {{"w", PTO_F32, 16}};
    spec.signal_count = 1;
    domain_ = session_->domains().Create("d", spec).value();
  }

  // How a run is started. All are called `r` and use chip 0.
  struct Start {
    std::string name;
    std::function<std::shared_ptr<RunEntry>(EarlyStopTest&)> start;
    bool uses_domain = false;
    bool has_tasks = true;
    bool helps = false;  // the thread that starts it works on it, if nothing stops that
  };
  static std::vector<Start> Starts() {
    const auto request = [](EarlyStopTest& test, std::shared_ptr<const engine::GraphImage> image) {
      RunRequest run = test.FillRequest("r");
      run.image = std::move(image);
      run.timeout_ns = 1'000'000'000;
      return run;
    };
    return {
        {"submitted",
         [=](EarlyStopTest& test) -> std::shared_ptr<RunEntry> {
           return test.session_->StartRun(request(test, test.image_)).value();
         }},
        {"launched",
         [=](EarlyStopTest& test) -> std::shared_ptr<RunEntry> {
           RunRequest run = request(test, test.image_);
           run.graph = test.session_->AddGraph("g", Digest(), test.image_).value();
           run.graph->last_run_ns.store(1);
           run.help = true;
           return test.session_->StartRun(std::move(run)).value();
         },
         false, true, true},
        {"behind another",
         [=](EarlyStopTest& test) -> std::shared_ptr<RunEntry> {
           return test.session_->StartRun(request(test, FillOf("x", 2))).value();
         }},
        {"of a domain",
         [=](EarlyStopTest& test) -> std::shared_ptr<RunEntry> {
           return test.session_->StartRun(request(test, FillOf(kSlot, 1))).value();
         },
         true},
        {"of a domain's signals",
         [=](EarlyStopTest& test) -> std::shared_ptr<RunEntry> {
           return test.session_->StartRun(request(test, FillOf(kSignals, 1, PTO_I64, 1))).value();
         },
         true},
        {"open",
         [](EarlyStopTest& test) -> std::shared_ptr<RunEntry> {
           RunTerms terms;
           terms.id = "r";
           terms.timeout_ns = 1'000'000'000;
           return test.session_->StartOpenRun(terms).value();
         },
         false, false},
    };
  }

  // How it is stopped, and what becomes of it.
  struct Stop {
    std::string name;
    std::function<void(EarlyStopTest&)> stop;
    engine::RunState state;
    const Reason& reason;
    bool needs_domain = false;
    bool needs_tasks = false;
    bool is_timer = false;  // which fires when the test says so, after the start
  };
  static std::vector<Stop> Stops() {
    return {
        {"cancelled",
         [](EarlyStopTest& test) {
           test.session_->FindRun("r").value()->Stop(engine::RunState::kCancelled,
                                                     Error(reason::kRunCancelled, "a test"));
         },
         engine::RunState::kCancelled, reason::kRunCancelled},
        {"session deleted",
         [](EarlyStopTest& test) {
           EXPECT_THAT(test.sessions_->Delete(auth::Daemon(), "a", "a test"), IsOk());
         },
         engine::RunState::kCancelled, reason::kRunCancelled},
        {"session expired",
         [](EarlyStopTest& test) {
           test.clock_.Advance(absl::Seconds(31));
           test.timers_.RunDue();
           EXPECT_TRUE(test.session_->ended());
         },
         engine::RunState::kCancelled, reason::kRunCancelled},
        {"time is up", [](EarlyStopTest& test) { test.clock_.Advance(absl::Seconds(2)); },
         engine::RunState::kFailed, reason::kRunDeadline, false, false, true},
        {"domain revoked", [](EarlyStopTest& test) { test.domain_->Revoke("a test"); },
         engine::RunState::kFailed, reason::kDomainRevoked, true},
        {"chip faulty",
         [](EarlyStopTest& test) {
           test.faulty_ = {0};
           test.health_->See(0, {});
         },
         engine::RunState::kFailed, reason::kChipUnavailable, false, true},
        {"all stopped",
         [](EarlyStopTest& test) {
           test.engine_->StopAll(engine::RunState::kCancelled,
                                 Error(reason::kRunCancelled, "a test"));
           test.session_->StopRuns(engine::RunState::kCancelled,
                                   Error(reason::kRunCancelled, "a test"));
         },
         engine::RunState::kCancelled, reason::kRunCancelled},
    };
  }

  static std::shared_ptr<const engine::GraphImage> FillOf(const std::string& slot, uint32_t count,
                                                          pto_dtype dtype = PTO_F32,
                                                          int64_t size = 16) {
    engine::GraphTarget target;
    target.kernels = &BuiltinKernels();
    target.chip_clusters = {2, 2};
    engine::GraphBuilder builder(target);
    const uint32_t kernel = builder.AddKernel("fill").value();
    const std::vector<int64_t> shape = {size};
    const uint32_t layout = builder.AddLayout(dtype, shape, {}).value();
    const uint32_t tensor = builder.AddTensor(builder.AddSlot(slot), layout, 0).value();
    const engine::ScalarInput value;
    for (uint32_t i = 0; i < count; ++i) {
      engine::TaskInput task;
      task.kernel = kernel;
      task.args = absl::MakeConstSpan(&tensor, 1);
      task.scalars = absl::MakeConstSpan(&value, 1);
      builder.AddTask(task).value();
    }
    return builder.Build().value();
  }

  std::shared_ptr<Session> session_;
  std::shared_ptr<Domain> domain_;
};

// One start and one stop, with the stop in between.
class EachEarlyStopTest : public EarlyStopTest,
                          public ::testing::WithParamInterface<std::pair<size_t, size_t>> {};

TEST_P(EachEarlyStopTest, IsNotLost) {
  if (!kHasFailpoints) GTEST_SKIP() << "this build has no failpoints";
  const Start start = Starts()[GetParam().first];
  const Stop stop = Stops()[GetParam().second];
  SCOPED_TRACE(absl::StrCat(start.name, ", ", stop.name));
  if ((stop.needs_domain && !start.uses_domain) || (stop.needs_tasks && !start.has_tasks) ||
      (stop.is_timer && start.helps)) {
    return;
  }
  std::shared_ptr<RunEntry> first;
  if (start.name == "behind another") first = session_->StartRun(FillRequest()).value();
  std::shared_ptr<RunEntry> run;
  {
    const HeldFailpoint failpoint("run.accept");
    std::thread starts([&] { run = start.start(*this); });
    failpoint.Await();
    stop.stop(*this);
    failpoint.Release();
    starts.join();
  }
  timers_.RunDue();
  // Before anything runs: it was stopped before it began.
  ASSERT_TRUE(run->ended());
  EXPECT_EQ(run->Status().state, stop.state);
  ASSERT_FALSE(run->Status().errors.empty());
  EXPECT_THAT(run->Status().errors[0], HasReason(stop.reason));
  EXPECT_EQ(run->Status().counts.done, 0u);
  RunAll();
  EXPECT_EQ(engine_->active_runs(), 0u);
  EXPECT_EQ(session_->usage().active_runs, 0u);
  EXPECT_EQ(session_->usage().tasks, 0u);
  const uint64_t own = first == nullptr ? 0 : first->Status().counts.done;
  EXPECT_EQ(engine_->chip_use(0).ended_tasks, own);
  // It has used nothing, so its domain is as good as before. A timer comes when it has begun.
  if (!stop.is_timer && stop.name != "domain revoked") {
    EXPECT_THAT(domain_->error(), IsOk());
  }
  // No timer keeps what is left of it.
  const std::weak_ptr<RunEntry> weak = run;
  ASSERT_THAT(sessions_->Delete(auth::Daemon(), "a", "a test"), IsOk());
  first.reset();
  run.reset();
  session_.reset();
  domain_.reset();
  EXPECT_TRUE(weak.expired());
}

std::vector<std::pair<size_t, size_t>> AllPairs() {
  std::vector<std::pair<size_t, size_t>> pairs;
  for (size_t start = 0; start < 6; ++start) {
    for (size_t stop = 0; stop < 7; ++stop) pairs.emplace_back(start, stop);
  }
  return pairs;
}
INSTANTIATE_TEST_SUITE_P(All, EachEarlyStopTest, ::testing::ValuesIn(AllPairs()));

// Two threads: one starts runs, the other one cancels each as soon as it can be found.
TEST_F(EarlyStopTest, ManyRunsAreCancelledAsSoonAsTheyAreThere) {
  constexpr int kRuns = kSanitized ? 3'000 : 20'000;
  std::vector<std::shared_ptr<RunEntry>> runs(kRuns);
  std::thread cancels([&] {
    for (int i = 0; i < kRuns; ++i) {
      const std::string id = absl::StrCat("r", i);
      absl::StatusOr<std::shared_ptr<RunEntry>> run = session_->FindRun(id);
      while (!run.ok()) run = session_->FindRun(id);
      (*run)->Stop(engine::RunState::kCancelled, Error(reason::kRunCancelled, "a test"));
    }
  });
  for (int i = 0; i < kRuns; ++i) {
    const std::string id = absl::StrCat("r", i);
    if (i % 2 == 0) {
      runs[i] = session_->StartRun(FillRequest(id)).value();
    } else {
      RunTerms terms;
      terms.id = id;
      runs[i] = session_->StartOpenRun(std::move(terms)).value();
    }
  }
  cancels.join();
  int lost = 0;
  for (const std::shared_ptr<RunEntry>& run : runs) {
    if (run->Status().state != engine::RunState::kCancelled) ++lost;
  }
  EXPECT_EQ(lost, 0) << "of " << kRuns << " cancellations were lost";
  EXPECT_EQ(engine_->active_runs(), 0u);
  EXPECT_EQ(session_->usage().active_runs, 0u);
}

// The engine alone.
TEST_F(EarlyStopTest, ARunThatIsStoppedBeforeItIsAcceptedEndsWhenItIs) {
  for (const bool begins : {false, true}) {
    engine::RunSpec spec;
    spec.image = FillGraph();
    const auto memory = engine_->chips()[0]->memory().AllocateHost(64).value();
    spec.slots = std::make_shared<const engine::RunSlots>(engine::RunSlots{{memory, 0}});
    const std::shared_ptr<::pto::engine::Run> run = engine_->Prepare(std::move(spec));
    engine_->Stop(*run, engine::RunState::kFailed, absl::AbortedError("first"));
    engine_->Stop(*run, engine::RunState::kCancelled, absl::CancelledError("second"));
    EXPECT_EQ(run->state(), engine::RunState::kCancelling);
    EXPECT_EQ(engine_->active_runs(), 0u);
    engine_->Accept(run);
    EXPECT_EQ(run->state(), engine::RunState::kFailed);
    EXPECT_EQ(run->errors()[0].message(), "first");
    EXPECT_EQ(engine_->active_runs(), 0u);
    if (begins) engine_->Begin(run);
    EXPECT_FALSE(engine_->RunOne());
  }
}

TEST_F(EarlyStopTest, AnEngineThatStopsAllStopsWhatComesLater) {
  const std::shared_ptr<RunEntry> before = session_->StartRun(FillRequest()).value();
  engine_->StopAll(engine::RunState::kCancelled, Error(reason::kRunCancelled, "a test"));
  EXPECT_EQ(before->Status().state, engine::RunState::kCancelled);
  const std::shared_ptr<RunEntry> after = session_->StartRun(FillRequest()).value();
  EXPECT_EQ(after->Status().state, engine::RunState::kCancelled);
  OpenFill open(*session_, "o");
  EXPECT_THAT(open.Add({{"x", 0}}), IsOk());
  EXPECT_EQ(open.state(), engine::RunState::kCancelled);
  EXPECT_THAT(open.run().Status().errors[0], HasReason(reason::kRunCancelled));
  EXPECT_EQ(engine_->active_runs(), 0u);
}

}  // namespace
}  // namespace pto::daemon
