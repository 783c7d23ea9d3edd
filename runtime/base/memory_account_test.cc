#include "runtime/base/memory_account.h"

#include <cstdint>
#include <limits>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/error.h"
#include "runtime/base/status_matchers.h"

namespace pto {
namespace {

using ::pto::testing::HasReason;
using ::pto::testing::IsOk;
using ::testing::HasSubstr;

class MemoryAccountTest : public ::testing::Test {
 protected:
  const std::shared_ptr<MemoryAccount> all_ =
      std::make_shared<MemoryAccount>("all clients together", "max_memory_bytes", 100);
  const std::shared_ptr<MemoryAccount> one_ =
      std::make_shared<MemoryAccount>("client one", "max_client_memory_bytes", 60, all_);
  const std::shared_ptr<MemoryAccount> two_ =
      std::make_shared<MemoryAccount>("client two", "max_client_memory_bytes", 60, all_);
};

TEST_F(MemoryAccountTest, WhatIsTakenCountsAbove) {
  ASSERT_THAT(one_->Take(40, "a buffer"), IsOk());
  ASSERT_THAT(two_->Take(50, "a buffer"), IsOk());
  EXPECT_EQ(one_->used(), 40u);
  EXPECT_EQ(all_->used(), 90u);
  one_->Give(40);
  EXPECT_EQ(all_->used(), 50u);
}

TEST_F(MemoryAccountTest, ARefusalSaysWhoseLimitAndTakesNothing) {
  ASSERT_THAT(one_->Take(50, "a buffer"), IsOk());
  const absl::Status own = one_->Take(11, "a graph");
  ASSERT_THAT(own, HasReason(reason::kMemoryBudget));
  EXPECT_EQ(own.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(own.message()),
              HasSubstr("client one may hold 60 bytes of the machine's memory, holds 50, and a "
                        "graph needs 11 more"));
  const Quota quota = *GetErrorDetail(own)->quota;
  EXPECT_EQ(quota.name, "max_client_memory_bytes");
  EXPECT_EQ(quota.limit, 60u);
  EXPECT_EQ(quota.usage, 50u);
  EXPECT_EQ(quota.requested, 11u);

  const absl::Status total = two_->Take(51, "a graph");
  ASSERT_THAT(total, HasReason(reason::kMemoryBudget));
  EXPECT_EQ(GetErrorDetail(total)->quota->name, "max_memory_bytes");
  EXPECT_EQ(GetErrorDetail(total)->quota->limit, 100u);
  EXPECT_EQ(two_->used(), 0u);
  EXPECT_EQ(all_->used(), 50u);
  EXPECT_THAT(two_->Take(50, "a graph"), IsOk());
}

TEST_F(MemoryAccountTest, NoAmountOverflows) {
  ASSERT_TRUE(one_->TryTake(1));
  for (const uint64_t bytes : {std::numeric_limits<uint64_t>::max(), uint64_t{1} << 63}) {
    EXPECT_FALSE(one_->TryTake(bytes));
    EXPECT_GT(one_->Missing(bytes), uint64_t{1} << 62);
  }
  EXPECT_EQ(all_->used(), 1u);
}

TEST_F(MemoryAccountTest, SaysHowMuchIsMissing) {
  one_->Charge(50);
  two_->Charge(20);
  EXPECT_EQ(one_->Missing(10), 0u);
  EXPECT_EQ(one_->Missing(15), 5u);
  EXPECT_EQ(two_->Missing(40), 10u);
  two_->Charge(100);
  EXPECT_EQ(two_->Missing(5), 5u);
}

TEST_F(MemoryAccountTest, AChargeGivesBackWhatItHas) {
  {
    HostCharge charge = HostCharge::Take(one_, 30, "a buffer").value();
    EXPECT_THAT(charge.Resize(61, "a buffer"), HasReason(reason::kMemoryBudget));
    EXPECT_EQ(charge.bytes(), 30u);
    EXPECT_FALSE(charge.TryResize(61));
    charge.ForceResize(70);
    EXPECT_EQ(all_->used(), 70u);
    EXPECT_THAT(charge.Resize(20, "a buffer"), IsOk());
    EXPECT_EQ(one_->used(), 20u);
    HostCharge other = std::move(charge);
    EXPECT_EQ(other.bytes(), 20u);
    EXPECT_EQ(all_->used(), 20u);
  }
  EXPECT_EQ(all_->used(), 0u);
  HostCharge without;
  EXPECT_TRUE(without.TryResize(uint64_t{1} << 60));
}

// Many threads take, resize and give random amounts. No limit is ever exceeded by more than what
// the threads have in their hands, and at the end nothing is held.
TEST_F(MemoryAccountTest, ThreadsNeverLoseAByte) {
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([this, t] {
      std::mt19937 random(t);
      std::vector<HostCharge> held;
      for (int i = 0; i < 5000; ++i) {
        HostCharge charge(t % 2 == 0 ? one_ : two_);
        if (charge.TryResize(random() % 20)) held.push_back(std::move(charge));
        if (!held.empty()) (void)held[random() % held.size()].TryResize(random() % 30);
        if (held.size() > random() % 8) held.erase(held.begin());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(one_->used(), 0u);
  EXPECT_EQ(two_->used(), 0u);
  EXPECT_EQ(all_->used(), 0u);
}

}  // namespace
}  // namespace pto
