#include "runtime/chip/device_memory.h"

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

namespace pto {
namespace {

using ::pto::testing::HasReason;
using ::pto::testing::IsOk;

constexpr uint64_t kPage = 4096;

TEST(DeviceMemoryTest, CountsWholePagesAndGivesThemBack) {
  const std::shared_ptr<DeviceMemory> memory = DeviceMemory::Create(3, 10 * kPage);
  EXPECT_EQ(memory->total_bytes(), 10 * kPage);
  EXPECT_EQ(memory->used_bytes(), 0u);
  std::shared_ptr<MemoryBlock> small = memory->Allocate(1).value();
  EXPECT_EQ(small->bytes(), 1u);
  EXPECT_EQ(small->chip(), 3u);
  EXPECT_EQ(memory->used_bytes(), kPage);
  std::shared_ptr<MemoryBlock> large = memory->Allocate(kPage + 1).value();
  EXPECT_EQ(memory->used_bytes(), 3 * kPage);
  small.reset();
  EXPECT_EQ(memory->used_bytes(), 2 * kPage);
  large.reset();
  EXPECT_EQ(memory->used_bytes(), 0u);
}

TEST(DeviceMemoryTest, IsZeroedEvenWhenUsedBefore) {
  const std::shared_ptr<DeviceMemory> memory = DeviceMemory::Create(0, 64 * kPage);
  for (int round = 0; round < 3; ++round) {
    const std::shared_ptr<MemoryBlock> block = memory->Allocate(64 * kPage).value();
    EXPECT_TRUE(std::all_of(block->data(), block->data() + block->bytes(),
                            [](std::byte b) { return b == std::byte{0}; }));
    std::fill(block->data(), block->data() + block->bytes(), std::byte{0xa5});
  }
}

TEST(DeviceMemoryTest, IsAlignedForAnything) {
  const std::shared_ptr<DeviceMemory> memory = DeviceMemory::Create(0, 64 * kPage);
  const std::shared_ptr<MemoryBlock> one = memory->Allocate(3).value();
  const std::shared_ptr<MemoryBlock> two = memory->Allocate(3).value();
  EXPECT_EQ(reinterpret_cast<uintptr_t>(one->data()) % 64, 0u);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(two->data()) % 64, 0u);
  EXPECT_NE(one->data(), two->data());
}

TEST(DeviceMemoryTest, RefusesMoreThanThereIs) {
  const std::shared_ptr<DeviceMemory> memory = DeviceMemory::Create(2, 4 * kPage);
  for (const uint64_t bytes :
       {4 * kPage + 1, uint64_t{1} << 63, std::numeric_limits<uint64_t>::max(),
        std::numeric_limits<uint64_t>::max() - kPage}) {
    EXPECT_THAT(memory->Allocate(bytes), HasReason(reason::kChipMemoryExhausted)) << bytes;
    EXPECT_EQ(memory->used_bytes(), 0u);
  }
  std::shared_ptr<MemoryBlock> most = memory->Allocate(3 * kPage).value();
  const auto refused = memory->Allocate(kPage + 1);
  ASSERT_THAT(refused, HasReason(reason::kChipMemoryExhausted));
  const Quota quota = *GetErrorDetail(refused.status())->quota;
  EXPECT_EQ(quota.limit, 4 * kPage);
  EXPECT_EQ(quota.usage, 3 * kPage);
  EXPECT_EQ(quota.requested, kPage + 1);
  EXPECT_EQ(memory->used_bytes(), 3 * kPage);
  EXPECT_THAT(memory->Allocate(kPage), IsOk());
  most.reset();
  EXPECT_THAT(memory->Allocate(4 * kPage), IsOk());
}

TEST(DeviceMemoryTest, NothingIsABlockToo) {
  const std::shared_ptr<DeviceMemory> memory = DeviceMemory::Create(0, 4 * kPage);
  std::shared_ptr<MemoryBlock> block = memory->Allocate(0).value();
  EXPECT_EQ(block->bytes(), 0u);
  EXPECT_NE(block->data(), nullptr);
  block.reset();
  EXPECT_EQ(memory->used_bytes(), 0u);
}

TEST(DeviceMemoryTest, StaysWhileAnyoneHoldsIt) {
  std::shared_ptr<DeviceMemory> memory = DeviceMemory::Create(0, 4 * kPage);
  std::weak_ptr<DeviceMemory> watch = memory;
  std::shared_ptr<MemoryBlock> block = memory->Allocate(kPage).value();
  std::shared_ptr<MemoryBlock> other = block;
  block.reset();
  EXPECT_EQ(memory->used_bytes(), kPage);
  // A block outlives the owner's reference to its memory.
  memory.reset();
  other->data()[kPage - 1] = std::byte{1};
  EXPECT_FALSE(watch.expired());
  other.reset();
  EXPECT_TRUE(watch.expired());
}

TEST(DeviceMemoryTest, APartKeepsTheWholeAndCostsNothing) {
  const std::shared_ptr<DeviceMemory> memory = DeviceMemory::Create(3, 8 * kPage);
  std::shared_ptr<MemoryBlock> whole = memory->Allocate(2 * kPage).value();
  std::shared_ptr<MemoryBlock> part = MemoryBlock::Part(whole, kPage, kPage);
  EXPECT_EQ(part->data(), whole->data() + kPage);
  EXPECT_EQ(part->bytes(), kPage);
  EXPECT_EQ(part->chip(), 3u);
  whole.reset();
  EXPECT_EQ(memory->used_bytes(), 2 * kPage);
  part->data()[kPage - 1] = std::byte{1};
  part.reset();
  EXPECT_EQ(memory->used_bytes(), 0u);
}

TEST(DeviceMemoryTest, ThreadsNeverExceedTheLimit) {
  const std::shared_ptr<DeviceMemory> memory = DeviceMemory::Create(0, 8 * kPage);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&memory, t] {
      std::vector<std::shared_ptr<MemoryBlock>> held;
      for (int i = 0; i < 2000; ++i) {
        absl::StatusOr<std::shared_ptr<MemoryBlock>> block =
            memory->Allocate(static_cast<uint64_t>(1 + (i + t) % 3) * kPage);
        if (block.ok()) held.push_back(*std::move(block));
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

}  // namespace
}  // namespace pto
