#include "runtime/chip/usage_history.h"

#include <tuple>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace pto::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class UsageHistoryTest : public ::testing::Test {
 protected:
  // Takes a minute.
  void Use(uint64_t used) {
    history_.Add([&] { return used; });
    clock_.Advance(absl::Minutes(1));
  }
  // Times are minutes after the start.
  std::vector<std::pair<int64_t, uint64_t>> Between(double from, double to) const {
    std::vector<std::pair<int64_t, uint64_t>> points;
    for (const UsageHistory::Point& point :
         history_.Between(begin_ + from * absl::Minutes(1), begin_ + to * absl::Minutes(1))) {
      points.emplace_back(absl::ToInt64Minutes(point.time - begin_), point.used);
    }
    return points;
  }

  ManualClock clock_;
  const absl::Time begin_ = clock_.WallTime();
  UsageHistory history_{clock_};
};

TEST_F(UsageHistoryTest, BeginsWithWhatWasInUse) {
  EXPECT_THAT(Between(0, 10), ElementsAre(std::pair(0, 0)));
  clock_.Advance(absl::Minutes(1));
  Use(10);
  Use(30);
  Use(20);
  EXPECT_THAT(Between(0, 1), ElementsAre(std::pair(0, 0), std::pair(1, 10)));
  EXPECT_THAT(Between(1, 2), ElementsAre(std::pair(1, 10), std::pair(2, 30)));
  EXPECT_THAT(Between(2.5, 2.9), ElementsAre(std::pair(2, 30)));
  EXPECT_THAT(Between(7, 9), ElementsAre(std::pair(7, 20)));
}

TEST_F(UsageHistoryTest, InventsNothingForWhatIsForgotten) {
  for (uint64_t i = 0; i < UsageHistory::kMaxPoints + 10; ++i) Use(i);
  EXPECT_THAT(Between(0, 5), IsEmpty());
  EXPECT_THAT(Between(0, 11), ElementsAre(std::pair(10, 10), std::pair(11, 11)));
}

}  // namespace
}  // namespace pto::engine
