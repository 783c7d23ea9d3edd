#include "runtime/base/reason.h"

#include <set>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace pto {
namespace {

using ::testing::MatchesRegex;

TEST(ReasonTest, NamesAreUniqueUpperSnakeCase) {
  std::set<std::string> names;
  for (const Reason* reason : AllReasons()) {
    const std::string name(reason->name);
    EXPECT_THAT(name, MatchesRegex("[A-Z][A-Z0-9_]*"));
    EXPECT_TRUE(names.insert(name).second) << name << " is there twice";
  }
  EXPECT_FALSE(names.empty());
}

TEST(ReasonTest, EachIsAnErrorWithScopeAndMechanism) {
  for (const Reason* reason : AllReasons()) {
    EXPECT_NE(reason->code, absl::StatusCode::kOk) << reason->name;
    EXPECT_GE(static_cast<int>(reason->code), 1) << reason->name;
    EXPECT_LE(static_cast<int>(reason->code), 16) << reason->name;
    EXPECT_GE(reason->scope, Scope::kRequest) << reason->name;
    EXPECT_LE(reason->scope, Scope::kNode) << reason->name;
    EXPECT_FALSE(reason->mechanism.empty()) << reason->name;
  }
}

// A hint is printed after a dash or on its own line.
TEST(ReasonTest, HintsAreClausesWithoutAFullStop) {
  for (const Reason* reason : AllReasons()) {
    if (reason->hint.empty()) continue;
    EXPECT_NE(reason->hint.back(), '.') << reason->name;
    EXPECT_NE(reason->hint.front(), ' ') << reason->name;
  }
}

// //client/ptoctl:errors_command_test checks the contents of the pages.
TEST(ReasonTest, EachSaysWhereToReadOn) {
  for (const Reason* reason : AllReasons()) {
    EXPECT_THAT(HelpAnchor(*reason),
                MatchesRegex("deploy/docs/errors/[a-z]+\\.md#[a-z][a-z0-9_]*"));
  }
  EXPECT_EQ(HelpAnchor(reason::kKernelUnknown), "deploy/docs/errors/graphs.md#kernel_unknown");
  EXPECT_EQ(HelpAnchor(Reason{"OTHER", absl::StatusCode::kInternal, Scope::kRun, "m", "h"}), "");
}

TEST(ReasonTest, ScopesHaveNames) {
  EXPECT_EQ(ScopeName(Scope::kRequest), "REQUEST");
  EXPECT_EQ(ScopeName(Scope::kNode), "NODE");
}

TEST(ReasonTest, IsFoundByName) {
  EXPECT_EQ(FindReason("KERNEL_UNKNOWN"), &reason::kKernelUnknown);
  for (const Reason* reason : AllReasons()) EXPECT_EQ(FindReason(reason->name), reason);
  EXPECT_EQ(FindReason(""), nullptr);
  EXPECT_EQ(FindReason("KERNEL"), nullptr);
  EXPECT_EQ(FindReason("kernel_unknown"), nullptr);
}

}  // namespace
}  // namespace pto
