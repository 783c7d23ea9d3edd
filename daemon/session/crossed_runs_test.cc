// Open runs in every stage, crossed with pairs of what can happen to them from outside: cancel,
// deadline, the end or expiry of the session, leases of their chips, faults, the end of a drain.
// Whatever the pair: the run ends, as the first of them says, and nothing is left of it.

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "daemon/session/testing/open_run_testing.h"
#include "daemon/session/testing/session_testing.h"
#include "gtest/gtest.h"
#include "runtime/base/error.h"
#include "runtime/base/status_matchers.h"

namespace pto::daemon {
namespace {

using ::pto::daemon::testing::OpenFill;
using ::pto::daemon::testing::Place;
using ::pto::daemon::testing::SessionTest;
using ::pto::testing::HasReason;
using ::pto::testing::IsOk;

const Place kX = {"x", 0};
const Place kY = {"y", 1};

// How far the run has come.
enum class Stage { kEmpty, kIdle, kReady, kHalfDone, kWaiting, kClosed, kHeldBack, kCount };
constexpr const char* kStages[] = {"empty",   "idle",   "ready",    "half done",
                                   "waiting", "closed", "held back"};

enum class Event {
  kNone,
  kCancel,
  kDeadline,
  kDelete,
  kExpire,
  kLease,          // another session asks for both chips
  kLeaseAndEnd,    // the same, and it ends
  kFault,          // chip 0 is faulty, and runs there are stopped
  kFaultAndReset,  // the same, and it comes back
  kDrain,
  kCount
};
constexpr const char* kEvents[] = {
    "none",  "cancel",        "deadline", "delete",          "expire",
    "lease", "lease and end", "fault",    "fault and reset", "drain"};

// How the run has to end; without a reason it succeeds.
struct Outcome {
  engine::RunState state = engine::RunState::kSucceeded;
  const Reason* reason = nullptr;
};

// One open run in session `a`, with buffer x on chip 0 and y on chip 1; session `h` leases chips.
class Crossing : public SessionTest {
 public:
  explicit Crossing(Stage stage) : stage_(stage) {
    limits_.max_sessions = 10;
    limits_.max_session_active_runs = 100;
    limits_.max_session_live_tasks = 4;
    session_ = Create("a");
    EXPECT_THAT(MakeBuffers(*session_, {{"x", 0, 64}, {"y", 1, 64}}), IsOk());
    RunTerms terms;
    terms.timeout_ns = 60'000'000'000;
    first_ = std::make_unique<OpenFill>(*session_, "first");
    open_ = std::make_unique<OpenFill>(*session_, "open", terms);
    open_->run().AddWaiter([this](const RunStatus& status) {
      ++told_;
      told_state_ = status.state;
    });
    Reach();
  }

  void Do(Event event) {
    Apply(event);
    // What leases do by themselves.
    Look();
    CheckExclusive();
  }

  // The client sends one more segment, if it may, and commits; then all runs to its end.
  void Finish() {
    first_->run().Close();
    RunChecked();
    if (stage_ == Stage::kClosed || open_->run().ended()) return;
    // As the stream does it.
    EXPECT_TRUE(open_->run().AwaitRoom([] {})) << "nothing is left that could make room";
    Append();
    open_->run().Close();
    RunChecked();
  }

  void Check() {
    EXPECT_EQ(told_, 1);
    CheckEnd(Expected());
    CheckNothingLeft();
  }

 private:
  void TestBody() override {}

  void CheckEnd(const Outcome& expected) {
    EXPECT_TRUE(open_->run().ended());
    EXPECT_EQ(told_state_, expected.state);
    const RunStatus status = open_->run().Status();
    EXPECT_EQ(status.state, expected.state);
    if (expected.reason == nullptr) {
      EXPECT_TRUE(status.errors.empty());
    } else if (status.errors.empty()) {
      ADD_FAILURE() << "it does not say why";
    } else {
      EXPECT_THAT(status.errors[0], HasReason(*expected.reason));
    }
  }

  void Reach() {
    switch (stage_) {
      case Stage::kEmpty:
      case Stage::kCount:
        return;
      case Stage::kIdle:
        EXPECT_THAT(open_->Add({kX, kY}), IsOk());
        RunAll();
        return;
      case Stage::kReady:
        EXPECT_THAT(open_->Add({kX, kY}), IsOk());
        return;
      case Stage::kHalfDone:
        // The second one waits for the first one.
        EXPECT_THAT(open_->Add({kX, kX}), IsOk());
        EXPECT_TRUE(engine_->RunOne());
        return;
      case Stage::kClosed:
        EXPECT_THAT(open_->Add({kX, kY}), IsOk());
        open_->run().Close();
        return;
      case Stage::kWaiting:
        EXPECT_THAT(first_->Add({kY}), IsOk());
        EXPECT_THAT(open_->Add({kY, kX}), IsOk());
        EXPECT_EQ(leases_->claims(), 1u);
        return;
      case Stage::kHeldBack:
        EXPECT_THAT(open_->Add({kX, kX, kX, kX, kX}), IsOk());
        EXPECT_FALSE(open_->run().AwaitRoom([] {}));
        return;
    }
  }

  void Apply(Event event) {
    const auto stopped_by = [this](engine::RunState state, const Reason& reason) {
      if (!open_->run().ended() && !stopped_.has_value()) stopped_ = Outcome{state, &reason};
    };
    switch (event) {
      case Event::kNone:
      case Event::kCount:
        return;
      case Event::kCancel:
        stopped_by(engine::RunState::kCancelled, reason::kRunCancelled);
        open_->run().Stop(engine::RunState::kCancelled, Error(reason::kRunCancelled, "a test"));
        return;
      case Event::kDeadline:
        stopped_by(engine::RunState::kFailed, reason::kRunDeadline);
        // Its session is used meanwhile.
        for (int i = 0; i < 4; ++i) {
          clock_.Advance(absl::Seconds(16));
          sessions_->Use(auth::Daemon(), "a").IgnoreError();
          timers_.RunDue();
        }
        return;
      case Event::kDelete:
        stopped_by(engine::RunState::kCancelled, reason::kRunCancelled);
        EXPECT_THAT(sessions_->Delete(auth::Daemon(), "a", "a test"), IsOk());
        return;
      case Event::kExpire:
        stopped_by(engine::RunState::kCancelled, reason::kRunCancelled);
        clock_.Advance(absl::Seconds(31));
        timers_.RunDue();
        EXPECT_TRUE(session_->ended());
        return;
      case Event::kLease:
      case Event::kLeaseAndEnd:
        Ask(event == Event::kLeaseAndEnd);
        return;
      case Event::kFault:
      case Event::kFaultAndReset:
        Fault(event == Event::kFaultAndReset);
        return;
      case Event::kDrain: {
        stopped_by(engine::RunState::kCancelled, reason::kRunCancelled);
        const absl::Status error = Error(reason::kRunCancelled, "a test");
        engine_->StopAll(engine::RunState::kCancelled, error);
        session_->StopRuns(engine::RunState::kCancelled, error);
        return;
      }
    }
  }

  void Ask(bool ends) {
    const std::string holder = absl::StrCat("h", ++holders_);
    Create(holder, absl::Hours(1));
    EXPECT_THAT(leases_->Ask(holder, 2, auth::Daemon().name, 1000), IsOk());
    if (ends) {
      EXPECT_THAT(sessions_->Delete(auth::Daemon(), holder, "a test"), IsOk());
    } else {
      waiting_.push_back(holder);
    }
  }

  void Fault(bool resets) {
    faulty_ = {0};
    health_->See(0, {});
    // As the daemon's watch over the chips does.
    bool has_any = false;
    engine_->StopIf(
        [&](const ::pto::engine::Run& run) {
          const bool hit = run.image().chips()[0] == 0;
          has_any |= hit;
          return hit;
        },
        engine::RunState::kFailed, health_->Check({0}));
    if (has_any && !stopped_.has_value()) {
      stopped_ = Outcome{engine::RunState::kFailed, &reason::kChipUnavailable};
    }
    if (!resets) return;
    faulty_.clear();
    health_->Reset(0, [] {});
    leases_->LookAgain();
  }

  void Append() {
    const absl::Status appended = open_->Add({kX});
    if (appended.ok()) return;
    // What the stream does with an error.
    if (!open_->run().ended()) refused_ = appended;
    open_->run().Stop(engine::RunState::kFailed, appended);
  }

  void Look() {
    clock_.Advance(absl::Milliseconds(10));
    timers_.RunDue();
  }

  // A chip that is leased has no work of others, begun or not.
  void CheckExclusive() {
    for (const std::string& holder : waiting_) {
      const absl::StatusOr<ChipLeases::Lease> lease = leases_->Find(holder);
      if (!lease.ok() || !lease->granted) continue;
      EXPECT_EQ(leases_->claims(), 0u);
      for (const uint32_t chip : lease->chips) {
        EXPECT_FALSE(sessions_->UsedByOthers(chip, holder)) << "chip " << chip;
        EXPECT_EQ(engine_->chip_use(chip).ready_tasks, 0u) << "chip " << chip;
      }
    }
  }

  void RunChecked() {
    int steps = 0;
    while (engine_->RunOne()) {
      Look();
      CheckExclusive();
      ASSERT_LT(++steps, 1000) << "it does not end";
    }
    Look();
    CheckExclusive();
  }

  Outcome Expected() const {
    if (stopped_.has_value()) return *stopped_;
    // A segment that waited came to its turn while its chip was faulty.
    if (stage_ == Stage::kWaiting && !health_->Check({0}).ok()) {
      return {engine::RunState::kFailed, &reason::kChipUnavailable};
    }
    if (!refused_.ok()) {
      const bool leased = !waiting_.empty() && health_->Check({0}).ok();
      return {engine::RunState::kFailed, leased ? &reason::kChipLeased : &reason::kChipUnavailable};
    }
    return {};
  }

  void CheckNothingLeft() {
    EXPECT_EQ(engine_->active_runs(), 0u);
    EXPECT_EQ(leases_->claims(), 0u);
    for (uint32_t chip = 0; chip < 2; ++chip) {
      EXPECT_EQ(engine_->chip_use(chip).ready_tasks, 0u);
      EXPECT_EQ(engine_->chip_use(chip).busy_cores, 0u);
    }
    const Session::Usage usage = session_->usage();
    EXPECT_EQ(usage.active_runs, 0u);
    EXPECT_EQ(usage.open_tasks, 0u);
    EXPECT_EQ(usage.tasks, 0u);
    EXPECT_EQ(session_->options().quota->used(Resource::kRuns), 0u);
    for (const char* const id : {"x", "y"}) {
      const absl::StatusOr<std::shared_ptr<SessionBuffer>> buffer = session_->FindBuffer(id);
      EXPECT_EQ(buffer.ok() ? (*buffer)->in_use.load() : 0u, 0u);
    }
    // Waiting sessions get chips in order, unless one of the chips is faulty.
    if (health_->Check({0}).ok() && !waiting_.empty()) {
      EXPECT_TRUE(leases_->Find(waiting_[0])->granted);
    }
    // No timer, turn or watcher keeps anything.
    const std::weak_ptr<RunEntry> run = open_->shared_run();
    const std::weak_ptr<Session> session = session_;
    sessions_->Delete(auth::Daemon(), "a", "a test").IgnoreError();
    EXPECT_TRUE(session_->log().ended());
    open_.reset();
    first_.reset();
    session_.reset();
    EXPECT_TRUE(run.expired());
    EXPECT_TRUE(session.expired());
    EXPECT_EQ(engine_->chips()[0]->memory().used_bytes(), 0u);
    EXPECT_EQ(engine_->chips()[1]->memory().used_bytes(), 0u);
  }

  const Stage stage_;
  std::shared_ptr<Session> session_;
  std::unique_ptr<OpenFill> first_;
  std::unique_ptr<OpenFill> open_;
  int told_ = 0;
  engine::RunState told_state_ = engine::RunState::kQueued;
  int holders_ = 0;
  std::vector<std::string> waiting_;  // sessions that still want chips
  absl::optional<Outcome> stopped_;
  absl::Status refused_;
};

class CrossedRunsTest : public ::testing::TestWithParam<int> {};

TEST_P(CrossedRunsTest, EndAsTheFirstEventSaysAndLeaveNothing) {
  const auto stage = static_cast<Stage>(GetParam());
  for (int first = 0; first < static_cast<int>(Event::kCount); ++first) {
    for (int second = 0; second < static_cast<int>(Event::kCount); ++second) {
      SCOPED_TRACE(
          absl::StrCat(kStages[GetParam()], ": ", kEvents[first], ", then ", kEvents[second]));
      Crossing crossing(stage);
      crossing.Do(static_cast<Event>(first));
      // A session ends once.
      const auto ends = [](int event) {
        return event == static_cast<int>(Event::kDelete) ||
               event == static_cast<int>(Event::kExpire);
      };
      if (!(ends(first) && ends(second))) crossing.Do(static_cast<Event>(second));
      crossing.Finish();
      crossing.Check();
      if (::testing::Test::HasFailure()) return;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Stages, CrossedRunsTest,
                         ::testing::Range(0, static_cast<int>(Stage::kCount)));

}  // namespace
}  // namespace pto::daemon
