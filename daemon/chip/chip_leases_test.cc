#include "daemon/chip/chip_leases.h"

#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/error.h"
#include "runtime/base/status_matchers.h"

namespace pto::daemon {
namespace {

using ::pto::testing::HasReason;
using ::pto::testing::IsOk;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class ChipLeasesTest : public ::testing::Test {
 protected:
  ChipLeases::Options MakeOptions() {
    ChipLeases::Options options;
    options.chips = 4;
    options.timers = &timers_;
    options.clock = &clock_;
    options.busy = [this](uint32_t chip, const std::string&) { return busy_.count(chip) > 0; };
    return options;
  }

  ChipLeases::Lease Ask(const std::string& session, uint32_t count) {
    const absl::StatusOr<ChipLeases::Lease> lease = leases_.Ask(session, count, "me", 100);
    EXPECT_THAT(lease, IsOk());
    return lease.ok() ? *lease : ChipLeases::Lease();
  }

  bool Granted(const std::string& session) { return leases_.Find(session)->granted; }

  void Look() {
    clock_.Advance(absl::Milliseconds(10));
    timers_.RunDue();
  }

  std::set<uint32_t> busy_;
  ManualClock clock_;
  TimerQueue timers_{clock_};
  ChipLeases leases_{MakeOptions()};
};

TEST_F(ChipLeasesTest, ChipsThatAreFaultedAreNotGivenUntilTheyAreWell) {
  std::set<uint32_t> faulted = {1};
  ChipHealth::Options health_options;
  health_options.chips = 4;
  health_options.clock = &clock_;
  health_options.probe = [&](uint32_t chip) { return faulted.count(chip) > 0 ? "gone" : ""; };
  ChipHealth health(health_options);
  health.See(1, {});
  ChipLeases::Options options = MakeOptions();
  options.health = &health;
  ChipLeases leases(options);
  EXPECT_THAT(leases.Check({0, 2}, {"a", "", "me"}), IsOk());
  EXPECT_THAT(leases.Check({0, 1}, {"a", "", "me"}), HasReason(reason::kChipUnavailable));
  EXPECT_THAT(leases.Ask("a", 2, "me", 100)->chips, ElementsAre(0, 2));
  EXPECT_TRUE(leases.Find("a")->granted);
  EXPECT_FALSE(leases.Ask("b", 2, "me", 100)->granted);
  // Also for a session that has leased other chips.
  EXPECT_THAT(leases.Check({0, 1}, {"a", "", "me"}), HasReason(reason::kChipUnavailable));
  bool told = false;
  leases.AddWaiter("b", [&] { told = true; });
  faulted.clear();
  health.Reset(1, [] {});
  leases.LookAgain();
  EXPECT_TRUE(told);
  EXPECT_THAT(leases.Find("b")->chips, ElementsAre(1, 3));
}

TEST_F(ChipLeasesTest, ChipsThatAreFreeAreGivenAtOnce) {
  EXPECT_THAT(Ask("a", 3).chips, ElementsAre(0, 1, 2));
  EXPECT_TRUE(Granted("a"));
  EXPECT_THAT(Ask("b", 1).chips, ElementsAre(3));
  EXPECT_EQ(leases_.HolderOf(2).session, "a");
  EXPECT_EQ(leases_.HolderOf(3).session, "b");
  // The same request returns the same lease; a different one fails.
  EXPECT_TRUE(Ask("a", 3).granted);
  EXPECT_THAT(leases_.Ask("a", 2, "me", 100), HasReason(reason::kIdConflict));
}

TEST_F(ChipLeasesTest, OthersAreKeptOffAndThoseWithTheLeaseAreNot) {
  EXPECT_THAT(leases_.Check({0}, {"x", "", "me"}), IsOk());
  Ask("a", 2);
  EXPECT_THAT(leases_.Check({1}, {"x", "", "me"}), HasReason(reason::kChipLeased));
  EXPECT_THAT(leases_.Check({2, 3}, {"x", "", "me"}), IsOk());
  EXPECT_THAT(leases_.Check({0, 1}, {"a", "", "me"}), IsOk());
  EXPECT_THAT(leases_.Check({0, 1}, {"x", "a", "me"}), IsOk());
  leases_.Release("a");
  EXPECT_THAT(leases_.Check({1}, {"x", "", "me"}), IsOk());
  EXPECT_THAT(leases_.Find("a"), HasReason(reason::kSessionEnded));
}

TEST_F(ChipLeasesTest, TheyAreServedInTheOrderInWhichTheyAsked) {
  Ask("a", 3);
  EXPECT_EQ(Ask("b", 4).position, 0u);
  // One chip is free, but the earlier request wants it.
  const ChipLeases::Lease last = Ask("c", 1);
  EXPECT_FALSE(last.granted);
  EXPECT_EQ(last.position, 1u);
  EXPECT_THAT(last.chips, IsEmpty());
  EXPECT_EQ(leases_.HolderOf(3).session, "b");
  leases_.Release("a");
  EXPECT_TRUE(Granted("b"));
  EXPECT_EQ(leases_.Find("c")->position, 0u);
  leases_.Release("b");
  EXPECT_TRUE(Granted("c"));
}

TEST_F(ChipLeasesTest, OneThatGivesUpLetsTheNextOnesOn) {
  Ask("a", 3);
  Ask("b", 4);
  Ask("c", 1);
  leases_.Release("b");
  EXPECT_TRUE(Granted("c"));
}

TEST_F(ChipLeasesTest, RunsOfOthersMayEndButNoneBegins) {
  busy_ = {1};
  EXPECT_FALSE(Ask("a", 2).granted);
  EXPECT_THAT(leases_.Check({1}, {"x", "", "me"}), HasReason(reason::kChipLeased));
  Look();
  EXPECT_FALSE(Granted("a"));
  busy_.clear();
  Look();
  EXPECT_TRUE(Granted("a"));
}

TEST_F(ChipLeasesTest, WhoWaitsIsTold) {
  int told = 0;
  Ask("a", 4);
  EXPECT_EQ(leases_.AddWaiter("a", [&] { ++told; }), 0u);
  EXPECT_EQ(told, 1);
  Ask("b", 1);
  Ask("c", 1);
  EXPECT_NE(leases_.AddWaiter("b", [&] { ++told; }), 0u);
  leases_.RemoveWaiter(leases_.AddWaiter("b", [&] { ++told; }));
  EXPECT_NE(leases_.AddWaiter("c", [&] { ++told; }), 0u);
  leases_.Release("c");
  EXPECT_EQ(told, 2);
  leases_.Release("a");
  EXPECT_EQ(told, 3);
  EXPECT_TRUE(Granted("b"));
}

// All that an owner wants counts, also what waits: else one could keep all chips from the others.
TEST_F(ChipLeasesTest, OneOwnerGetsOnlySoMany) {
  EXPECT_THAT(leases_.Ask("a", 3, "one", 2), HasReason(reason::kQuotaChips));
  EXPECT_THAT(leases_.Ask("a", 1, "one", 2), IsOk());
  EXPECT_THAT(leases_.Ask("b", 2, "one", 2), HasReason(reason::kQuotaChips));
  EXPECT_THAT(leases_.Ask("b", 1, "one", 2), IsOk());
  EXPECT_THAT(leases_.Ask("b", 1, "one", 2), IsOk());
  EXPECT_THAT(leases_.Ask("c", 1, "one", 2), HasReason(reason::kQuotaChips));
  EXPECT_TRUE(leases_.Ask("d", 2, "two", 2)->granted);
  leases_.Release("a");
  EXPECT_THAT(leases_.Ask("c", 1, "one", 2), IsOk());
}

TEST_F(ChipLeasesTest, OnlyTheOwnerIsToldWhoHasAChip) {
  Ask("a", 1);
  const absl::Status own = leases_.Check({0}, {"x", "", "me"});
  EXPECT_EQ(own.message(), "chips/0 is leased to sessions/a");
  const absl::Status other = leases_.Check({0}, {"x", "a", "you"});
  EXPECT_THAT(other, HasReason(reason::kChipLeased));
  EXPECT_EQ(other.message(), "chips/0 is leased to another client");
  const ErrorDetail detail = *GetErrorDetail(other);
  for (const auto& [key, value] : detail.metadata) EXPECT_EQ(key, "chip") << value;
  EXPECT_EQ(leases_.HolderOf(0).owner, "me");
}

}  // namespace
}  // namespace pto::daemon
