#include "runtime/chip/sim/sim_memory.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/error.h"
#include "runtime/base/status_matchers.h"

namespace pto::engine {
namespace {

using ::pto::testing::HasReason;
using ::pto::testing::IsOk;

constexpr uint64_t kPage = 4096;

TEST(SimMemoryTest, CountsWholePagesAndGivesThemBack) {
  const std::shared_ptr<SimMemory> memory = SimMemory::Create(3, 10 * kPage);
  EXPECT_EQ(memory->total_bytes(), 10 * kPage);
  EXPECT_EQ(memory->used_bytes(), 0u);
  std::shared_ptr<HostAllocation> small = memory->AllocateHost(1).value();
  EXPECT_EQ(small->bytes(), 1u);
  EXPECT_EQ(small->chip(), 3u);
  EXPECT_EQ(memory->used_bytes(), kPage);
  std::shared_ptr<HostAllocation> large = memory->AllocateHost(kPage + 1).value();
  EXPECT_EQ(memory->used_bytes(), 3 * kPage);
  small.reset();
  EXPECT_EQ(memory->used_bytes(), 2 * kPage);
  large.reset();
  EXPECT_EQ(memory->used_bytes(), 0u);
}

TEST(SimMemoryTest, IsZeroedEvenWhenUsedBefore) {
  const std::shared_ptr<SimMemory> memory = SimMemory::Create(0, 64 * kPage);
  for (int round = 0; round < 3; ++round) {
    const std::shared_ptr<HostAllocation> allocation = memory->AllocateHost(64 * kPage).value();
    EXPECT_TRUE(std::all_of(allocation->data(), allocation->data() + allocation->bytes(),
                            [](std::byte b) { return b == std::byte{0}; }));
    std::fill(allocation->data(), allocation->data() + allocation->bytes(), std::byte{0xa5});
  }
}

TEST(SimMemoryTest, IsAlignedForAnything) {
  const std::shared_ptr<SimMemory> memory = SimMemory::Create(0, 64 * kPage);
  const std::shared_ptr<HostAllocation> one = memory->AllocateHost(3).value();
  const std::shared_ptr<HostAllocation> two = memory->AllocateHost(3).value();
  EXPECT_EQ(reinterpret_cast<uintptr_t>(one->data()) % 64, 0u);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(two->data()) % 64, 0u);
  EXPECT_NE(one->data(), two->data());
}

TEST(SimMemoryTest, RefusesMoreThanThereIs) {
  const std::shared_ptr<SimMemory> memory = SimMemory::Create(2, 4 * kPage);
  for (const uint64_t bytes :
       {4 * kPage + 1, uint64_t{1} << 63, std::numeric_limits<uint64_t>::max(),
        std::numeric_limits<uint64_t>::max() - kPage}) {
    EXPECT_THAT(memory->AllocateHost(bytes), HasReason(reason::kChipMemoryExhausted)) << bytes;
    EXPECT_EQ(memory->used_bytes(), 0u);
  }
  std::shared_ptr<HostAllocation> most = memory->AllocateHost(3 * kPage).value();
  const auto refused = memory->AllocateHost(kPage + 1);
  ASSERT_THAT(refused, HasReason(reason::kChipMemoryExhausted));
  const Quota quota = *GetErrorDetail(refused.status())->quota;
  EXPECT_EQ(quota.limit, 4 * kPage);
  EXPECT_EQ(quota.usage, 3 * kPage);
  EXPECT_EQ(quota.requested, kPage + 1);
  EXPECT_EQ(memory->used_bytes(), 3 * kPage);
  EXPECT_THAT(memory->AllocateHost(kPage), IsOk());
  most.reset();
  EXPECT_THAT(memory->AllocateHost(4 * kPage), IsOk());
}

TEST(SimMemoryTest, NoBytesHaveAnAddressToo) {
  const std::shared_ptr<SimMemory> memory = SimMemory::Create(0, 4 * kPage);
  std::shared_ptr<HostAllocation> allocation = memory->AllocateHost(0).value();
  EXPECT_EQ(allocation->bytes(), 0u);
  EXPECT_NE(allocation->data(), nullptr);
  allocation.reset();
  EXPECT_EQ(memory->used_bytes(), 0u);
}

TEST(SimMemoryTest, StaysWhileAnyoneHoldsIt) {
  std::shared_ptr<SimMemory> memory = SimMemory::Create(0, 4 * kPage);
  std::weak_ptr<SimMemory> watch = memory;
  std::shared_ptr<HostAllocation> allocation = memory->AllocateHost(kPage).value();
  std::shared_ptr<HostAllocation> other = allocation;
  allocation.reset();
  EXPECT_EQ(memory->used_bytes(), kPage);
  // The allocation outlives the owner's reference to the memory.
  memory.reset();
  other->data()[kPage - 1] = std::byte{1};
  EXPECT_FALSE(watch.expired());
  other.reset();
  EXPECT_TRUE(watch.expired());
}

TEST(SimMemoryTest, APartKeepsTheWholeAndCostsNothing) {
  const std::shared_ptr<SimMemory> memory = SimMemory::Create(3, 8 * kPage);
  std::shared_ptr<HostAllocation> whole = memory->AllocateHost(2 * kPage).value();
  std::shared_ptr<HostAllocation> part =
      Allocation::ToHost(Allocation::Part(whole, kPage, kPage)).value();
  EXPECT_EQ(part->data(), whole->data() + kPage);
  EXPECT_EQ(part->bytes(), kPage);
  EXPECT_EQ(part->chip(), 3u);
  whole.reset();
  EXPECT_EQ(memory->used_bytes(), 2 * kPage);
  part->data()[kPage - 1] = std::byte{1};
  part.reset();
  EXPECT_EQ(memory->used_bytes(), 0u);
}

TEST(SimMemoryTest, ThreadsNeverExceedTheLimit) {
  const std::shared_ptr<SimMemory> memory = SimMemory::Create(0, 8 * kPage);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&memory, t] {
      std::vector<std::shared_ptr<HostAllocation>> held;
      for (int i = 0; i < 2000; ++i) {
        absl::StatusOr<std::shared_ptr<HostAllocation>> allocation =
            memory->AllocateHost(static_cast<uint64_t>(1 + (i + t) % 3) * kPage);
        if (allocation.ok()) held.push_back(*std::move(allocation));
        uint64_t mine = 0;
        for (const auto& one : held) mine += one->bytes();
        EXPECT_LE(mine, 8 * kPage);
        if (held.size() > 3) held.erase(held.begin());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(memory->used_bytes(), 0u);
}

TEST(SimMemoryTest, TheHistoryHasAllocationsThatCameAndWent) {
  const std::shared_ptr<SimMemory> memory = SimMemory::Create(0, 1 << 20);
  const absl::Time begin = Clock::Real().WallTime() - absl::Seconds(1);
  memory->AllocateHost(4096).value().reset();
  const std::vector<UsageHistory::Point> points =
      memory->history().Between(begin, absl::InfiniteFuture());
  ASSERT_EQ(points.size(), 3u);
  EXPECT_EQ(points[0].used, 0u);
  EXPECT_EQ(points[1].used, 4096u);
  EXPECT_EQ(points[2].used, 0u);
}

}  // namespace
}  // namespace pto::engine
