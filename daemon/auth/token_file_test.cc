#include "daemon/auth/token_file.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "daemon/auth/testing/token.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/error.h"
#include "runtime/base/status_matchers.h"

namespace pto::daemon::auth {
namespace {

using ::pto::testing::HasReason;
using ::pto::testing::IsOk;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::TokenLine;

const absl::Time kNow = absl::FromUnixSeconds(1'800'000'000);

std::string Refusal(const std::string& text) {
  const auto tokens = TokenFile::Parse("tokens", text);
  EXPECT_THAT(tokens, HasReason(reason::kConfigInvalid));
  return std::string(tokens.status().message());
}

TEST(TokenFileTest, KnowsATokenByItsHash) {
  const auto tokens =
      TokenFile::Parse("tokens", absl::StrCat("# a comment\n\n", TokenLine("ci", "secret"),
                                              TokenLine("mon", "other", "never", "user,reader")))
          .value();
  const auto found = tokens->Check("ci.secret", kNow);
  ASSERT_THAT(found, IsOk());
  EXPECT_EQ(found->name, "ci");
  EXPECT_THAT(found->roles, ElementsAre(policy::v1::Grant::USER));
  EXPECT_THAT(tokens->Check("mon.other", kNow)->roles,
              ElementsAre(policy::v1::Grant::USER, policy::v1::Grant::READER));
}

// As Python's `hmac.new(b'0123456789abcdef', b'secret', 'sha256')` says for `secret`.
TEST(TokenFileTest, TheHashIsTheOneThatIsDocumented) {
  EXPECT_THAT(
      TokenLine("ci", "secret"),
      HasSubstr(" 30313233343536373839616263646566 "
                "59fa6a4dccc441a2ceb3d563296276a0a2293d927d294d695cca0ca3c3556b35 never user"));
}

TEST(TokenFileTest, RefusesAllOthersInTheSameWords) {
  const auto tokens = TokenFile::Parse("tokens", TokenLine("ci", "secret")).value();
  const absl::Status unknown = tokens->Check("cd.secret", kNow).status();
  for (const char* token : {"ci.secre", "ci.secrets", "ci.", "ci", "secret", "", ".", ".secret",
                            "CI.secret", "ci.secret "}) {
    EXPECT_EQ(tokens->Check(token, kNow).status(), unknown) << token;
  }
  EXPECT_EQ(tokens->Check("ci." + std::string(10'000, 'x'), kNow).status(), unknown);
  EXPECT_THAT(unknown, HasReason(reason::kUnauthenticated));
  EXPECT_EQ(unknown.code(), absl::StatusCode::kUnauthenticated);
  EXPECT_EQ(TokenFile().Check("ci.secret", kNow).status(), unknown);
}

TEST(TokenFileTest, ATokenExpires) {
  const auto tokens =
      TokenFile::Parse("tokens", TokenLine("ci", "secret", "2027-01-31T00:00:00Z")).value();
  const absl::Time end = absl::FromUnixSeconds(1'801'353'600);
  EXPECT_THAT(tokens->Check("ci.secret", end - absl::Seconds(1)), IsOk());
  const absl::Status expired = tokens->Check("ci.secret", end).status();
  EXPECT_THAT(expired, HasReason(reason::kUnauthenticated));
  EXPECT_THAT(std::string(expired.message()), HasSubstr("expired at 2027-01-31T00:00:00"));
  // Only who knows the secret learns that.
  EXPECT_THAT(std::string(tokens->Check("ci.wrong", end).status().message()),
              Not(HasSubstr("expired")));
}

TEST(TokenFileTest, SaysWhatIsWrongAndInWhichLineButNotWhatIsInIt) {
  const std::string good = TokenLine("ci", "secret");
  EXPECT_THAT(Refusal(good + "ci.TheSecret\n"), HasSubstr("tokens:2: expected NAME"));
  EXPECT_THAT(Refusal(good + "ci.TheSecret\n"), Not(HasSubstr("TheSecret")));
  EXPECT_THAT(Refusal(good + good), HasSubstr("two tokens 'ci'"));
  EXPECT_THAT(Refusal("Ci 0123456789abcdef " + std::string(64, 'a') + " never user"),
              HasSubstr("a name is"));
  EXPECT_THAT(Refusal("ci 01 " + std::string(64, 'a') + " never user"), HasSubstr("the salt"));
  EXPECT_THAT(Refusal("ci 0123456789abcdef " + std::string(62, 'a') + " never user"),
              HasSubstr("the hash"));
  EXPECT_THAT(Refusal("ci 0123456789abcdef " + std::string(64, 'g') + " never user"),
              HasSubstr("the hash"));
  EXPECT_THAT(Refusal("ci 0123456789abcdef " + std::string(64, 'a') + " soon user"),
              HasSubstr("`never`"));
  EXPECT_THAT(Refusal("ci 0123456789abcdef " + std::string(64, 'a') + " never root"),
              HasSubstr("a role"));
  EXPECT_THAT(TokenFile::Load("/nonexistent/tokens"), HasReason(reason::kConfigInvalid));
}

}  // namespace
}  // namespace pto::daemon::auth
