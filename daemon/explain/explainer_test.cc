// When dumps are written, and what they contain, with a clock that the test controls.

#include "daemon/explain/explainer.h"

#include <algorithm>
#include <filesystem>
#include <future>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/status_matchers.h"
#include "runtime/chip/sim/sim_chip.h"
#include "runtime/graph/builder.h"
#include "tests/harness/directory.h"

namespace pto::daemon {
namespace {

using ::pto::testing::IsOk;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

constexpr absl::Duration kStallAfter = absl::Seconds(2);
// The minimum interval between unsolicited dumps.
constexpr absl::Duration kInterval = absl::Seconds(10);

class ExplainerTest : public ::testing::Test {
 protected:
  ExplainerTest() {
    SessionManager::Request request;
    request.id = "s";
    session_ = node_.sessions().Create(auth::Daemon(), std::move(request)).value();
  }

  Node::Options NodeOptions() {
    Node::Options options;
    options.chips = {engine::SimChip::Create(0)};
    options.executors = 2;
    options.clock = &clock_;
    return options;
  }

  // One task with one scalar.
  std::shared_ptr<RunEntry> Start(const std::string& id, const std::string& kernel,
                                  int64_t number) {
    engine::GraphBuilder builder(node_.target());
    engine::ScalarInput scalar;
    scalar.kind = engine::ScalarInput::Kind::kInteger;
    scalar.i64 = number;
    engine::TaskInput task;
    task.kernel = builder.AddKernel(kernel).value();
    task.scalars = absl::MakeConstSpan(&scalar, 1);
    builder.AddTask(task).value();
    RunRequest request;
    request.id = id;
    request.image = builder.Build().value();
    return session_->StartRun(std::move(request)).value();
  }
  void Fail(const std::string& id) {
    std::promise<engine::RunState> ended;
    Start(id, "fail", 42)->AddWaiter([&](const RunStatus& status) {
      ended.set_value(status.state);
    });
    EXPECT_EQ(ended.get_future().get(), engine::RunState::kFailed);
  }

  // Returns when everything known before has been processed, and its dumps are written.
  static void Settle(Explainer& explainer) {
    std::promise<void> answered;
    explainer.Explain(std::make_shared<const auth::Principal>(auth::Daemon()), "s", "none", 1,
                      [&](auto) { answered.set_value(); });
    answered.get_future().wait();
  }

  std::vector<std::string> Dumps() const {
    std::vector<std::filesystem::path> paths;
    std::error_code error;
    for (const auto& file :
         std::filesystem::directory_iterator(directory_.path() + "/dumps", error)) {
      paths.push_back(file.path());
    }
    std::sort(paths.begin(), paths.end());
    std::vector<std::string> dumps;
    for (const auto& path : paths) dumps.push_back(testing::ReadFile(path));
    return dumps;
  }
  // Waits for `count` dumps with all their lines.
  std::vector<std::string> AwaitDumps(size_t count) const {
    const absl::Time deadline = absl::Now() + absl::Minutes(1);
    std::vector<std::string> dumps;
    do {
      std::this_thread::yield();
      dumps = Dumps();
    } while ((dumps.size() < count || !absl::StrContains(dumps.back(), "\"session\"")) &&
             absl::Now() < deadline);
    return dumps;
  }

  ManualClock clock_;
  const testing::Directory directory_;
  Node node_{NodeOptions()};
  std::shared_ptr<Session> session_;
};

TEST_F(ExplainerTest, AFailureSoonAfterADumpIsToldByALaterOne) {
  Explainer explainer(node_, {kStallAfter, directory_.path()});
  Fail("first");
  std::vector<std::string> dumps = AwaitDumps(1);
  ASSERT_THAT(dumps, SizeIs(1));
  EXPECT_THAT(dumps[0], AllOf(HasSubstr("a run has failed"), HasSubstr("sessions/s/runs/first"),
                              HasSubstr("KERNEL_FAILED")));
  clock_.Advance(kInterval - absl::Seconds(1));
  Fail("second");
  Fail("third");
  Settle(explainer);
  EXPECT_THAT(Dumps(), SizeIs(1)) << "it is too soon";
  clock_.Advance(absl::Seconds(1));
  dumps = AwaitDumps(2);
  ASSERT_THAT(dumps, SizeIs(2));
  EXPECT_THAT(dumps[1], AllOf(HasSubstr("2 runs have failed"), HasSubstr("sessions/s/runs/second"),
                              HasSubstr("sessions/s/runs/third"), Not(HasSubstr("runs/first"))));
}

TEST_F(ExplainerTest, AStallSoonAfterAFailureIsToldByALaterOne) {
  Explainer explainer(node_, {kStallAfter, directory_.path()});
  Fail("failed");
  ASSERT_THAT(AwaitDumps(1), SizeIs(1));
  const std::shared_ptr<RunEntry> stuck = Start("stuck", "spin", int64_t{3'600'000'000});
  while (stuck->Status().state != engine::RunState::kRunning) std::this_thread::yield();
  Settle(explainer);
  // The event shows that the stall was noticed.
  clock_.Advance(kStallAfter);
  const auto told = [&] {
    for (const LogEntry& entry : session_->log().Read(0, 100)) {
      if (std::holds_alternative<RunStall>(entry.event)) return true;
    }
    return false;
  };
  while (!told()) std::this_thread::yield();
  Settle(explainer);
  EXPECT_THAT(Dumps(), SizeIs(1)) << "it is too soon";
  // Even if it has continued meanwhile.
  ASSERT_THAT(node_.sessions().Find(auth::Daemon(), "s"), IsOk());
  stuck->Stop(engine::RunState::kCancelled, absl::CancelledError("enough"));
  while (!stuck->ended()) std::this_thread::yield();
  clock_.Advance(kInterval);
  const std::vector<std::string> dumps = AwaitDumps(2);
  ASSERT_THAT(dumps, SizeIs(2));
  EXPECT_THAT(dumps[1], AllOf(HasSubstr("a run has stalled"), HasSubstr("\"stalledRun\""),
                              HasSubstr("sessions/s/runs/stuck"), Not(HasSubstr("failed"))));
}

TEST_F(ExplainerTest, WhoAsksGetsADumpAtOnceWithAllThatIsNew) {
  Explainer explainer(node_, {kStallAfter, directory_.path()});
  Fail("first");
  ASSERT_THAT(AwaitDumps(1), SizeIs(1));
  Fail("second");
  explainer.Dump("SIGQUIT");
  const std::vector<std::string> dumps = AwaitDumps(2);
  ASSERT_THAT(dumps, SizeIs(2));
  EXPECT_THAT(dumps[1], AllOf(HasSubstr("SIGQUIT, a run has failed"), HasSubstr("runs/second")));
}

TEST_F(ExplainerTest, WhatWasHeldBackIsToldBeforeTheEnd) {
  Explainer explainer(node_, {kStallAfter, directory_.path()});
  Fail("first");
  ASSERT_THAT(AwaitDumps(1), SizeIs(1));
  Fail("second");
  explainer.Stop();
  ASSERT_THAT(Dumps(), SizeIs(2));
  EXPECT_THAT(Dumps()[1], HasSubstr("runs/second"));
  // Nothing is reported after Stop.
  Fail("third");
  EXPECT_EQ(node_.failed_runs().count(), 1u);
}

TEST_F(ExplainerTest, OfManyFailuresTheNewestAreShown) {
  Explainer explainer(node_, {kStallAfter, directory_.path()});
  Fail("first");
  ASSERT_THAT(AwaitDumps(1), SizeIs(1));
  for (size_t i = 0; i < FailedRuns::kMaxKept + 4; ++i) Fail(absl::StrCat("number-", i, "-x"));
  explainer.Stop();
  ASSERT_THAT(Dumps(), SizeIs(2));
  EXPECT_THAT(Dumps()[1], AllOf(HasSubstr("20 runs have failed"), HasSubstr("runs/number-19-x"),
                                HasSubstr("runs/number-4-x"), Not(HasSubstr("runs/number-3-x"))));
}

}  // namespace
}  // namespace pto::daemon
