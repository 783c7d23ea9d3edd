#include "daemon/auth/access.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "pto/v1/buffer.pb.h"
#include "pto/v1/domain.pb.h"
#include "pto/v1/run.pb.h"
#include "pto/v1/session.pb.h"
#include "runtime/base/error.h"
#include "runtime/base/status_matchers.h"

namespace pto::daemon::auth {
namespace {

using ::pto::testing::HasReason;
using ::pto::testing::IsOk;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

absl::optional<std::string> NoMetadata(absl::string_view) { return absl::nullopt; }

rpc::Peer Unix(uint32_t uid) {
  rpc::Peer peer;
  peer.transport = rpc::Peer::Transport::kUnix;
  peer.uid = uid;
  peer.pid = 77;
  return peer;
}

template <typename Message>
std::vector<std::string> Names(const std::string& text) {
  Message message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message)) << text;
  return NamesIn(message);
}

TEST(NamesInTest, AreTheResourcesOfARequest) {
  EXPECT_THAT(Names<v1::CreateSessionRequest>(
                  "session_id: 's' client: 'c' lease: 'sessions/t' attach_key: 'secret'"),
              ElementsAre("sessions/s", "sessions/t"));
  EXPECT_THAT(Names<v1::CreateBuffersRequest>("parent: 'sessions/s' buffers { buffer_id: 'a' "
                                              "chip: 'chips/0' bytes: 1 } buffers { buffer_id: "
                                              "'b' }"),
              ElementsAre("sessions/s", "sessions/s/buffers/a", "sessions/s/buffers/b"));
  EXPECT_THAT(Names<v1::DeleteBuffersRequest>("names: 'sessions/s/buffers/a'"),
              ElementsAre("sessions/s/buffers/a"));
  EXPECT_THAT(Names<v1::SubmitRunRequest>(
                  "parent: 'sessions/s' run_id: 'r' graph { tasks { name: 't' kernel: 'k' } }"),
              ElementsAre("sessions/s", "sessions/s/runs/r"));
  EXPECT_THAT(Names<v1::LaunchGraphRequest>("graph: 'sessions/s/graphs/g' run_id: 'r' "
                                            "buffers { slot: 'x' buffer: 'y' } "
                                            "scalars { name: 'n' }"),
              ElementsAre("sessions/s/graphs/g", "runs/r"));
  EXPECT_THAT(Names<v1::LaunchStreamRequest>("tag: 1 launch { graph: 'sessions/s/graphs/g' }"),
              ElementsAre("sessions/s/graphs/g"));
  EXPECT_THAT(Names<v1::StreamRunRequest>("header { parent: 'sessions/s' run_id: 'r' }"),
              ElementsAre("sessions/s", "sessions/s/runs/r"));
  EXPECT_THAT(Names<v1::CreateDomainRequest>(
                  "parent: 'sessions/s' domain_id: 'd' buffers { name: 'x' } chips: 'chips/0'"),
              ElementsAre("sessions/s", "sessions/s/domains/d"));
  EXPECT_THAT(Names<v1::WriteBufferRequest>("name: 'sessions/s/buffers/a' data: 'secret'"),
              ElementsAre("sessions/s/buffers/a"));
}

TEST(NamesInTest, AreNotWithoutEnd) {
  v1::DeleteBuffersRequest request;
  for (int i = 0; i < 1000; ++i) request.add_names("sessions/s/buffers/a");
  EXPECT_THAT(NamesIn(request), SizeIs(16));
}

class AccessTest : public ::testing::Test {
 protected:
  AccessTest() : path_(absl::StrCat(::testing::TempDir(), "/access-", getpid())) {
    Access::Options options;
    options.identity.own_uid = 900;
    options.audit_log = path_;
    access_ = Access::Open(std::move(options)).value();
  }
  ~AccessTest() override { std::filesystem::remove(path_); }

  absl::StatusOr<Caller> Admit(absl::string_view method, uint32_t uid) {
    const rpc::Peer peer = Unix(uid);
    return access_->Admit(FindMethod(method), &peer, NoMetadata, nullptr);
  }
  std::vector<std::string> Lines() {
    access_->audit_log()->Flush();
    std::ifstream in(path_);
    std::vector<std::string> lines;
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    return lines;
  }

  const std::string path_;
  std::unique_ptr<Access> access_;
};

TEST_F(AccessTest, OperatorsAreKnownByTheirConnections) {
  EXPECT_TRUE(access_->Operates(Unix(0)));
  EXPECT_TRUE(access_->Operates(Unix(900)));
  EXPECT_FALSE(access_->Operates(Unix(1000)));
  rpc::Peer remote = Unix(0);
  remote.transport = rpc::Peer::Transport::kTcp;
  EXPECT_FALSE(access_->Operates(remote));
}

TEST_F(AccessTest, MethodsOfTheNodeNeedRoles) {
  for (const char* method : {"pto.v1.NodeService/DrainNode", "pto.v1.NodeService/ResetChip",
                             "pto.v1.NodeService/GetConfig"}) {
    const absl::Status denied = Admit(method, 1000).status();
    EXPECT_THAT(denied, HasReason(reason::kPermissionDenied)) << method;
    EXPECT_EQ(denied.code(), absl::StatusCode::kPermissionDenied);
    EXPECT_THAT(Admit(method, 0), IsOk()) << method;
    EXPECT_THAT(Admit(method, 900), IsOk()) << method;
  }
  EXPECT_EQ(Admit("pto.v1.NodeService/DrainNode", 1000).status().message(),
            "uid-1000 may not call DrainNode: that needs the role operator");
  EXPECT_THAT(Admit("pto.v1.NodeService/GetNode", 1000), IsOk());
  // Who was refused for who they are is written down, whatever the method.
  EXPECT_THAT(Lines(), SizeIs(4));
  EXPECT_THAT(Lines()[0], HasSubstr(R"("principal":"uid-1000","pid":77)"));
  EXPECT_THAT(Lines()[0], HasSubstr(R"("reason":"PERMISSION_DENIED")"));
}

TEST_F(AccessTest, WhatChangesSomethingIsWrittenDownAndWhatReadsIsNot) {
  const rpc::Peer peer = Unix(1000);
  const Caller caller = Admit("pto.v1.RunService/GetRun", 1000).value();
  v1::CancelRunRequest request;
  request.set_name("sessions/s/runs/r");
  access_->Note(FindMethod("pto.v1.RunService/GetRun"), caller.get(), &peer, &request,
                absl::OkStatus());
  EXPECT_THAT(Lines(), IsEmpty());
  access_->Note(FindMethod("pto.v1.RunService/CancelRun"), caller.get(), &peer, &request,
                Error(reason::kRunUnknown, "there is no such run"));
  EXPECT_THAT(Lines(), ElementsAre(HasSubstr(
                           R"("method":"pto.v1.RunService/CancelRun","session":"sessions/s",)"
                           R"("names":["sessions/s/runs/r"],"code":"NOT_FOUND",)"
                           R"("reason":"RUN_UNKNOWN")")));
}

TEST(NoAccessTest, WithoutAConfigurationTheOwnUserIsAnOperator) {
  Access access;
  EXPECT_FALSE(access.audits());
  const rpc::Peer peer = Unix(geteuid());
  EXPECT_TRUE(access.Admit(FindMethod("pto.v1.NodeService/DrainNode"), &peer, NoMetadata, nullptr)
                  .value()
                  ->rights.operates);
}

}  // namespace
}  // namespace pto::daemon::auth
