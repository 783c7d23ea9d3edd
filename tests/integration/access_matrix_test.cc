// Two clients, known by their users, by tokens or by certificates: whatever one of them asks about
// what belongs to the other one, the answer is the one about what does not exist.

#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "google/protobuf/descriptor.h"
#include "gtest/gtest.h"
#include "proto/status/grpc_status.h"
#include "runtime/base/error.h"
#include "runtime/base/status_matchers.h"
#include "tests/harness/api.h"
#include "tests/harness/as_user.h"
#include "tests/harness/broker_client.h"
#include "tests/harness/daemon_process.h"
#include "tests/harness/raw_call.h"
#include "tests/integration/bad_request_world.h"
#include "tests/integration/identities.h"
#include "tests/integration/world.h"

namespace pto::testing {
namespace {

using google::protobuf::MethodDescriptor;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

constexpr uid_t kOwner = 20'001;
constexpr uid_t kOther = 20'002;
constexpr uid_t kReader = 20'003;

// Ids of the same length, so that answers can be compared byte by byte: one of the owner's session,
// one of a session of the owner that has ended, one that nobody has.
constexpr char kTheirs[] = "theirs";
constexpr char kEnded[] = "ending";
constexpr char kNobody[] = "nobody";

enum class Right { kLook, kEnd, kUse };

// A request about what belongs to a session; SESSION stands for its id.
struct Row {
  std::string method;
  std::vector<std::string> messages;
  Right right;
};

// In this order: what ends something comes last.
std::vector<Row> Rows() {
  const std::string node = "/pto.v1.NodeService/";
  const std::string session = "/pto.v1.SessionService/";
  const std::string buffer = "/pto.v1.BufferService/";
  const std::string kernel = "/pto.v1.KernelService/";
  const std::string domain = "/pto.v1.DomainService/";
  const std::string run = "/pto.v1.RunService/";
  const std::string parent = "parent: 'sessions/SESSION' ";
  const std::string graph = "graph { tasks { kernel: 'noop' chip: 'chips/0' } }";
  const std::string busy = "name: 'sessions/SESSION/runs/busy' ";
  return {
      {session + "RenewSession", {"name: 'sessions/SESSION'"}, Right::kUse},
      {session + "GetSession", {"name: 'sessions/SESSION'"}, Right::kLook},
      {session + "LeaseChips", {"name: 'sessions/SESSION' count: 1"}, Right::kUse},
      {buffer + "CreateBuffers",
       {parent + "buffers { buffer_id: 'b' chip: 'chips/0' bytes: 64 }"},
       Right::kUse},
      {buffer + "GetBuffer", {"name: 'sessions/SESSION/buffers/a'"}, Right::kLook},
      {buffer + "ListBuffers", {parent}, Right::kLook},
      {buffer + "WriteBuffer", {"name: 'sessions/SESSION/buffers/a' data: 'x'"}, Right::kUse},
      {buffer + "ReadBuffer", {"name: 'sessions/SESSION/buffers/a'"}, Right::kUse},
      {buffer + "ReadBuffer",
       {"name: 'sessions/SESSION/domains/d/ranks/0/buffers/x'"},
       Right::kUse},
      {kernel + "ListKernels", {parent}, Right::kLook},
      {kernel + "GetKernel", {"name: 'sessions/SESSION/kernels/k'"}, Right::kLook},
      {kernel + "RegisterKernel", {parent}, Right::kUse},
      {kernel + "DeleteKernel", {"name: 'sessions/SESSION/kernels/k'"}, Right::kEnd},
      {domain + "CreateDomain",
       {parent + "domain_id: 'e' chips: 'chips/0' signal_count: 1"},
       Right::kUse},
      {domain + "GetDomain", {"name: 'sessions/SESSION/domains/d'"}, Right::kLook},
      {domain + "ListDomains", {parent}, Right::kLook},
      {domain + "Notify",
       {"name: 'sessions/SESSION/domains/d' signal: 1 operation: SET value: 7"},
       Right::kUse},
      {domain + "ReadSignals", {"name: 'sessions/SESSION/domains/d' count: 1"}, Right::kUse},
      {run + "SubmitRun", {parent + graph}, Right::kUse},
      {run + "SubmitRun", {parent + "run_id: 'busy' " + graph}, Right::kUse},
      {run + "SubmitPackedRun",
       {"header { parent: 'sessions/SESSION' id: 'p' kernels: 'noop' chips: 'chips/0' }"},
       Right::kUse},
      {run + "RegisterGraph", {parent + "graph_id: 'h' " + graph}, Right::kUse},
      {run + "RegisterPackedGraph",
       {"header { parent: 'sessions/SESSION' id: 'p' kernels: 'noop' chips: 'chips/0' }"},
       Right::kUse},
      {run + "GetGraph", {"name: 'sessions/SESSION/graphs/g' view: STRUCTURE"}, Right::kLook},
      {run + "LaunchGraph", {"graph: 'sessions/SESSION/graphs/g'"}, Right::kUse},
      {run + "LaunchGraph", {"graph: 'sessions/SESSION/graphs/g' run_id: 'done'"}, Right::kUse},
      {run + "StreamRun",
       {"header { parent: 'sessions/SESSION' run_id: 'o' }", "commit { }"},
       Right::kUse},
      {run + "GetRun", {"name: 'sessions/SESSION/runs/done'"}, Right::kLook},
      {run + "GetRunGraph", {busy}, Right::kLook},
      {run + "WaitRun", {busy + "timeout { nanos: 1000000 }"}, Right::kLook},
      {run + "ListRuns", {parent}, Right::kLook},
      {run + "ExplainRun", {busy}, Right::kLook},
      {run + "ExplainRun", {"name: 'sessions/SESSION/runs/done'"}, Right::kLook},
      {"/pto.v1.EventService/WatchEvents", {parent}, Right::kLook},
      {run + "CancelRun", {"name: 'sessions/SESSION/runs/done'"}, Right::kEnd},
      {run + "CancelRun", {busy}, Right::kEnd},
      {run + "DeleteGraph", {"name: 'sessions/SESSION/graphs/g'"}, Right::kEnd},
      {buffer + "DeleteBuffers", {"names: 'sessions/SESSION/buffers/a'"}, Right::kEnd},
      {domain + "RevokeDomain", {"name: 'sessions/SESSION/domains/d'"}, Right::kEnd},
      {domain + "DeleteDomain", {"name: 'sessions/SESSION/domains/d'"}, Right::kEnd},
      {session + "DeleteSession", {"name: 'sessions/SESSION'"}, Right::kEnd},
  };
}

// Methods without a row, each with the test that is about it.
const std::set<std::string>& Others() {
  static const auto* const others = new std::set<std::string>{
      // Of the node, and lists of all: see ListsHaveOnlyTheOwn and OnlyOperatorsChangeTheNode.
      "GetNode", "GetConfig", "ListChips", "GetChip", "DrainNode", "ResetChip", "ListUsage",
      "ListSessions", "ListHosts",
      // See AnIdThatIsTakenSaysNotByWhom.
      "CreateSession",
      // Answers one by one: see ALaunchStreamKnowsNoForeignGraphs.
      "LaunchStream"};
  return *others;
}

class AccessMatrixTest : public ::testing::TestWithParam<Identities::Kind> {
 protected:
  void SetUp() override {
    // In a sandbox whose user namespace has only one user nothing of this can be tried.
    ASSERT_TRUE(CanBecome(kOwner)) << "this sandbox has only one user";
    OpenTo(daemon_.directory());
    owner_ = Connect(kOwner);
    other_ = Connect(kOther);
    reader_ = Connect(kReader);
    Furnish();
  }

  std::unique_ptr<Api> Connect(uid_t client) {
    return std::make_unique<Api>(identities_.Connect(client, daemon_));
  }

  std::vector<std::string> Flags() {
    const std::string file = files_.path() + "/policy";
    WriteFile(file,
              absl::StrCat("grants { to: '", identities_.NameOf(kReader), "' roles: READER }"));
    std::vector<std::string> flags = identities_.flags();
    for (const std::string& flag :
         {std::string("--sim-chips=2"), std::string("--sim-memory=64M"), "--access-policy=" + file,
          std::string("--drain-grace=0s"), std::string("--kernel-uploads=users")}) {
      flags.push_back(flag);
    }
    return flags;
  }
  static void WriteFile(const std::string& path, const std::string& text);

  static absl::Status TryCreate(Api& api, const std::string& text) {
    return Call(*api.session, &v1::SessionService::Stub::CreateSession,
                Proto<v1::CreateSessionRequest>(text))
        .status();
  }

  // Everything that a session can have, of the owner.
  void Furnish() {
    for (const char* id : {kTheirs, kEnded}) {
      ASSERT_THAT(TryCreate(*owner_, absl::StrCat("session_id: '", id,
                                                  "' ttl { seconds: 600 } "
                                                  "attach_key: '",
                                                  std::string(32, 'k'), "'")),
                  IsOk());
    }
    const std::string session = absl::StrCat("sessions/", kTheirs);
    MakeBuffer(*owner_, session, "a", 4096);
    ASSERT_THAT(Call(*owner_->domain, &v1::DomainService::Stub::CreateDomain,
                     Proto<v1::CreateDomainRequest>(
                         absl::StrCat("parent: '", session,
                                      "' domain_id: 'd' chips: 'chips/0' signal_count: 4 "
                                      "buffers { name: 'x' dtype: F32 count: 16 }"))),
                IsOk());
    ASSERT_THAT(Call(*owner_->run, &v1::RunService::Stub::RegisterGraph,
                     Proto<v1::RegisterGraphRequest>(
                         absl::StrCat("parent: '", session,
                                      "' graph_id: 'g' "
                                      "graph { tasks { kernel: 'noop' chip: 'chips/0' } }"))),
                IsOk());
    Submit(*owner_, session, Noops(1), "done");
    ASSERT_EQ(WaitForRun(*owner_, session + "/runs/done").state(), v1::Run::SUCCEEDED);
    ASSERT_THAT(Call(*owner_->session, &v1::SessionService::Stub::LeaseChips,
                     Proto<v1::LeaseChipsRequest>(
                         absl::StrCat("name: '", session, "' count: 1 wait { seconds: 30 }"))),
                IsOk());
    Submit(*owner_, session, Spin(absl::Minutes(10)), "busy");
    WaitUntilRunning(*owner_, session + "/runs/busy");
    DeleteSession(*owner_, absl::StrCat("sessions/", kEnded));
  }

  static grpc::Status Send(Api& api, const Row& row, const std::string& session,
                           absl::Duration timeout = kCallTimeout) {
    const MethodDescriptor* const method = FindMethod(row.method);
    std::vector<std::string> messages;
    for (const std::string& text : row.messages) {
      messages.push_back(Serialize(method, absl::StrReplaceAll(text, {{"SESSION", session}})));
    }
    return RawCall(api.channel, row.method, messages, timeout);
  }

  // The whole answer, as if it were about a session of this id.
  static std::string TextOf(const grpc::Status& status, const std::string& session,
                            const std::string& as) {
    return absl::StrReplaceAll(absl::StrCat(status.error_code(), "\n", status.error_message(), "\n",
                                            status.error_details()),
                               {{session, as}});
  }

  static bool WasAdmitted(const grpc::Status& status) {
    if (status.ok() || status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) return true;
    const std::string reason = ReasonOf(FromGrpcStatus(status));
    // The session has no kernels, and what is uploaded is none.
    return reason == reason::kBufferInUse.name || reason == reason::kKernelUnknown.name ||
           reason == reason::kFieldInvalid.name;
  }

  const Directory files_;
  const Identities identities_{GetParam(), files_.path(), {kOwner, kOther, kReader}};
  DaemonProcess daemon_{Flags()};
  std::unique_ptr<Api> owner_;
  std::unique_ptr<Api> other_;
  std::unique_ptr<Api> reader_;
};

void AccessMatrixTest::WriteFile(const std::string& path, const std::string& text) {
  FILE* const file = std::fopen(path.c_str(), "w");
  ASSERT_NE(file, nullptr);
  std::fputs(text.c_str(), file);
  std::fclose(file);
}

TEST(AccessMatrixTableTest, EveryMethodHasARow) {
  const std::vector<Row> rows = Rows();
  for (const MethodDescriptor* method : AllMethods()) {
    const bool has_row = std::any_of(rows.begin(), rows.end(),
                                     [&](const Row& row) { return row.method == PathOf(method); });
    EXPECT_NE(has_row, Others().count(method->name()) > 0) << method->full_name();
  }
}

TEST_P(AccessMatrixTest, WhatBelongsToSomebodyElseDoesNotExist) {
  for (const Row& row : Rows()) {
    SCOPED_TRACE(absl::StrCat(row.method, " ", row.messages[0]));
    const grpc::Status unknown = Send(*other_, row, kNobody);
    EXPECT_EQ(unknown.error_code(), grpc::StatusCode::NOT_FOUND) << unknown.error_message();
    EXPECT_EQ(ReasonOf(FromGrpcStatus(unknown)), reason::kSessionUnknown.name);
    for (const char* session : {kTheirs, kEnded}) {
      EXPECT_EQ(TextOf(Send(*other_, row, session), session, kNobody),
                TextOf(unknown, kNobody, kNobody));
    }
  }
  // Nothing has changed.
  EXPECT_EQ(GetRun(*owner_, "sessions/theirs/runs/busy").state(), v1::Run::RUNNING);
  const auto signals =
      Call(*owner_->domain, &v1::DomainService::Stub::ReadSignals,
           Proto<v1::ReadSignalsRequest>("name: 'sessions/theirs/domains/d' first: 1 count: 1"));
  ASSERT_THAT(signals, IsOk());
  EXPECT_EQ(signals->values(0), 0u);
  // Who may end it can.
  CancelRun(*owner_, "sessions/theirs/runs/busy");
  EXPECT_EQ(WaitForRun(*owner_, "sessions/theirs/runs/busy").state(), v1::Run::CANCELLED);
}

TEST_P(AccessMatrixTest, ADeleteThatMayFindNothingFindsNothing) {
  for (const char* session : {kTheirs, kEnded, kNobody}) {
    v1::DeleteSessionRequest request;
    request.set_name(absl::StrCat("sessions/", session));
    request.set_allow_missing(true);
    const auto deleted = Call(*other_->session, &v1::SessionService::Stub::DeleteSession, request);
    ASSERT_THAT(deleted, IsOk());
    EXPECT_EQ(deleted->state(), v1::Session::ENDED);
    EXPECT_EQ(deleted->owner(), "");
  }
  EXPECT_TRUE(SessionLives(*owner_, "sessions/theirs"));
  CancelRun(*owner_, "sessions/theirs/runs/busy");
}

TEST_P(AccessMatrixTest, AReaderLooksAndAnOperatorAlsoEnds) {
  for (const Row& row : Rows()) {
    SCOPED_TRACE(absl::StrCat(row.method, " ", row.messages[0]));
    const bool endless = absl::EndsWith(row.method, "WatchEvents");
    const absl::Duration timeout = endless ? absl::Milliseconds(300) : kCallTimeout;
    const auto expect = [&](const grpc::Status& status, bool may) {
      if (may) {
        EXPECT_TRUE(WasAdmitted(status)) << status.error_message();
      } else {
        EXPECT_EQ(ReasonOf(FromGrpcStatus(status)), reason::kPermissionDenied.name)
            << status.error_message();
      }
    };
    expect(Send(*reader_, row, kTheirs, timeout), row.right == Right::kLook);
    // The test's own user is root.
    expect(Send(daemon_.api(), row, kTheirs, timeout), row.right != Right::kUse);
  }
  EXPECT_FALSE(SessionLives(*owner_, "sessions/theirs"));
}

TEST_P(AccessMatrixTest, ListsHaveOnlyTheOwn) {
  ASSERT_THAT(TryCreate(*other_, "session_id: 'mine' ttl { seconds: 600 }"), IsOk());
  const auto expect_sessions = [](Api& api, std::vector<std::string> wanted) {
    const auto sessions =
        Call(*api.session, &v1::SessionService::Stub::ListSessions, v1::ListSessionsRequest());
    ASSERT_THAT(sessions, IsOk());
    std::vector<std::string> names;
    for (const v1::Session& session : sessions->sessions()) names.push_back(session.name());
    EXPECT_EQ(names, wanted);
  };
  expect_sessions(*other_, {"sessions/mine"});
  expect_sessions(*owner_, {"sessions/theirs"});
  expect_sessions(*reader_, {"sessions/mine", "sessions/theirs"});
  expect_sessions(daemon_.api(), {"sessions/mine", "sessions/theirs"});
  const auto runs_of = [](Api& api) {
    const auto runs = Call(*api.run, &v1::RunService::Stub::ListRuns,
                           Proto<v1::ListRunsRequest>("parent: 'sessions/-'"));
    EXPECT_THAT(runs, IsOk());
    return runs.ok() ? runs->runs_size() : -1;
  };
  EXPECT_EQ(runs_of(*other_), 0);
  EXPECT_EQ(runs_of(*owner_), 2);
  EXPECT_EQ(runs_of(*reader_), 2);
  // A page after another one's session is as long.
  const auto page = Call(*reader_->session, &v1::SessionService::Stub::ListSessions,
                         Proto<v1::ListSessionsRequest>("page_size: 1"));
  ASSERT_THAT(page, IsOk());
  v1::ListSessionsRequest next;
  next.set_page_token(page->next_page_token());
  const auto rest = Call(*other_->session, &v1::SessionService::Stub::ListSessions, next);
  ASSERT_THAT(rest, IsOk());
  EXPECT_THAT(rest->sessions(), IsEmpty());
  EXPECT_EQ(rest->next_page_token(), "");
  // That a chip is leased, but not by whom.
  const auto chips = Call(*other_->node, &v1::NodeService::Stub::ListChips, v1::ListChipsRequest());
  ASSERT_THAT(chips, IsOk());
  EXPECT_TRUE(chips->chips(0).leased());
  EXPECT_EQ(chips->chips(0).lease(), "");
  EXPECT_EQ(GetChip(*owner_, 0).lease(), "sessions/theirs");
  EXPECT_EQ(GetChip(*reader_, 0).lease(), "sessions/theirs");
  EXPECT_EQ(GetChip(*other_, 0).lease(), "");
  const auto node = Call(*other_->node, &v1::NodeService::Stub::GetNode, v1::GetNodeRequest());
  ASSERT_THAT(node, IsOk());
  EXPECT_THAT(node->DebugString(), Not(HasSubstr(kTheirs)));
  CancelRun(*owner_, "sessions/theirs/runs/busy");
}

TEST_P(AccessMatrixTest, OnlyOperatorsChangeTheNode) {
  const Row reset = {"/pto.v1.NodeService/ResetChip", {"name: 'chips/1' force: true"}, Right::kUse};
  const Row drain = {"/pto.v1.NodeService/DrainNode", {"reason: 'x'"}, Right::kUse};
  const Row config = {"/pto.v1.NodeService/GetConfig", {""}, Right::kLook};
  for (Api* api : {owner_.get(), other_.get(), reader_.get()}) {
    for (const Row& row : {reset, drain}) {
      const absl::Status denied = FromGrpcStatus(Send(*api, row, ""));
      EXPECT_THAT(denied, HasReason(reason::kPermissionDenied)) << row.method;
      EXPECT_THAT(std::string(denied.message()), HasSubstr("needs the role operator"));
    }
  }
  EXPECT_EQ(ReasonOf(FromGrpcStatus(Send(*other_, config, ""))), reason::kPermissionDenied.name);
  EXPECT_TRUE(Send(*reader_, config, "").ok());
  EXPECT_FALSE(testing::GetNode(*other_).draining());
  EXPECT_EQ(GetRun(*owner_, "sessions/theirs/runs/busy").state(), v1::Run::RUNNING);
  EXPECT_TRUE(Send(daemon_.api(), reset, "").ok());
  EXPECT_TRUE(Send(daemon_.api(), drain, "").ok());
  EXPECT_TRUE(testing::GetNode(*other_).draining());
}

TEST_P(AccessMatrixTest, AnIdThatIsTakenSaysNotByWhom) {
  const absl::Status live = TryCreate(*other_, "session_id: 'theirs' ttl { seconds: 600 }");
  EXPECT_THAT(live, HasReason(reason::kSessionIdUsed));
  const absl::Status ended = TryCreate(*other_, "session_id: 'ending' ttl { seconds: 600 }");
  EXPECT_EQ(absl::StrReplaceAll(ended.message(), {{kEnded, kTheirs}}), live.message());
  // As for the owner itself.
  EXPECT_EQ(TryCreate(*owner_, "session_id: 'ending' ttl { seconds: 600 }"), ended);
  CancelRun(*owner_, "sessions/theirs/runs/busy");
}

TEST_P(AccessMatrixTest, ALaunchStreamKnowsNoForeignGraphs) {
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + kCallTimeout));
  const auto stream = other_->run->LaunchStream(&context);
  const auto launch = [&](const std::string& session) {
    v1::LaunchStreamRequest request;
    request.mutable_launch()->set_graph(absl::StrCat("sessions/", session, "/graphs/g"));
    EXPECT_TRUE(stream->Write(request));
    v1::LaunchCompletion completion;
    EXPECT_TRUE(stream->Read(&completion));
    return absl::StrReplaceAll(completion.SerializeAsString(), {{session, kNobody}});
  };
  const std::string unknown = launch(kNobody);
  EXPECT_EQ(launch(kTheirs), unknown);
  EXPECT_EQ(launch(kEnded), unknown);
  EXPECT_THAT(unknown, HasSubstr("SESSION_UNKNOWN"));
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
  CancelRun(*owner_, "sessions/theirs/runs/busy");
}

TEST_P(AccessMatrixTest, AForeignLeaseIsOfNoUseAndHasNoName) {
  ASSERT_THAT(
      TryCreate(*other_, "session_id: 'mine' ttl { seconds: 600 } lease: 'sessions/theirs'"),
      IsOk());
  const absl::Status refused =
      Call(*other_->run, &v1::RunService::Stub::SubmitRun, SubmitRequest("sessions/mine", Noops(1)))
          .status();
  EXPECT_THAT(refused, HasReason(reason::kChipLeased));
  EXPECT_EQ(refused.message(), "chips/0 is leased to another client");
  EXPECT_THAT(ToGrpcStatus(refused).error_details(), Not(HasSubstr(kTheirs)));
  CancelRun(*owner_, "sessions/theirs/runs/busy");
}

TEST_P(AccessMatrixTest, AnExplanationNamesNoForeignRuns) {
  ASSERT_THAT(TryCreate(*other_, "session_id: 'mine' ttl { seconds: 600 }"), IsOk());
  ASSERT_THAT(TryCreate(*owner_, "session_id: 'theirs-too' ttl { seconds: 600 }"), IsOk());
  // All cores of the other chip are the owner's, so the other one's run waits for them.
  v1::GraphSpec spins;
  for (int i = 0; i < 72; ++i) spins.MergeFrom(Spin(absl::Minutes(10), 1));
  for (v1::TaskSpec& task : *spins.mutable_tasks()) task.set_name("a-secret-task");
  for (int i = 0; i < spins.tasks_size(); ++i) {
    spins.mutable_tasks(i)->set_name(absl::StrCat("a-secret-task-", i));
  }
  const v1::Run hog = Submit(*owner_, "sessions/theirs-too", spins);
  WaitUntilRunning(*owner_, hog.name());
  const v1::Run waits = Submit(*other_, "sessions/mine", Spin(absl::Seconds(1), 1));
  v1::ExplainRunRequest request;
  request.set_name(waits.name());
  for (int i = 0; i < 20; ++i) {
    const auto explained = Call(*other_->run, &v1::RunService::Stub::ExplainRun, request);
    ASSERT_THAT(explained, IsOk());
    EXPECT_THAT(explained->DebugString(), Not(HasSubstr(kTheirs)));
    EXPECT_THAT(explained->DebugString(), Not(HasSubstr("a-secret")));
  }
  CancelRun(*owner_, hog.name());
  CancelRun(*other_, waits.name());
  CancelRun(*owner_, "sessions/theirs/runs/busy");
}

TEST_P(AccessMatrixTest, TheBrokerKnowsTheOwner) {
  const std::string socket = testing::GetNode(*owner_).broker_socket();
  ASSERT_NE(socket, "");
  OpenTo(daemon_.directory());
  // Also who knows the key.
  for (const uid_t user : {kOther, kReader, uid_t{0}}) {
    RunAs(user, [&] {
      const BrokerClient client(socket);
      EXPECT_EQ(client.Attach(kTheirs, 'k'), broker::Outcome::kDenied) << user;
    });
  }
  // Only users can be known there.
  RunAs(kOwner, [&] {
    const BrokerClient client(socket);
    EXPECT_EQ(client.Attach(kTheirs, 'k'), GetParam() == Identities::Kind::kUsers
                                               ? broker::Outcome::kOk
                                               : broker::Outcome::kDenied);
  });
  CancelRun(*owner_, "sessions/theirs/runs/busy");
}

TEST_P(AccessMatrixTest, WhatARequestSaysOfTheClientIsALabel) {
  ASSERT_THAT(TryCreate(*other_, absl::StrCat("session_id: 'mine' ttl { seconds: 600 } client: '",
                                              identities_.NameOf(kOwner), "'")),
              IsOk());
  const auto session = Call(*other_->session, &v1::SessionService::Stub::GetSession,
                            Proto<v1::GetSessionRequest>("name: 'sessions/mine'"));
  ASSERT_THAT(session, IsOk());
  EXPECT_EQ(session->owner(), identities_.NameOf(kOther));
  EXPECT_EQ(session->client(), identities_.NameOf(kOwner));
  EXPECT_FALSE(SessionLives(*owner_, "sessions/mine"));
  CancelRun(*owner_, "sessions/theirs/runs/busy");
}

TEST_P(AccessMatrixTest, AHighPriorityNeedsPermission) {
  v1::SubmitRunRequest request = SubmitRequest("sessions/theirs", Noops(1));
  request.mutable_options()->set_priority(v1::HIGH);
  const absl::Status denied =
      Call(*owner_->run, &v1::RunService::Stub::SubmitRun, request).status();
  EXPECT_THAT(denied, HasReason(reason::kPermissionDenied));
  EXPECT_THAT(std::string(denied.message()), HasSubstr("max_priority: HIGH"));
  EXPECT_EQ(GetErrorDetail(denied)->field, "options.priority");
  const auto launch = Call(*owner_->run, &v1::RunService::Stub::LaunchGraph,
                           Proto<v1::LaunchGraphRequest>(
                               "graph: 'sessions/theirs/graphs/g' options { priority: HIGH }"));
  EXPECT_THAT(launch, HasReason(reason::kPermissionDenied));
  // The test's own user is root.
  ASSERT_THAT(TryCreate(daemon_.api(), "session_id: 'roots' ttl { seconds: 600 }"), IsOk());
  request.set_parent("sessions/roots");
  request.mutable_graph()->mutable_tasks(0)->set_chip("chips/1");
  EXPECT_THAT(Call(*daemon_.api().run, &v1::RunService::Stub::SubmitRun, request), IsOk());
  CancelRun(*owner_, "sessions/theirs/runs/busy");
}

// One client's sessions, however quickly it makes them, keep nobody else out.
TEST_P(AccessMatrixTest, OneClientCannotTakeAllSessions) {
  int made = 0;
  absl::Status refused;
  while (refused.ok() && made < 2000) {
    refused = TryCreate(*other_, absl::StrCat("session_id: 's", made++, "' ttl { seconds: 3600 }"));
  }
  EXPECT_THAT(refused, HasReason(reason::kQuotaSessions));
  EXPECT_EQ(GetErrorDetail(refused)->quota->limit, 256u);
  EXPECT_THAT(TryCreate(*owner_, "session_id: 'another' ttl { seconds: 600 }"), IsOk());
  EXPECT_THAT(TryCreate(daemon_.api(), "session_id: 'roots' ttl { seconds: 600 }"), IsOk());
  CancelRun(*owner_, "sessions/theirs/runs/busy");
}

TEST_P(AccessMatrixTest, OneClientCannotLeaseAllChips) {
  ASSERT_THAT(TryCreate(*other_, "session_id: 'mine' ttl { seconds: 600 }"), IsOk());
  EXPECT_THAT(Call(*other_->session, &v1::SessionService::Stub::LeaseChips,
                   Proto<v1::LeaseChipsRequest>("name: 'sessions/mine' count: 2")),
              HasReason(reason::kQuotaChips));
  EXPECT_THAT(Call(*other_->session, &v1::SessionService::Stub::LeaseChips,
                   Proto<v1::LeaseChipsRequest>("name: 'sessions/mine' count: 1")),
              IsOk());
  CancelRun(*owner_, "sessions/theirs/runs/busy");
}

INSTANTIATE_TEST_SUITE_P(, AccessMatrixTest,
                         ::testing::Values(Identities::Kind::kUsers, Identities::Kind::kTokens,
                                           Identities::Kind::kCertificates),
                         ::testing::PrintToStringParamName());

}  // namespace
}  // namespace pto::testing
