#include "daemon/auth/policy.h"

#include <string>

#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/error.h"
#include "runtime/base/status_matchers.h"

namespace pto::daemon::auth {
namespace {

using ::pto::testing::HasReason;
using ::pto::testing::IsOk;
using ::testing::HasSubstr;

constexpr uint32_t kDaemonUser = 900;

std::shared_ptr<const Policy> Parse(const std::string& text) {
  const auto policy = Policy::Parse("policy", text, kDaemonUser);
  EXPECT_THAT(policy, IsOk());
  return policy.ok() ? *policy : std::make_shared<const Policy>(kDaemonUser);
}

std::string Refusal(const std::string& text) {
  const auto policy = Policy::Parse("policy", text, kDaemonUser);
  EXPECT_THAT(policy, HasReason(reason::kConfigInvalid));
  return std::string(policy.status().message());
}

TEST(PolicyTest, WithoutAFileEverybodyIsAUserAndRootAnOperator) {
  const Policy policy(kDaemonUser);
  const Rights user = policy.OfUser(1000, {});
  EXPECT_TRUE(user.user);
  EXPECT_FALSE(user.reader);
  EXPECT_FALSE(user.operates);
  EXPECT_EQ(user.max_priority, Rights::Priority::kNormal);
  EXPECT_EQ(user.max_weight, 1000u);
  EXPECT_EQ(user.max_sessions, 0u);
  for (const uint32_t uid : {0u, kDaemonUser}) {
    const Rights rights = policy.OfUser(uid, {});
    EXPECT_TRUE(rights.user && rights.reader && rights.operates) << uid;
    EXPECT_EQ(rights.max_priority, Rights::Priority::kHigh);
  }
}

TEST(PolicyTest, GrantsAreToPrincipalsAndGroups) {
  const auto policy = Parse(R"(
    grants { to: 'uid-1000' to: 'token-ci' roles: OPERATOR }
    grants { to: 'group-44' roles: READER max_priority: HIGH })");
  EXPECT_TRUE(policy->OfUser(1000, {}).operates);
  EXPECT_FALSE(policy->OfUser(1001, {}).operates);
  EXPECT_TRUE(policy->OfOther("token-ci", {}).operates);
  EXPECT_FALSE(policy->OfOther("token-cd", {}).operates);
  EXPECT_FALSE(policy->OfOther("uid-1000", {}).reader == false);
  EXPECT_TRUE(policy->has_groups());
  const uint32_t groups[] = {7, 44};
  EXPECT_TRUE(policy->OfUser(1001, groups).reader);
  EXPECT_EQ(policy->OfUser(1001, groups).max_priority, Rights::Priority::kHigh);
  EXPECT_FALSE(policy->OfUser(1001, {groups, 1}).reader);
}

TEST(PolicyTest, TheMostSpecialGrantThatHasASettingCounts) {
  const auto policy = Parse(R"(
    grants { to: 'everyone' roles: USER max_sessions: 10 max_tasks: 100 max_weight: 5 }
    grants { to: 'group-1' max_sessions: 20 max_active_runs: 7 }
    grants { to: 'group-2' max_sessions: 30 max_active_runs: 6 }
    grants { to: 'uid-1000' max_sessions: 4 max_priority: LOW })");
  const uint32_t both[] = {1, 2};
  const Rights member = policy->OfUser(1001, both);
  EXPECT_EQ(member.max_sessions, 30u);
  EXPECT_EQ(member.max_active_runs, 7u);
  EXPECT_EQ(member.max_tasks, 100u);
  EXPECT_EQ(member.max_weight, 5u);
  const Rights one = policy->OfUser(1000, both);
  EXPECT_EQ(one.max_sessions, 4u);
  EXPECT_EQ(one.max_active_runs, 7u);
  EXPECT_EQ(one.max_priority, Rights::Priority::kLow);
  EXPECT_EQ(policy->OfUser(1002, {}).max_sessions, 10u);
}

TEST(PolicyTest, UploadsAreWhatTheMostSpecialGrantSays) {
  const auto policy = Parse(R"(
    grants { to: 'everyone' roles: USER kernel_uploads: DENIED }
    grants { to: 'group-1' kernel_uploads: DENIED }
    grants { to: 'group-2' kernel_uploads: ALLOWED }
    grants { to: 'uid-1000' kernel_uploads: DENIED }
    grants { to: 'token-ci' max_sessions: 1 })");
  const uint32_t both[] = {1, 2};
  EXPECT_EQ(policy->OfUser(1001, both).kernel_uploads, Rights::Uploads::kAllowed);
  EXPECT_EQ(policy->OfUser(1001, {}).kernel_uploads, Rights::Uploads::kDenied);
  EXPECT_EQ(policy->OfUser(1000, both).kernel_uploads, Rights::Uploads::kDenied);
  EXPECT_EQ(policy->OfOther("token-ci", {}).kernel_uploads, Rights::Uploads::kDenied);
  EXPECT_EQ(Parse("")->OfUser(0, {}).kernel_uploads, Rights::Uploads::kUnset);
}

TEST(PolicyTest, AGrantToEveryoneReplacesTheRoleUser) {
  const auto policy = Parse("grants { to: 'everyone' } grants { to: 'uid-7' roles: USER }");
  EXPECT_FALSE(policy->OfUser(1000, {}).user);
  EXPECT_TRUE(policy->OfUser(7, {}).user);
  EXPECT_TRUE(policy->OfUser(0, {}).user);
}

TEST(PolicyTest, RolesOfATokenAddUpWithThoseOfThePolicy) {
  const auto policy = Parse("grants { to: 'everyone' } grants { to: 'token-ci' roles: READER }");
  const policy::v1::Grant::Role roles[] = {policy::v1::Grant::USER};
  const Rights rights = policy->OfOther("token-ci", roles);
  EXPECT_TRUE(rights.user);
  EXPECT_TRUE(rights.reader);
  EXPECT_FALSE(policy->OfOther("token-cd", roles).reader);
}

TEST(PolicyTest, SaysWhatIsWrongAndWhere) {
  EXPECT_THAT(Refusal("grants { tu: 'uid-1' }"), HasSubstr("policy:1:"));
  EXPECT_THAT(Refusal("grants { roles: USER }"), HasSubstr("grants[0]: `to` is empty"));
  EXPECT_THAT(Refusal("grants { to: 'uid-1' } grants { to: 'Bob' }"),
              HasSubstr("grants[1]: 'Bob' is no principal"));
  EXPECT_THAT(Refusal("grants { to: 'group-no-such-group-here' }"), HasSubstr("has no group"));
  EXPECT_THAT(Refusal("grants { to: 'uid-1' max_weight: 1001 }"), HasSubstr("at most 1000"));
  EXPECT_THAT(Policy::Load("/nonexistent/policy", 0), HasReason(reason::kConfigInvalid));
}

TEST(PolicyTest, WhoMayWhatWithWhom) {
  const Policy policy(kDaemonUser);
  const Principal one("uid-1", policy.OfUser(1, {}));
  const Principal root("uid-0", policy.OfUser(0, {}));
  const Principal reader("uid-5", Parse("grants { to: 'uid-5' roles: READER }")->OfUser(5, {}));
  for (const Right right : {Right::kLook, Right::kEnd, Right::kUse}) {
    EXPECT_TRUE(May(one, "uid-1", right));
    EXPECT_FALSE(May(one, "uid-2", right));
    EXPECT_EQ(May(root, "uid-2", right), right != Right::kUse);
    EXPECT_EQ(May(reader, "uid-2", right), right == Right::kLook);
    // An owner that is not known.
    EXPECT_FALSE(May(one, "", right));
    EXPECT_FALSE(May(reader, "", right));
    EXPECT_TRUE(May(root, "", right));
  }
}

}  // namespace
}  // namespace pto::daemon::auth
