#include "client/job/chip_list.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/status_matchers.h"

namespace pto::job {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(ChipListTest, ReadsNumbersAndRanges) {
  EXPECT_THAT(ParseChipList("0").value(), ElementsAre(0));
  EXPECT_THAT(ParseChipList("0-3,6").value(), ElementsAre(0, 1, 2, 3, 6));
  EXPECT_THAT(ParseChipList("5-5").value(), ElementsAre(5));
  EXPECT_THAT(ParseChipList(" 1 , 0 ").value(), ElementsAre(1, 0));
}

TEST(ChipListTest, KeepsOrderAndRepetition) {
  EXPECT_THAT(ParseChipList("3,0,0,1").value(), ElementsAre(3, 0, 0, 1));
}

TEST(ChipListTest, SaysWhatWasExpected) {
  const std::pair<std::string, std::string> cases[] = {
      {"", "got ''"},
      {"a", "expected a chip from 0 to 4095, got 'a'"},
      {"1,,2", "got ''"},
      {"1-", "expected a chip after '1-', got ''"},
      {"-1", "got ''"},
      {"+1", "got '+1'"},
      {"3-1", "the range 3-1 is descending; use 1-3"},
      {"1-2-3", "got '2-3'"},
      {"4096", "got '4096'"},
      {"0-4095,1", "more than 4096"},
      {"99999999999999999999", "expected a chip"},
  };
  for (const auto& [text, message] : cases) {
    const absl::Status status = ParseChipList(text).status();
    EXPECT_THAT(status, testing::HasReason(reason::kFieldInvalid)) << text;
    EXPECT_THAT(std::string(status.message()), HasSubstr(message));
  }
}

TEST(ChipListTest, FormatsTheShortestForm) {
  EXPECT_EQ(FormatChipList({0, 1, 2, 3, 6}), "0-3,6");
  EXPECT_EQ(FormatChipList({1, 0, 0}), "1,0,0");
  EXPECT_EQ(FormatChipList({}), "");
}

}  // namespace
}  // namespace pto::job
