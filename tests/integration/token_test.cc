// Clients over TCP, who have nothing but a token.

#include <sys/stat.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <memory>
#include <regex>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "client/client.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/error.h"
#include "runtime/base/status_matchers.h"
#include "tests/harness/api.h"
#include "tests/harness/daemon_process.h"
#include "tests/harness/directory.h"
#include "tests/harness/process.h"
#include "tests/harness/ptoctl.h"
#include "tests/harness/runfile.h"
#include "tests/integration/world.h"

namespace pto::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class TokenTest : public ::testing::Test {
 protected:
  std::string tokens() const { return files_.path() + "/tokens"; }

  // Makes a token with the tool that is delivered; returns the file that has it.
  std::string MakeToken(const std::string& name, std::vector<std::string> options = {}) {
    std::vector<std::string> command = {"/usr/bin/python3", Runfile("deploy/make_token.py"), name,
                                        "--file=" + tokens()};
    command.insert(command.end(), options.begin(), options.end());
    const ProgramResult made = RunProgram(command);
    EXPECT_EQ(made.exit_code, 0) << made.err;
    const std::string file = absl::StrCat(files_.path(), "/", name, ".token");
    std::ofstream(file) << made.out;
    chmod(file.c_str(), 0600);
    return file;
  }

  void Start(const std::vector<std::string>& more = {}) {
    std::ofstream(tokens(), std::ios::app);
    std::vector<std::string> flags = {"--sim-chips=1", "--listen=127.0.0.1:0",
                                      "--access-tokens=" + tokens()};
    flags.insert(flags.end(), more.begin(), more.end());
    daemon_ = std::make_unique<DaemonProcess>(flags);
    EXPECT_TRUE(Eventually([&] {
      const std::string log = daemon_->Log();
      std::smatch match;
      if (!std::regex_search(log, match, std::regex("127\\.0\\.0\\.1:[1-9][0-9]*"))) return false;
      address_ = match[0].str();
      return true;
    })) << daemon_->Log();
  }

  absl::StatusOr<Client> Connect(const std::string& token_file) const {
    ClientOptions options;
    options.token_file = token_file;
    return Client::Connect(address_, options);
  }

  const Directory files_;
  std::unique_ptr<DaemonProcess> daemon_;
  std::string address_;
};

TEST_F(TokenTest, ATokenIsAPrincipalOfItsOwn) {
  const std::string one = MakeToken("one");
  const std::string two = MakeToken("two", {"--roles=user,reader", "--days=1"});
  Start();
  Client first = Connect(one).value();
  Client second = Connect(two).value();
  EXPECT_EQ(first.node().principal(), "token-one");
  EXPECT_EQ(second.node().principal(), "token-two");
  const Session session = first.CreateSession({.id = "ones"}).value();
  Api api(address_);
  // Without a token nobody is anybody.
  const auto none = Call(*api.node, &v1::NodeService::Stub::GetNode, v1::GetNodeRequest());
  EXPECT_THAT(none, HasReason(reason::kUnauthenticated));
  EXPECT_EQ(none.status().message(),
            "this connection has no identity: it is over TCP, without a token");
  EXPECT_THAT(Connect(""), HasReason(reason::kUnauthenticated));
  // The reader sees the other one's session, and who is neither that nor the owner does not.
  const ProgramResult seen =
      RunPtoctl(address_, {"--token-file=" + two, "sessions", "ls", "-o", "json"});
  EXPECT_EQ(seen.exit_code, 0) << seen.err;
  EXPECT_THAT(seen.out, HasSubstr("sessions/ones"));
  EXPECT_THAT(seen.out, HasSubstr("token-one"));
  const ProgramResult node = RunPtoctl(address_, {"--token-file=" + two, "node", "info"});
  EXPECT_THAT(node.out, HasSubstr("token-two (user, reader)"));
  ASSERT_THAT(second.CreateSession({.id = "twos"}), IsOk());
  const ProgramResult own =
      RunPtoctl(address_, {"--token-file=" + one, "sessions", "ls", "-o", "json"});
  EXPECT_THAT(own.out, Not(HasSubstr("twos")));
  EXPECT_EQ(RunPtoctl(address_, {"sessions", "ls"}).exit_code, 1);
}

TEST_F(TokenTest, WrongAndExpiredTokensAreRefused) {
  const std::string good = MakeToken("good");
  const std::string late = MakeToken("late", {"--days=-1"});
  Start();
  ASSERT_THAT(Connect(good), IsOk());
  const auto expired = Connect(late);
  EXPECT_THAT(expired, HasReason(reason::kUnauthenticated));
  EXPECT_THAT(std::string(expired.status().message()), HasSubstr("token 'late' expired"));
  const std::string wrong = files_.path() + "/wrong";
  for (const char* text : {"good.wrong", "other.wrong", "nonsense"}) {
    std::ofstream(wrong) << text;
    chmod(wrong.c_str(), 0600);
    EXPECT_THAT(Connect(wrong), HasReason(reason::kUnauthenticated)) << text;
  }
}

TEST_F(TokenTest, ARevokedTokenIsRefusedWithoutARestart) {
  const std::string one = MakeToken("one");
  Start();
  Client client = Connect(one).value();
  ASSERT_THAT(client.GetNode(), IsOk());
  std::filesystem::remove(tokens());
  const std::string two = MakeToken("two");
  // On the same connection too: the token is checked with each call.
  EXPECT_TRUE(Eventually([&] { return !client.GetNode().ok(); }));
  EXPECT_THAT(client.GetNode(), HasReason(reason::kUnauthenticated));
  EXPECT_THAT(Connect(two), IsOk());
}

TEST_F(TokenTest, OpenStreamsEndWithTheRightToThem) {
  const std::string stays = MakeToken("stays");
  const std::string revoked = MakeToken("revoked");
  Start();
  Api api(address_);
  // An open stream of each kind that may never end, of the token's owner.
  struct Streams {
    explicit Streams(const std::string& file) {
      const std::string bearer = absl::StrCat("Bearer ", absl::StripSuffix(ReadFile(file), "\n"));
      launch_context.AddMetadata("authorization", bearer);
      write_context.AddMetadata("authorization", bearer);
    }
    grpc::ClientContext launch_context, write_context;
    std::unique_ptr<grpc::ClientReaderWriter<v1::LaunchStreamRequest, v1::LaunchCompletion>> launch;
    v1::WriteBufferResponse written;
    std::unique_ptr<grpc::ClientWriter<v1::WriteBufferRequest>> write;
  };
  Streams first(stays);
  Streams second(revoked);
  for (Streams* const streams : {&first, &second}) {
    streams->launch = api.run->LaunchStream(&streams->launch_context);
    streams->write = api.buffer->WriteBuffer(&streams->write_context, &streams->written);
  }
  // An answer shows that the daemon has the stream.
  const auto answers = [](Streams& streams) {
    v1::LaunchCompletion completion;
    return streams.launch->Write(v1::LaunchStreamRequest()) && streams.launch->Read(&completion);
  };
  ASSERT_TRUE(answers(first));
  ASSERT_TRUE(answers(second));
  std::string lines = ReadFile(tokens());
  const size_t line = lines.find("revoked");
  ASSERT_NE(line, std::string::npos);
  const size_t begin = lines.rfind('\n', line) + 1;
  lines.erase(begin, lines.find('\n', line) + 1 - begin);
  WriteFile(tokens(), lines);
  v1::LaunchCompletion completion;
  EXPECT_FALSE(second.launch->Read(&completion));
  EXPECT_EQ(second.launch->Finish().error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_EQ(second.write->Finish().error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_TRUE(answers(first));
  first.launch->WritesDone();
  EXPECT_TRUE(first.launch->Finish().ok());
}

// Roles, and limits of what somebody may have, change without a restart.
TEST_F(TokenTest, APolicyIsReadAgainOnRequest) {
  const std::string one = MakeToken("one");
  const std::string policy = files_.path() + "/policy";
  WriteFile(policy, "grants { to: 'everyone' roles: USER max_sessions: 1 }");
  Start({"--access-policy=" + policy});
  Client client = Connect(one).value();
  const Session first = client.CreateSession().value();
  EXPECT_THAT(client.CreateSession(), HasReason(reason::kQuotaSessions));
  EXPECT_THAT(client.GetConfig(), HasReason(reason::kPermissionDenied));
  // One with a mistake changes nothing.
  WriteFile(policy, "grants { to: 'everyone' roles: NOBODY }");
  daemon_->Signal(SIGHUP);
  EXPECT_TRUE(Eventually([&] { return daemon_->Log().find("NOBODY") != std::string::npos; }));
  EXPECT_THAT(client.CreateSession(), HasReason(reason::kQuotaSessions));
  WriteFile(policy,
            "grants { to: 'everyone' roles: USER max_sessions: 2 }"
            "grants { to: 'token-one' roles: READER }");
  daemon_->Signal(SIGHUP);
  EXPECT_TRUE(Eventually([&] { return client.GetConfig().ok(); }));
  EXPECT_THAT(client.CreateSession(), IsOk());
}

TEST_F(TokenTest, ALoopbackConnectionCanBeTrusted) {
  DaemonProcess daemon({"--sim-chips=1", "--listen=127.0.0.1:0", "--loopback-tcp=trust"});
  std::smatch match;
  std::string log;
  ASSERT_TRUE(Eventually([&] {
    log = daemon.Log();
    return std::regex_search(log, match, std::regex("127\\.0\\.0\\.1:[1-9][0-9]*"));
  }));
  Client client = Client::Connect(match[0].str()).value();
  EXPECT_EQ(client.node().principal(), "loopback");
  ASSERT_EQ(client.node().roles_size(), 1);
  EXPECT_EQ(client.node().roles(0), "user");
  EXPECT_THAT(client.CreateSession(), IsOk());
}

TEST_F(TokenTest, AWrongFileIsNamedAndNothingStarts) {
  std::ofstream(tokens()) << "# fine\nnonsense\n";
  const ProgramResult result =
      RunProgram({Runfile("daemon/ptod"), "--listen=unix:" + files_.path() + "/s",
                  "--access-tokens=" + tokens()});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr(tokens() + ":2: expected NAME"));
}

}  // namespace
}  // namespace pto::testing
