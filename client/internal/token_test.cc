#include "client/internal/token.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/error.h"
#include "runtime/base/status_matchers.h"

namespace pto::internal {
namespace {

using ::pto::testing::HasReason;
using ::testing::HasSubstr;

class TokenTest : public ::testing::Test {
 protected:
  TokenTest() : file_(absl::StrCat(::testing::TempDir(), "/token-", getpid())) {
    unsetenv("PTOD_TOKEN_FILE");
    Write("ci.secret\n", 0600);
  }
  ~TokenTest() override { unlink(file_.c_str()); }

  void Write(const std::string& text, mode_t mode) const {
    std::ofstream(file_) << text;
    chmod(file_.c_str(), mode);
  }
  std::string Refusal() const {
    const auto token = FindToken("127.0.0.1:7000", file_, false);
    EXPECT_THAT(token, HasReason(reason::kFieldInvalid));
    return std::string(token.status().message());
  }

  const std::string file_;
};

TEST_F(TokenTest, IsReadFromTheFileThatIsGivenOrElseFromTheEnvironment) {
  EXPECT_EQ(FindToken("127.0.0.1:7000", file_, false).value(), "ci.secret");
  EXPECT_EQ(FindToken("localhost:7000", file_, false).value(), "ci.secret");
  EXPECT_EQ(FindToken("[::1]:7000", file_, false).value(), "ci.secret");
  EXPECT_EQ(FindToken("127.0.0.1:7000", "", false).value(), "");
  setenv("PTOD_TOKEN_FILE", file_.c_str(), 1);
  EXPECT_EQ(FindToken("127.0.0.1:7000", "", false).value(), "ci.secret");
  EXPECT_THAT(FindToken("127.0.0.1:7000", "/nonexistent", false), HasReason(reason::kFieldInvalid));
  unsetenv("PTOD_TOKEN_FILE");
}

TEST_F(TokenTest, IsNotNeededOnAUnixSocket) {
  EXPECT_EQ(FindToken("unix:/run/ptod/ptod.sock", file_, false).value(), "");
}

TEST_F(TokenTest, DoesNotLeaveTheMachine) {
  for (const char* address :
       {"10.0.0.1:7000", "node-7:7000", "[2001:db8::1]:7000", "localhost.example:1",
        "127.0.0.1.example.com:7000", "128.0.0.1:7000"}) {
    const auto token = FindToken(address, file_, false);
    EXPECT_THAT(token, HasReason(reason::kFieldInvalid)) << address;
    EXPECT_THAT(std::string(token.status().message()), HasSubstr("not encrypted"));
    EXPECT_EQ(FindToken(address, file_, true).value(), "ci.secret");
  }
}

TEST_F(TokenTest, IsASecret) {
  Write("ci.secret", 0640);
  EXPECT_THAT(Refusal(), HasSubstr("can be read by others"));
  Write("", 0600);
  EXPECT_THAT(Refusal(), HasSubstr("is empty"));
  Write("two\nlines", 0600);
  EXPECT_THAT(Refusal(), HasSubstr("has no token"));
}

}  // namespace
}  // namespace pto::internal
