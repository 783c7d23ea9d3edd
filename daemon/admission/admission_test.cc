#include "daemon/admission/admission.h"

#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/journal/journal.h"
#include "daemon/session/testing/session_testing.h"
#include "gtest/gtest.h"
#include "runtime/base/error.h"
#include "runtime/base/status_matchers.h"
#include "runtime/chip/sim/sim_chip.h"

namespace pto::daemon {
namespace {

using ::pto::testing::HasReason;
using ::pto::testing::IsOk;

constexpr Digest kDigest = {1, 2, Digest::kVersion};
constexpr Digest kOther = {1, 3, Digest::kVersion};

class Images : public daemon::testing::SessionTest {
 public:
  using daemon::testing::SessionTest::FillGraph;
};

// A node that remembers its runs.
class AdmissionTest : public ::testing::Test {
 protected:
  AdmissionTest() : directory_(absl::StrCat(::testing::TempDir(), "/admission-", getpid())) {
    std::filesystem::remove_all(directory_);
    std::filesystem::create_directories(directory_);
    Boot();
  }
  ~AdmissionTest() override {
    node_.reset();
    std::filesystem::remove_all(directory_);
  }

  // A new boot, in which no session is there.
  void Boot() {
    node_.reset();
    Node::Options options;
    options.chips = {engine::SimChip::Create(0, 2, 1 << 20)};
    options.executors = 1;
    options.limits.max_session_active_runs = 3;
    options.boot_id = Node::MakeBootId();
    Journal::Options journal;
    journal.directory = directory_;
    journal.boot_id = options.boot_id;
    options.journal = Journal::Open(journal).value();
    node_ = std::make_unique<Node>(std::move(options));
  }

  std::shared_ptr<Session> Create() {
    SessionManager::Request request;
    request.id = "s";
    const std::shared_ptr<Session> session =
        node_->sessions().Create(auth::Daemon(), request).value();
    const std::vector<BufferRequest> buffers = {{"x", 0, 64}};
    session->CreateBuffers(buffers).value();
    return session;
  }

  static Admission::Request Named(const std::string& id, const Digest& digest = kDigest) {
    Admission::Request request;
    request.caller = &auth::Daemon();
    request.session = "s";
    request.run.id = id;
    request.run.digest = digest;
    return request;
  }

  absl::StatusOr<std::shared_ptr<RunEntry>> Submit(const std::string& id,
                                                   const Digest& digest = kDigest) {
    Admission::Request request = Named(id, digest);
    return Admission(*node_).Start(request, [this](Session&, RunRequest* run) {
      ++completed_;
      run->image = Images::FillGraph();
      return absl::OkStatus();
    });
  }

  absl::StatusOr<std::shared_ptr<RunEntry>> Launch(const std::string& id, LaunchTarget* target) {
    const std::string graph = "sessions/s/graphs/g";
    Admission::Request request = Named(id);
    request.graph = &graph;
    request.target = target;
    return Admission(*node_).Start(request, [this, target](Session&, RunRequest* run) {
      ++completed_;
      run->graph = target->graph;
      run->image = target->graph->image;
      return absl::OkStatus();
    });
  }

  absl::StatusOr<std::shared_ptr<RunEntry>> Open(const std::string& id) {
    Admission::Request request = Named(id, {});
    request.open = true;
    const absl::StatusOr<std::shared_ptr<RunEntry>> run = Admission(*node_).Start(request);
    EXPECT_EQ(request.opened != nullptr, run.ok());
    if (run.ok()) request.opened->Close();
    return run;
  }

  const std::string directory_;
  std::unique_ptr<Node> node_;
  int completed_ = 0;
};

TEST_F(AdmissionTest, EveryWayStartsARun) {
  const std::shared_ptr<Session> session = Create();
  session->AddGraph("g", kDigest, Images::FillGraph()).value();
  EXPECT_THAT(Submit("submitted"), IsOk());
  LaunchTarget target;
  EXPECT_THAT(Launch("launched", &target), IsOk());
  EXPECT_EQ(target.session, session);
  EXPECT_THAT(Open("opened"), IsOk());
  for (const char* id : {"submitted", "launched", "opened"}) {
    EXPECT_THAT(session->FindRun(id), IsOk());
  }
}

TEST_F(AdmissionTest, ANodeThatDrainsSaysSoFirst) {
  node_->BeginDrain("a test", absl::Seconds(1));
  EXPECT_THAT(Submit("r"), HasReason(reason::kNodeDraining));
  LaunchTarget target;
  EXPECT_THAT(Launch("r", &target), HasReason(reason::kNodeDraining));
  EXPECT_THAT(Open("r"), HasReason(reason::kNodeDraining));
  EXPECT_EQ(completed_, 0);
}

TEST_F(AdmissionTest, ThenTheSessionIsLookedFor) {
  EXPECT_THAT(Submit("r"), HasReason(reason::kSessionUnknown));
  LaunchTarget target;
  EXPECT_THAT(Launch("r", &target), HasReason(reason::kSessionUnknown));
  EXPECT_THAT(Open("r"), HasReason(reason::kSessionUnknown));
  Create();
  EXPECT_THAT(Launch("r", &target), HasReason(reason::kGraphUnknown));
  EXPECT_EQ(completed_, 0);
}

TEST_F(AdmissionTest, ARepeatedRequestIsAnsweredBeforeItsGraphIsCompiled) {
  Create();
  const std::shared_ptr<RunEntry> run = Submit("r").value();
  EXPECT_EQ(Submit("r").value(), run);
  EXPECT_THAT(Submit("r", kOther), HasReason(reason::kIdConflict));
  EXPECT_THAT(Open("r"), HasReason(reason::kRunIdUsed));
  EXPECT_EQ(completed_, 1);
}

// A request with an image is looked at once only, with the session's lock.
TEST_F(AdmissionTest, ARepeatedRequestWithItsGraphIsAnsweredToo) {
  Create();
  const auto start = [&](const Digest& digest) {
    Admission::Request request = Named("r", digest);
    request.run.image = Images::FillGraph();
    return Admission(*node_).Start(request);
  };
  const std::shared_ptr<RunEntry> run = start(kDigest).value();
  EXPECT_EQ(start(kDigest).value(), run);
  EXPECT_THAT(start(kOther), HasReason(reason::kIdConflict));
}

TEST_F(AdmissionTest, WhatTheCallerRefusesIsNotStarted) {
  const std::shared_ptr<Session> session = Create();
  Admission::Request request = Named("r");
  EXPECT_THAT(Admission(*node_).Start(request,
                                      [](Session&, RunRequest*) {
                                        return absl::Status(Error(reason::kFieldInvalid, "a test"));
                                      }),
              HasReason(reason::kFieldInvalid));
  EXPECT_THAT(session->FindRun("r"), HasReason(reason::kRunUnknown));
  EXPECT_TRUE(session->held());
  request.hold.Drop();
  EXPECT_FALSE(session->held());
}

TEST_F(AdmissionTest, ADrainThatBeginsMeanwhileRefusesTheRun) {
  const std::shared_ptr<Session> session = Create();
  for (const bool open : {false, true}) {
    if (open) Boot();
    if (open) Create();
    Admission::Request request = Named("r");
    request.open = open;
    EXPECT_THAT(Admission(*node_).Start(request,
                                        [this](Session&, RunRequest* run) {
                                          run->image = Images::FillGraph();
                                          node_->BeginDrain("a test", absl::Seconds(60));
                                          return absl::OkStatus();
                                        }),
                HasReason(reason::kNodeDraining));
    EXPECT_EQ(node_->CountActiveRuns(), 0u);
  }
}

TEST_F(AdmissionTest, ADrainWaitsForAnOpenRunThatHasNothingToDo) {
  const std::shared_ptr<Session> session = Create();
  ASSERT_THAT(session->StartOpenRun({}), IsOk());
  EXPECT_EQ(node_->BeginDrain("a test", absl::Seconds(60)).active_runs, 1u);
  EXPECT_TRUE(node_->WaitIdle(absl::ZeroDuration()));
  EXPECT_FALSE(node_->WaitDrained(absl::ZeroDuration()));
  session->StopRuns(engine::RunState::kCancelled, absl::CancelledError("a test"));
  EXPECT_TRUE(node_->WaitDrained(absl::Seconds(60)));
}

TEST_F(AdmissionTest, AFormerBootsRunAnswersWithoutItsSession) {
  Create()->AddGraph("g", kDigest, Images::FillGraph()).value();
  ASSERT_THAT(Submit("r"), IsOk());
  ASSERT_TRUE(node_->WaitIdle(absl::Seconds(60)));
  Boot();
  completed_ = 0;
  const absl::Status missing = Submit("other").status();
  EXPECT_THAT(missing, HasReason(reason::kSessionEnded));
  const Admission admission(*node_);
  EXPECT_THAT(admission.CheckFormer(auth::Daemon(), "s", "r", missing), IsOk());
  EXPECT_EQ(admission.CheckFormer(auth::Daemon(), "s", "other", missing), missing);
  LaunchTarget target;
  for (const bool has_session : {false, true}) {
    if (has_session) Create();
    const absl::StatusOr<std::shared_ptr<RunEntry>> former = Submit("r");
    ASSERT_THAT(former, IsOk());
    EXPECT_TRUE((*former)->ended());
    EXPECT_THAT(Submit("r", kOther), HasReason(reason::kIdConflict));
    EXPECT_THAT(Open("r"), HasReason(reason::kRunIdUsed));
    EXPECT_THAT(Launch("r", &target), IsOk());
  }
  EXPECT_EQ(completed_, 0);
}

TEST_F(AdmissionTest, ATargetIsKeptUntilItsGraphIsGone) {
  const std::shared_ptr<Session> session = Create();
  session->AddGraph("g", kDigest, Images::FillGraph()).value();
  LaunchTarget target;
  ASSERT_THAT(Launch("", &target), IsOk());
  const std::shared_ptr<RegisteredGraph> first = target.graph;
  ASSERT_THAT(Launch("", &target), IsOk());
  EXPECT_EQ(target.graph, first);
  ASSERT_TRUE(session->RemoveGraph("g"));
  EXPECT_THAT(Launch("", &target), HasReason(reason::kGraphUnknown));
  EXPECT_EQ(target.graph, nullptr);
  session->AddGraph("g", kDigest, Images::FillGraph()).value();
  ASSERT_THAT(Launch("", &target), IsOk());
  EXPECT_NE(target.graph, first);
}

}  // namespace
}  // namespace pto::daemon
