#include "tests/bench/report.h"

#include <cmath>
#include <limits>

#include "gtest/gtest.h"

namespace pto::bench {
namespace {

Line WithTarget(double value, double against_value, Target target) {
  return {.name = "call_p50",
          .value = value,
          .unit = "us",
          .against = "echo_p50",
          .against_value = against_value,
          .target = target};
}

TEST(LineTest, KeepsItsTarget) {
  EXPECT_TRUE(WithTarget(5, 4, Target::AtMost(1.25)).ok());
  EXPECT_FALSE(WithTarget(5.1, 4, Target::AtMost(1.25)).ok());
  EXPECT_TRUE(WithTarget(2, 4, Target::AtLeast(0.5)).ok());
  EXPECT_FALSE(WithTarget(1.9, 4, Target::AtLeast(0.5)).ok());
  EXPECT_TRUE(Line({.name = "alone", .value = 1, .unit = "s"}).ok());
}

TEST(LineTest, MayHaveARatioOfItsOwn) {
  Line line{"name", 3, "us", "peer", 2, Target::AtMost(1)};
  EXPECT_FALSE(line.ok());
  line.own_ratio = 0.9;
  EXPECT_TRUE(line.ok());
  EXPECT_NE(ToJson(line).find("\"ratio\":0.9"), std::string::npos) << ToJson(line);
}

TEST(LineTest, NotANumberKeepsNoTarget) {
  EXPECT_FALSE(WithTarget(0, 0, Target::AtMost(1)).ok());
  EXPECT_FALSE(WithTarget(0, 0, Target::AtLeast(1)).ok());
}

TEST(ToJsonTest, HasTheKeysThatApply) {
  EXPECT_EQ(ToJson({.name = "a", .value = 1.5, .unit = "us"}),
            R"({"name":"a","value":1.5,"unit":"us"})");
  EXPECT_EQ(ToJson({.name = "a", .value = 3, .unit = "us", .against = "b", .against_value = 2}),
            R"({"name":"a","value":3,"unit":"us","against":"b","against_value":2,"ratio":1.5})");
  EXPECT_EQ(ToJson(WithTarget(5, 4, Target::AtMost(1.2))),
            R"({"name":"call_p50","value":5,"unit":"us","against":"echo_p50","against_value":4,)"
            R"("ratio":1.25,"target":1.2,"ok":false})");
}

TEST(ToJsonTest, IsJsonWhateverTheText) {
  EXPECT_EQ(ToJson({.name = "a\"\\\n", .value = std::nan(""), .unit = ""}),
            R"({"name":"a\"\\\u000a","value":null,"unit":""})");
  EXPECT_EQ(ToJson({.name = "a", .value = std::numeric_limits<double>::infinity(), .unit = "s"}),
            R"({"name":"a","value":null,"unit":"s"})");
}

TEST(ToTableRowTest, ShowsTargetsAndMisses) {
  const std::string missed = ToTableRow(WithTarget(5, 4, Target::AtMost(1.2)));
  EXPECT_NE(missed.find("<= 1.2 MISSED"), std::string::npos) << missed;
  const std::string kept = ToTableRow(WithTarget(5, 4, Target::AtLeast(1.2)));
  EXPECT_NE(kept.find(">= 1.2 ok"), std::string::npos) << kept;
}

TEST(ReportTest, CountsMisses) {
  std::FILE* const out = std::tmpfile();
  ASSERT_NE(out, nullptr);
  Report report(Report::Format::kJson, out);
  report.Add(WithTarget(5, 4, Target::AtMost(2)));
  EXPECT_TRUE(report.ok());
  report.Add(WithTarget(5, 4, Target::AtMost(1)));
  report.Add({.name = "alone", .value = 1, .unit = "s"});
  EXPECT_FALSE(report.ok());
  EXPECT_EQ(report.missed(), 1);
  std::rewind(out);
  int lines = 0;
  for (int c = std::fgetc(out); c != EOF; c = std::fgetc(out)) lines += c == '\n' ? 1 : 0;
  EXPECT_EQ(lines, 3);
  std::fclose(out);
}

}  // namespace
}  // namespace pto::bench
