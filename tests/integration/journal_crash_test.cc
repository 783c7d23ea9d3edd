// A daemon that dies at the worst moments: between writing a journal record and answering the
// client. After the restart every run has one outcome, and none is executed twice.

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "proto/status/status_proto.h"
#include "runtime/base/error.h"
#include "runtime/base/failpoint.h"
#include "runtime/base/status_matchers.h"
#include "tests/harness/api.h"
#include "tests/harness/daemon_process.h"
#include "tests/harness/directory.h"
#include "tests/harness/failpoints.h"
#include "tests/integration/world.h"

namespace pto::testing {
namespace {

using RunStub = v1::RunService::Stub;

// The journal records of one run, in this order.
constexpr int kSessionRecord = 0;
constexpr int kRunRecord = 1;
constexpr int kEndRecord = 2;

class JournalCrashTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!kHasFailpoints) GTEST_SKIP() << "a release build has no failpoints";
  }

  Api& api() { return daemon_->api(); }

  void Start(const std::string& failpoints) {
    const DaemonFailpoints set(failpoints);
    daemon_ = std::make_unique<DaemonProcess>(
        std::vector<std::string>{"--sim-chips=1", "--state-dir=" + directory_.path() + "/state"});
  }
  // Crashes at the journal record with that number.
  void StartToCrash(const std::string& failpoint, int record) {
    Start(absl::StrCat(failpoint, "=crash@", record, "*1"));
  }
  // Restarts without failpoints after the crash.
  void RestartAfterCrash() {
    EXPECT_TRUE(Eventually([&] { return !daemon_->running(); }));
    daemon_->Kill();
    daemon_->Restart();
  }

  absl::Status CreateSession() {
    v1::CreateSessionRequest request;
    request.set_session_id("mine");
    request.mutable_ttl()->set_seconds(300);
    return Call(*api().session, &v1::SessionService::Stub::CreateSession, request).status();
  }
  // Also waits for the end, so that the answer comes after it.
  absl::StatusOr<v1::Run> SubmitAndWait(const std::string& id = "once") {
    v1::SubmitRunRequest request = SubmitRequest("sessions/mine", Noops(2), id);
    request.mutable_wait()->set_seconds(50);
    return Call(*api().run, &RunStub::SubmitRun, request);
  }
  absl::StatusOr<v1::Run> Get(const std::string& id = "once") {
    v1::GetRunRequest request;
    request.set_name("sessions/mine/runs/" + id);
    return Call(*api().run, &RunStub::GetRun, request);
  }
  uint64_t ExecutedTasks() { return GetChip(api(), 0).completed_tasks(); }

  // The client asks, repeats the unanswered request, and gets the same answer each time, with and
  // without a new session of the same name.
  v1::Run ExpectOneAnswer() {
    const absl::StatusOr<v1::Run> known = Get();
    EXPECT_THAT(known, IsOk());
    if (!known.ok()) return {};
    for (int i = 0; i < 2; ++i) {
      absl::StatusOr<v1::Run> again = SubmitAndWait();
      EXPECT_THAT(again, IsOk());
      if (!again.ok()) return {};
      // Belongs to the new session, if there is one.
      again->clear_as_of_sequence();
      EXPECT_EQ(again->DebugString(), known->DebugString());
      EXPECT_THAT(CreateSession(), IsOk());
    }
    EXPECT_EQ(ExecutedTasks(), 0u) << "it was executed by the former boot or never";
    return *known;
  }

  const Directory directory_;
  std::unique_ptr<DaemonProcess> daemon_;
};

TEST_F(JournalCrashTest, BetweenARunsAcceptanceAndTheAcknowledgement) {
  StartToCrash("journal.appended", kRunRecord);
  ASSERT_THAT(CreateSession(), IsOk());
  EXPECT_FALSE(SubmitAndWait().ok());
  RestartAfterCrash();
  const v1::Run run = ExpectOneAnswer();
  EXPECT_EQ(run.state(), v1::Run::FAILED);
  EXPECT_THAT(StatusFromProto(run.error()), HasReason(reason::kDaemonRestarted));
}

TEST_F(JournalCrashTest, BeforeARunIsAcceptedItIsNot) {
  StartToCrash("journal.append", kRunRecord);
  ASSERT_THAT(CreateSession(), IsOk());
  EXPECT_FALSE(SubmitAndWait().ok());
  RestartAfterCrash();
  EXPECT_THAT(Get(), HasReason(reason::kSessionEnded));
  EXPECT_THAT(SubmitAndWait(), HasReason(reason::kSessionEnded));
  // So the client has to submit it, once.
  ASSERT_THAT(CreateSession(), IsOk());
  for (int i = 0; i < 2; ++i) {
    const absl::StatusOr<v1::Run> run = SubmitAndWait();
    ASSERT_THAT(run, IsOk());
    EXPECT_EQ(run->state(), v1::Run::SUCCEEDED);
  }
  EXPECT_EQ(ExecutedTasks(), 2u);
}

TEST_F(JournalCrashTest, BetweenARunsEndAndTheAnswer) {
  StartToCrash("journal.appended", kEndRecord);
  ASSERT_THAT(CreateSession(), IsOk());
  EXPECT_FALSE(SubmitAndWait().ok());
  RestartAfterCrash();
  EXPECT_EQ(ExpectOneAnswer().state(), v1::Run::SUCCEEDED);
}

TEST_F(JournalCrashTest, BeforeARunsEndIsKnown) {
  StartToCrash("journal.append", kEndRecord);
  ASSERT_THAT(CreateSession(), IsOk());
  EXPECT_FALSE(SubmitAndWait().ok());
  RestartAfterCrash();
  const v1::Run run = ExpectOneAnswer();
  EXPECT_EQ(run.state(), v1::Run::FAILED);
  EXPECT_THAT(StatusFromProto(run.error()), HasReason(reason::kDaemonRestarted));
}

TEST_F(JournalCrashTest, BetweenASessionsRecordAndItsAcknowledgement) {
  StartToCrash("journal.appended", kSessionRecord);
  EXPECT_FALSE(CreateSession().ok());
  RestartAfterCrash();
  EXPECT_THAT(Get(), HasReason(reason::kSessionEnded));
  EXPECT_THAT(CreateSession(), IsOk());
}

TEST_F(JournalCrashTest, WhileTheDiskWritesNothingIsForgotten) {
  Start("journal.sync=crash@1*1");
  ASSERT_THAT(CreateSession(), IsOk());
  // All runs that were answered before the crash.
  std::vector<v1::Run> answered;
  while (true) {
    const absl::StatusOr<v1::Run> run = SubmitAndWait(absl::StrCat("run-", answered.size()));
    if (!run.ok()) break;
    answered.push_back(*run);
  }
  RestartAfterCrash();
  ASSERT_FALSE(answered.empty());
  for (v1::Run& before : answered) {
    const absl::StatusOr<v1::Run> now = Get(before.name().substr(before.name().rfind('/') + 1));
    ASSERT_THAT(now, IsOk());
    before.clear_as_of_sequence();
    EXPECT_EQ(now->DebugString(), before.DebugString());
  }
}

// ---- failing writes

TEST_F(JournalCrashTest, ARunThatCannotBeWrittenIsNotAccepted) {
  Start(absl::StrCat("journal.append=error@", kRunRecord, "*1"));
  ASSERT_THAT(CreateSession(), IsOk());
  const absl::Status refused = SubmitAndWait().status();
  EXPECT_THAT(refused, HasReason(reason::kJournalUnwritable));
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(Get(), HasReason(reason::kRunUnknown));
  EXPECT_EQ(ExecutedTasks(), 0u);
  // The daemon retries by itself.
  EXPECT_TRUE(Eventually([&] { return SubmitAndWait().ok(); }));
  EXPECT_EQ(ExecutedTasks(), 2u);
}

TEST_F(JournalCrashTest, ADiskThatCannotWriteRefusesRuns) {
  Start("journal.sync=error");
  ASSERT_THAT(CreateSession(), IsOk());
  int runs = 0;
  EXPECT_TRUE(Eventually([&] {
    const absl::Status status = SubmitAndWait(absl::StrCat("run-", runs++)).status();
    return ReasonOf(status) == reason::kJournalUnwritable.name;
  }));
  EXPECT_TRUE(
      Eventually([&] { return absl::StrContains(daemon_->Log(), "cannot sync the journal"); }));
}

}  // namespace
}  // namespace pto::testing
