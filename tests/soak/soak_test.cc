// A short soak: it works from end to end, and a failure is detected.

#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "google/protobuf/struct.pb.h"
#include "google/protobuf/util/json_util.h"
#include "gtest/gtest.h"
#include "runtime/base/error.h"
#include "tests/harness/process.h"
#include "tests/harness/runfile.h"
#include "tests/harness/sanitizer.h"
#include "tests/soak/crew.h"
#include "tests/soak/slope.h"
#include "tests/soak/summary.h"
#include "tests/soak/tally.h"

namespace pto::soak {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

// Longer than the soak itself needs to detect and name a stuck client.
constexpr absl::Duration kPatience = absl::Seconds(testing::kAddressSanitizer ? 300 : 110);

TEST(SoakTest, TenSeconds) {
  const testing::ProgramResult result = testing::RunProgram(
      {testing::Runfile("tests/soak/soak"), "--seconds=10", "--clients=50", "--seed=5"}, {},
      kPatience);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("\npassed\n"));
  std::cout << result.out;
}

TEST(SoakTest, WrongArguments) {
  const testing::ProgramResult result =
      testing::RunProgram({testing::Runfile("tests/soak/soak"), "--seconds=none"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("Usage: soak"));
}

TEST(SlopeTest, OfALine) {
  std::vector<std::pair<double, double>> points;
  EXPECT_EQ(Slope(points), 0);
  points.emplace_back(1, 5);
  EXPECT_EQ(Slope(points), 0);
  for (int i = 2; i < 100; ++i) points.emplace_back(i, 3 * i + 2 + (i % 2 == 0 ? 0.5 : -0.5));
  EXPECT_NEAR(Slope(points), 3, 0.01);
}

TEST(CrewTest, OnlyErrorsOfFaultsAreExpected) {
  EXPECT_TRUE(IsExpected(absl::UnavailableError("")));
  EXPECT_TRUE(IsExpected(Error(reason::kBootIdChanged, "")));
  EXPECT_FALSE(IsExpected(absl::DataLossError("")));
  EXPECT_FALSE(IsExpected(Error(reason::kClientTimeout, "")));
  EXPECT_FALSE(IsExpected(Error(reason::kSessionEnded, "")));
  EXPECT_TRUE(IsExpected(Error(reason::kSessionEnded, "").With("boot_id", "b")));
  EXPECT_FALSE(IsExpected(Error(reason::kInternal, "")));
}

TEST(SummaryTest, IsJsonWithAllFailures) {
  Tally tally;
  tally.runs = 7;
  tally.Expected(Error(reason::kNodeDraining, ""));
  tally.Fail("buffer", absl::DataLossError("\"x\" is\n1"));
  Verdict verdict;
  google::protobuf::Struct object;
  ASSERT_TRUE(
      google::protobuf::util::JsonStringToMessage(Summary(verdict, tally, true), &object).ok());
  EXPECT_FALSE(object.fields().at("ok").bool_value());
  EXPECT_EQ(object.fields().at("runs").number_value(), 7);
  EXPECT_EQ(object.fields().at("failures").number_value(), 1);
  EXPECT_THAT(object.fields().at("first_failures").list_value().values(), SizeIs(1));
  EXPECT_EQ(object.fields().at("expected_errors").struct_value().fields().count("NODE_DRAINING"),
            1u);
  ASSERT_TRUE(google::protobuf::util::JsonStringToMessage(
                  ProgressLine(verdict.figures, tally, true), &object)
                  .ok());
  EXPECT_THAT(Summary(verdict, tally, false), HasSubstr("FAILED"));
}

}  // namespace
}  // namespace pto::soak
