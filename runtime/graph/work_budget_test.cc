#include "runtime/graph/work_budget.h"

#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "runtime/base/clock.h"

namespace pto::engine {
namespace {

TEST(WorkBudgetTest, EndsWhenAllIsSpent) {
  WorkBudget budget(nullptr, 10);
  EXPECT_TRUE(budget.Spend(10));
  budget.EarnTask(1, 1);
  EXPECT_TRUE(budget.Spend(2 * WorkBudget::kPerArgument + WorkBudget::kPerDependency));
  EXPECT_TRUE(budget.ok());
  EXPECT_FALSE(budget.Spend(1));
  EXPECT_EQ(budget.state(), WorkBudget::State::kSpent);
  // Permanently.
  budget.EarnTask(100, 100);
  EXPECT_FALSE(budget.Spend(0));
}

TEST(WorkBudgetTest, EndsSoonAfterItIsCancelled) {
  bool gone = false;
  int asked = 0;
  WorkBudget budget([&] { return ++asked, gone; });
  for (uint64_t i = 0; i < 4 * WorkBudget::kCheckInterval; ++i) ASSERT_TRUE(budget.Spend(1));
  EXPECT_GE(asked, 3);
  EXPECT_LE(asked, 4);
  gone = true;
  uint64_t more = 0;
  while (budget.Spend(1)) ++more;
  EXPECT_LE(more, WorkBudget::kCheckInterval);
  EXPECT_EQ(budget.state(), WorkBudget::State::kCancelled);
}

TEST(WorkBudgetTest, EndsSoonAfterItsTimeIsUp) {
  ManualClock clock;
  CompileTime time(clock, 1000);
  WorkBudget budget(WorkBudget::Cancelled([] { return false; }).WithTime(&time));
  const auto work = [&] {
    for (uint64_t i = 0; i < 2 * WorkBudget::kCheckInterval; ++i) {
      if (!budget.Spend(1)) return false;
    }
    return true;
  };
  EXPECT_TRUE(work());
  clock.Advance(absl::Nanoseconds(900));
  EXPECT_TRUE(work());
  // Only the time between the parts of a graph does not count.
  time.Pause();
  clock.Advance(absl::Seconds(5));
  EXPECT_TRUE(work());
  clock.Advance(absl::Nanoseconds(101));
  EXPECT_FALSE(work());
  EXPECT_EQ(budget.state(), WorkBudget::State::kLate);
  EXPECT_EQ(budget.limit_ns(), 1000);
}

TEST(WorkBudgetTest, APartInheritsNoMoreThanTheBase) {
  WorkBudget budget(nullptr, 1000);
  for (int i = 0; i < 100; ++i) budget.EarnTask(3, 0);
  EXPECT_EQ(budget.allowed(), 1000 + 400 * WorkBudget::kPerArgument);
  EXPECT_TRUE(budget.Spend(5000));
  budget.BeginSegment();
  EXPECT_TRUE(budget.Spend(1000));
  EXPECT_FALSE(budget.Spend(1));
}

}  // namespace
}  // namespace pto::engine
