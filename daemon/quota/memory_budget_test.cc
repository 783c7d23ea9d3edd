#include "daemon/quota/memory_budget.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "daemon/auth/principal.h"
#include "daemon/quota/quota.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/error.h"
#include "runtime/base/memory_account.h"
#include "runtime/base/status_matchers.h"
#include "runtime/chip/sim/sim_memory.h"

namespace pto::daemon {
namespace {

using ::pto::testing::HasReason;
using ::pto::testing::IsOk;

constexpr uint64_t kMiB = uint64_t{1} << 20;

// Holds memory that it can do without.
class Cache final : public MemoryHolder {
 public:
  Cache(const std::shared_ptr<MemoryAccount>& account, uint64_t bytes) : charge_(account) {
    charge_.ForceResize(bytes);
  }
  uint64_t Shed(uint64_t bytes) override {
    const uint64_t shed = std::min(bytes, charge_.bytes());
    charge_.ForceResize(charge_.bytes() - shed);
    return shed;
  }
  uint64_t bytes() const { return charge_.bytes(); }

 private:
  HostCharge charge_;
};

class MemoryBudgetTest : public ::testing::Test {
 protected:
  std::shared_ptr<Cache> Hold(const std::shared_ptr<MemoryAccount>& account, uint64_t bytes) {
    const auto cache = std::make_shared<Cache>(account, bytes);
    budget_.AddHolder(account.get(), cache);
    return cache;
  }

  MemoryBudget budget_{100, 60};
  const std::shared_ptr<MemoryAccount> one_ = budget_.OfClient("one");
  const std::shared_ptr<MemoryAccount> two_ = budget_.OfClient("two");
};

TEST_F(MemoryBudgetTest, AClientHasOneAccountWhileAnythingIsCharged) {
  EXPECT_EQ(budget_.OfClient("one"), one_);
  EXPECT_NE(one_, two_);
  HostCharge left;
  {
    const auto gone = budget_.OfClient("gone");
    left = HostCharge::Take(gone, 7, "a graph").value();
  }
  // Its sessions have ended, and something is left: it counts for the next ones.
  EXPECT_EQ(budget_.OfClient("gone")->used(), 7u);
  left = HostCharge();
  EXPECT_EQ(budget_.OfClient("gone")->used(), 0u);
  EXPECT_EQ(budget_.all()->used(), 0u);
}

TEST_F(MemoryBudgetTest, AClientShedsItsOwnFirst) {
  const auto own = Hold(one_, 50);
  const auto other = Hold(two_, 40);
  EXPECT_TRUE(budget_.MakeRoom(*one_, 30));
  EXPECT_EQ(own->bytes(), 30u);
  EXPECT_EQ(other->bytes(), 40u);
}

TEST_F(MemoryBudgetTest, OthersShedWhenAllTogetherHoldTooMuch) {
  const auto other = Hold(two_, 60);
  one_->Charge(10);
  EXPECT_TRUE(budget_.MakeRoom(*one_, 40));
  EXPECT_EQ(other->bytes(), 50u);
  EXPECT_TRUE(one_->TryTake(40));
}

TEST_F(MemoryBudgetTest, NobodyShedsForWhatCanNeverFit) {
  const auto own = Hold(one_, 50);
  EXPECT_FALSE(budget_.MakeRoom(*one_, 61));
  EXPECT_EQ(own->bytes(), 50u);
  // Nor does it help when what is held cannot go.
  one_->Charge(10);
  two_->Charge(40);
  EXPECT_FALSE(budget_.MakeRoom(*one_, 60));
}

TEST_F(MemoryBudgetTest, HoldersThatAreGoneAreNotAsked) {
  Hold(one_, 60).reset();
  const auto own = Hold(one_, 10);
  EXPECT_EQ(one_->used(), 10u);
  EXPECT_TRUE(budget_.MakeRoom(*one_, 55));
  EXPECT_EQ(own->bytes(), 5u);
}

TEST_F(MemoryBudgetTest, KnowsARefusalForWantOfMemory) {
  uint64_t bytes = 0;
  EXPECT_FALSE(WantsMemory(absl::OkStatus(), &bytes));
  EXPECT_FALSE(WantsMemory(Error(reason::kQuotaMemory, "x").Limit("l", 1, 1, 1), &bytes));
  EXPECT_TRUE(WantsMemory(one_->Take(77, "a graph"), &bytes));
  EXPECT_EQ(bytes, 77u);
}

// Device memory of a simulated chip counts in whole pages, until the last reference is gone.
TEST(MemoryQuotaTest, DeviceMemoryCountsForTheClient) {
  Limits limits;
  limits.max_memory_bytes = 4 * kMiB;
  limits.max_client_memory_bytes = 3 * kMiB;
  ClientQuotas clients(limits);
  const auto memory = engine::SimMemory::Create(0, 64 * kMiB);
  const auto allocate = [&](const std::shared_ptr<SessionQuota>& quota,
                            uint64_t bytes) -> absl::StatusOr<std::shared_ptr<engine::Allocation>> {
    absl::StatusOr<MemoryCharge> charge =
        MemoryCharge::Take(quota, bytes, 0, HostBytes(*memory, bytes));
    if (!charge.ok()) return charge.status();
    return AllocateCharged(*memory, bytes, *std::move(charge));
  };
  auto quota = clients.OpenSession(auth::Principal("c", {}), "s").value();
  auto small = allocate(quota, 1);
  ASSERT_THAT(small, IsOk());
  EXPECT_GE(quota->memory()->used(), 4096u);
  const auto large = allocate(quota, 2 * kMiB);
  ASSERT_THAT(large, IsOk());
  EXPECT_THAT(allocate(quota, kMiB), HasReason(reason::kMemoryBudget));
  // A second session of the client, and another client.
  EXPECT_THAT(allocate(clients.OpenSession(auth::Principal("c", {}), "t").value(), kMiB),
              HasReason(reason::kMemoryBudget));
  EXPECT_THAT(allocate(clients.OpenSession(auth::Principal("d", {}), "u").value(), kMiB), IsOk());
  // What the chip cannot have is the chip's business.
  EXPECT_THAT(allocate(quota, 65 * kMiB), HasReason(reason::kChipMemoryExhausted));
  const uint64_t used = quota->memory()->used();
  *small = nullptr;
  EXPECT_LT(quota->memory()->used(), used);
  quota.reset();
  EXPECT_GE(clients.memory()->all()->used(), 2 * kMiB);
}

}  // namespace
}  // namespace pto::daemon
