// Every call that changes something is a line of the audit log.

#include <unistd.h>

#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "daemon/auth/methods.h"
#include "gmock/gmock.h"
#include "google/protobuf/descriptor.h"
#include "gtest/gtest.h"
#include "runtime/base/status_matchers.h"
#include "tests/harness/daemon_process.h"
#include "tests/harness/directory.h"
#include "tests/harness/raw_call.h"
#include "tests/integration/bad_request_world.h"
#include "tests/integration/world.h"

namespace pto::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

class AuditTest : public ::testing::Test {
 protected:
  std::string path() const { return files_.path() + "/audit"; }

  static std::vector<std::string> Lines(const std::string& path) {
    std::ifstream in(path);
    std::vector<std::string> lines;
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    return lines;
  }
  // The lines about a method, when there are so many.
  std::vector<std::string> About(const std::string& method, size_t count) {
    std::vector<std::string> found;
    EXPECT_TRUE(Eventually([&] {
      found.clear();
      for (const std::string& line : Lines(path())) {
        if (absl::StrContains(line, absl::StrCat("/", method, "\""))) found.push_back(line);
      }
      return found.size() >= count;
    })) << method;
    return found;
  }

  const Directory files_;
  DaemonProcess daemon_{{"--sim-chips=1", "--audit-log=" + path(), "--drain-grace=0s"}};
};

TEST_F(AuditTest, EveryMethodThatChangesSomethingIsALine) {
  for (const google::protobuf::MethodDescriptor* method : AllMethods()) {
    RawCall(daemon_.api().channel, PathOf(method), {""});
  }
  daemon_.Stop();
  std::map<std::string, int> lines;
  for (const std::string& line : Lines(path())) {
    for (const daemon::auth::Method& method : daemon::auth::AllMethods()) {
      if (absl::StrContains(line, absl::StrCat("\"method\":\"", method.name, "\""))) {
        ++lines[std::string(method.name)];
      }
    }
    EXPECT_THAT(line, HasSubstr(absl::StrCat("\"principal\":\"uid-", geteuid(), "\"")));
    EXPECT_THAT(line, HasSubstr("\"pid\":"));
    EXPECT_THAT(line, HasSubstr("\"code\":\""));
  }
  for (const daemon::auth::Method& method : daemon::auth::AllMethods()) {
    EXPECT_EQ(lines[std::string(method.name)], method.mutates ? 1 : 0) << method.name;
  }
}

TEST_F(AuditTest, ALineSaysWhatWasAskedAndHowThatEnded) {
  const std::string session = MakeSession(daemon_.api());
  MakeBuffer(daemon_.api(), session, "a", 4096);
  const v1::Run run = Submit(daemon_.api(), session, Noops(1), "r");
  WaitForRun(daemon_.api(), run.name());
  v1::CancelRunRequest unknown;
  unknown.set_name(session + "/runs/none");
  EXPECT_FALSE(Call(*daemon_.api().run, &v1::RunService::Stub::CancelRun, unknown).ok());
  const std::string created = About("CreateSession", 1)[0];
  EXPECT_THAT(created, HasSubstr(absl::StrCat("\"session\":\"", session, "\"")));
  EXPECT_THAT(created, HasSubstr("\"code\":\"OK\""));
  EXPECT_THAT(About("CreateBuffers", 1)[0], HasSubstr(session + "/buffers/a"));
  EXPECT_THAT(About("SubmitRun", 1)[0], HasSubstr(session + "/runs/r"));
  EXPECT_THAT(About("CancelRun", 1)[0],
              HasSubstr("\"code\":\"NOT_FOUND\",\"reason\":\"RUN_UNKNOWN\""));
}

TEST_F(AuditTest, ALaunchStreamIsOneLine) {
  const std::string session = MakeSession(daemon_.api());
  v1::RegisterGraphRequest graph;
  graph.set_parent(session);
  graph.set_graph_id("g");
  *graph.mutable_graph() = Noops(1);
  ASSERT_THAT(Call(*daemon_.api().run, &v1::RunService::Stub::RegisterGraph, graph), IsOk());
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + kCallTimeout));
  const auto stream = daemon_.api().run->LaunchStream(&context);
  for (int i = 0; i < 10; ++i) {
    v1::LaunchStreamRequest request;
    request.mutable_launch()->set_graph(absl::StrCat(session, i == 7 ? "/graphs/h" : "/graphs/g"));
    ASSERT_TRUE(stream->Write(request));
    v1::LaunchCompletion completion;
    ASSERT_TRUE(stream->Read(&completion));
  }
  stream->WritesDone();
  ASSERT_TRUE(stream->Finish().ok());
  const std::vector<std::string> lines = About("LaunchStream", 1);
  ASSERT_THAT(lines, SizeIs(1));
  EXPECT_THAT(lines[0], HasSubstr("\"launches\":10,\"refused\":1"));
  EXPECT_THAT(lines[0], HasSubstr(absl::StrCat("\"session\":\"", session, "\"")));
}

}  // namespace
}  // namespace pto::testing
