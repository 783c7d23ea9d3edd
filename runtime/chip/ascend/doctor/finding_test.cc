#include "runtime/chip/ascend/doctor/finding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace pto::ascend {
namespace {

using ::testing::HasSubstr;

std::vector<Finding> Some() {
  return {{"driver", Finding::State::kProblem, "missing\t\"here\"\n", "install it"},
          {"toolkit", Finding::State::kOk, "found", ""}};
}

TEST(FindingTest, LinesComeThroughAPipe) {
  const std::vector<Finding> back =
      FromLines("noise\n" + ToLines(Some()) + "finding\ttoo\tshort\n");
  ASSERT_EQ(back.size(), 2u);
  EXPECT_EQ(back[0].check, "driver");
  EXPECT_EQ(back[0].state, Finding::State::kProblem);
  EXPECT_EQ(back[0].found, "missing \"here\" ");
  EXPECT_EQ(back[0].advice, "install it");
  EXPECT_EQ(back[1].state, Finding::State::kOk);
}

TEST(FindingTest, JsonIsEscaped) {
  const std::string json = ToJson(Some());
  EXPECT_THAT(json, HasSubstr(R"("found": "missing\u0009\"here\"\u000a")"));
  EXPECT_THAT(json, HasSubstr(R"("state": "ok")"));
}

TEST(FindingTest, TheTableHasTheAdviceBelow) {
  const std::string table = ToTable(Some());
  EXPECT_THAT(table, HasSubstr("-> install it"));
  EXPECT_THAT(table, HasSubstr("driver   problem"));
}

}  // namespace
}  // namespace pto::ascend
