// Leases of chips, and segments of open runs that wait for their turns.

#include <memory>
#include <string>
#include <thread>

#include "daemon/session/testing/held_failpoint.h"
#include "daemon/session/testing/open_run_testing.h"
#include "daemon/session/testing/session_testing.h"
#include "gtest/gtest.h"
#include "runtime/base/error.h"
#include "runtime/base/status_matchers.h"

namespace pto::daemon {
namespace {

using ::pto::daemon::testing::HeldFailpoint;
using ::pto::daemon::testing::OpenFill;
using ::pto::daemon::testing::Place;
using ::pto::daemon::testing::SessionTest;
using ::pto::testing::HasReason;
using ::pto::testing::IsOk;

const Place kX = {"x", 0};
const Place kY = {"y", 1};

// Session `a` has buffer x on chip 0 and y on chip 1; session `h` leases one chip, which is chip 0.
class LeasedOpenRunTest : public SessionTest {
 protected:
  LeasedOpenRunTest() {
    limits_.max_sessions = 4;
    limits_.max_session_active_runs = 100;
    session_ = Create("a");
    holder_ = Create("h");
    EXPECT_THAT(MakeBuffers(*session_, {{"x", 0, 64}, {"y", 1, 64}}), IsOk());
  }

  bool AskForOne() { return leases_->Ask("h", 1, auth::Daemon().name, 1000)->granted; }
  bool Granted() {
    // As often as the leases look by themselves.
    clock_.Advance(absl::Milliseconds(10));
    timers_.RunDue();
    return leases_->Find("h")->granted;
  }
  // Tasks of chip 0 that have ended, and those that are about to run.
  uint64_t Ended() const { return engine_->chip_use(0).ended_tasks; }
  uint64_t Ready() const { return engine_->chip_use(0).ready_tasks; }

  std::shared_ptr<Session> session_;
  std::shared_ptr<Session> holder_;
};

TEST_F(LeasedOpenRunTest, ALeaseWaitsForASegmentThatWaits) {
  OpenFill first(*session_, "first"), second(*session_, "second");
  ASSERT_THAT(first.Add({kY}), IsOk());
  // Behind the first one because of y; nothing of it is on chip 0 yet.
  ASSERT_THAT(second.Add({kY, kX}), IsOk());
  EXPECT_EQ(Ready(), 0u);
  EXPECT_FALSE(AskForOne());
  EXPECT_FALSE(Granted());
  while (Ended() == 0) {
    EXPECT_FALSE(Granted()) << "the segment can begin at any time";
    ASSERT_TRUE(engine_->RunOne());
  }
  RunAll();
  EXPECT_TRUE(Granted());
  EXPECT_THAT(second.Add({kX}), HasReason(reason::kChipLeased));
  EXPECT_EQ(Ended(), 1u);
  first.run().Close();
  second.run().Stop(engine::RunState::kFailed, Error(reason::kChipLeased, "a test"));
}

TEST_F(LeasedOpenRunTest, ASegmentThatIsDroppedLetsTheLeaseOn) {
  OpenFill first(*session_, "first"), second(*session_, "second");
  ASSERT_THAT(first.Add({kY}), IsOk());
  ASSERT_THAT(second.Add({kY, kX}), IsOk());
  EXPECT_FALSE(AskForOne());
  second.run().Stop(engine::RunState::kCancelled, Error(reason::kRunCancelled, "a test"));
  EXPECT_TRUE(Granted());
  first.run().Close();
  RunAll();
  EXPECT_EQ(Ended(), 0u);
}

TEST_F(LeasedOpenRunTest, TheEndOfItsSessionLetsTheLeaseOn) {
  OpenFill first(*session_, "first"), second(*session_, "second");
  ASSERT_THAT(first.Add({kY}), IsOk());
  ASSERT_THAT(second.Add({kY, kX}), IsOk());
  EXPECT_FALSE(AskForOne());
  ASSERT_THAT(sessions_->Delete(auth::Daemon(), "a", "a test"), IsOk());
  EXPECT_TRUE(Granted());
  RunAll();
  EXPECT_EQ(Ended(), 0u);
}

TEST_F(LeasedOpenRunTest, ASegmentOfTheHolderOrOfOneOfItsOwnDoesNotHoldTheLeaseUp) {
  SessionManager::Request request;
  request.id = "m";
  request.lease = "h";
  const std::shared_ptr<Session> member = sessions_->Create(auth::Daemon(), request).value();
  for (Session* const session : {holder_.get(), member.get()}) {
    ASSERT_THAT(MakeBuffers(*session, {{"x", 0, 64}, {"y", 1, 64}}), IsOk());
  }
  OpenFill first(*holder_, "first"), second(*holder_, "second");
  OpenFill third(*member, "third"), fourth(*member, "fourth");
  for (OpenFill* const open : {&first, &third}) ASSERT_THAT(open->Add({kY}), IsOk());
  for (OpenFill* const open : {&second, &fourth}) ASSERT_THAT(open->Add({kY, kX}), IsOk());
  EXPECT_TRUE(AskForOne());
  for (OpenFill* const open : {&first, &second, &third, &fourth}) open->run().Close();
  RunAll();
  EXPECT_EQ(second.state(), engine::RunState::kSucceeded);
  EXPECT_EQ(fourth.state(), engine::RunState::kSucceeded);
}

TEST_F(LeasedOpenRunTest, ASegmentThatWouldWaitOnALeasedChipIsRefused) {
  OpenFill first(*session_, "first"), second(*session_, "second");
  ASSERT_THAT(first.Add({kY}), IsOk());
  EXPECT_TRUE(AskForOne());
  EXPECT_THAT(second.Add({kY, kX}), HasReason(reason::kChipLeased));
  second.run().Stop(engine::RunState::kFailed, Error(reason::kChipLeased, "a test"));
  EXPECT_EQ(second.state(), engine::RunState::kFailed);
  first.run().Close();
  RunAll();
  EXPECT_EQ(first.state(), engine::RunState::kSucceeded);
  EXPECT_EQ(Ended(), 0u);
  EXPECT_EQ(session_->usage().active_runs, 0u);
}

// The lease is asked for when the segment has been taken and the engine does not have it yet.
TEST_F(LeasedOpenRunTest, ASegmentThatIsBeingAcceptedDoesNotBegin) {
  if (!kHasFailpoints) GTEST_SKIP() << "this build has no failpoints";
  OpenFill open(*session_, "o");
  {
    const HeldFailpoint failpoint("open_run.accept");
    std::thread appends([&] { EXPECT_THAT(open.Add({kX}), IsOk()); });
    failpoint.Await();
    EXPECT_TRUE(AskForOne());
    failpoint.Release();
    appends.join();
  }
  RunAll();
  EXPECT_EQ(Ended(), 0u) << "it ran on a chip that is another session's alone";
  ASSERT_EQ(open.state(), engine::RunState::kFailed);
  EXPECT_THAT(open.run().Status().errors[0], HasReason(reason::kChipLeased));
  EXPECT_EQ(session_->usage().open_tasks, 0u);
}

// The same of a run; also when the thread that starts it would do it itself.
TEST_F(LeasedOpenRunTest, ARunThatIsBeingAcceptedDoesNotBegin) {
  if (!kHasFailpoints) GTEST_SKIP() << "this build has no failpoints";
  const auto graph = session_->AddGraph("g", Digest(), image_).value();
  graph->last_run_ns.store(1);
  RunRequest request = FillRequest();
  request.graph = graph;
  request.help = true;
  std::shared_ptr<RunEntry> run;
  {
    const HeldFailpoint failpoint("run.accept");
    std::thread starts([&] { run = session_->StartRun(std::move(request)).value(); });
    failpoint.Await();
    EXPECT_TRUE(AskForOne());
    failpoint.Release();
    starts.join();
  }
  RunAll();
  EXPECT_EQ(Ended(), 0u) << "it ran on a chip that is another session's alone";
  ASSERT_EQ(run->Status().state, engine::RunState::kFailed);
  EXPECT_THAT(run->Status().errors[0], HasReason(reason::kChipLeased));
  EXPECT_EQ(run->Status().counts.done, 0u);
}

TEST_F(LeasedOpenRunTest, ARunThatWaitsForItsTurnKeepsALeaseWaiting) {
  const std::shared_ptr<RunEntry> first = session_->StartRun(FillRequest()).value();
  const std::shared_ptr<RunEntry> second = session_->StartRun(FillRequest()).value();
  EXPECT_FALSE(AskForOne());
  ASSERT_TRUE(engine_->RunOne());
  EXPECT_EQ(first->Status().state, engine::RunState::kSucceeded);
  EXPECT_FALSE(Granted());
  RunAll();
  EXPECT_EQ(second->Status().state, engine::RunState::kSucceeded);
  EXPECT_TRUE(Granted());
}

TEST_F(LeasedOpenRunTest, ASegmentDoesNotBeginOnAChipThatBecameFaulty) {
  OpenFill first(*session_, "first"), second(*session_, "second");
  ASSERT_THAT(first.Add({kY}), IsOk());
  ASSERT_THAT(second.Add({kY, kX}), IsOk());
  faulty_ = {0};
  health_->See(0, {});
  first.run().Close();
  RunAll();
  EXPECT_EQ(first.state(), engine::RunState::kSucceeded);
  EXPECT_EQ(Ended(), 0u);
  ASSERT_EQ(second.state(), engine::RunState::kFailed);
  EXPECT_THAT(second.run().Status().errors[0], HasReason(reason::kChipUnavailable));
}

}  // namespace
}  // namespace pto::daemon
