#include "runtime/chip/allocation.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/error.h"
#include "runtime/base/status_matchers.h"
#include "runtime/chip/sim/sim_memory.h"
#include "runtime/chip/testing/device_only_chip.h"

namespace pto::engine {
namespace {

using ::pto::engine::testing::MakeDeviceOnlyChip;
using ::pto::testing::HasReason;
using ::pto::testing::IsOk;
using ::testing::HasSubstr;

constexpr uint64_t kMiB = uint64_t{1} << 20;

std::string Contents(Allocation& memory, uint64_t offset, uint64_t bytes) {
  std::string text(bytes, '?');
  EXPECT_THAT(memory.Read(offset, text.data(), bytes), IsOk());
  return text;
}

TEST(AllocationTest, CopiesAndFills) {
  const std::shared_ptr<Chip> device = MakeDeviceOnlyChip(1, kMiB);
  const auto sim = SimMemory::Create(0, kMiB);
  for (const std::shared_ptr<Allocation>& memory :
       {device->memory().Allocate(16).value(), sim->Allocate(16).value()}) {
    EXPECT_EQ(Contents(*memory, 0, 16), std::string(16, 0));
    EXPECT_THAT(memory->Write(4, "abcdef", 6), IsOk());
    EXPECT_THAT(memory->Fill(6, 2, std::byte{'x'}), IsOk());
    EXPECT_EQ(Contents(*memory, 3, 8), std::string("\0abxxef\0", 8));
  }
}

TEST(AllocationTest, APartOfDeviceMemoryIsAView) {
  const std::shared_ptr<Chip> chip = MakeDeviceOnlyChip(3, kMiB);
  std::shared_ptr<Allocation> whole = chip->memory().Allocate(32).value();
  std::shared_ptr<Allocation> part = Allocation::Part(whole, 8, 16);
  EXPECT_EQ(part->chip(), 3u);
  EXPECT_EQ(part->bytes(), 16u);
  EXPECT_EQ(part->AsHost(), nullptr);
  EXPECT_THAT(part->Write(2, "abc", 3), IsOk());
  EXPECT_EQ(Contents(*whole, 10, 3), "abc");
  EXPECT_THAT(part->Fill(3, 1, std::byte{'-'}), IsOk());
  EXPECT_EQ(Contents(*part, 2, 3), "a-c");
  whole.reset();
  EXPECT_EQ(chip->memory().used_bytes(), 32u);
  part.reset();
  EXPECT_EQ(chip->memory().used_bytes(), 0u);
}

TEST(AllocationTest, DeviceMemoryIsNoHostMemory) {
  const std::shared_ptr<Chip> chip = MakeDeviceOnlyChip(3, kMiB);
  const std::shared_ptr<Allocation> memory = chip->memory().Allocate(32).value();
  const auto host = Allocation::ToHost(memory);
  EXPECT_THAT(host, HasReason(reason::kNotAvailable));
  EXPECT_THAT(std::string(host.status().message()),
              HasSubstr("the memory of chips/3 is not visible to the host"));
  EXPECT_THAT(chip->memory().AllocateHost(8), HasReason(reason::kNotAvailable));
  EXPECT_EQ(chip->memory().used_bytes(), 32u);
}

TEST(AllocationTest, HostMemoryIsTheSameMemory) {
  const auto sim = SimMemory::Create(0, kMiB);
  const std::shared_ptr<Allocation> memory = sim->Allocate(32).value();
  const std::shared_ptr<HostAllocation> host = Allocation::ToHost(memory).value();
  host->data()[5] = std::byte{'z'};
  EXPECT_EQ(Contents(*memory, 5, 1), "z");
}

// Between all kinds of memory, and more than the staging memory holds.
TEST(AllocationTest, CopiesBetweenChips) {
  constexpr uint64_t kBytes = 2 * kMiB + 17;
  const auto sim = SimMemory::Create(0, 16 * kMiB);
  const std::shared_ptr<Chip> one = MakeDeviceOnlyChip(1, 16 * kMiB);
  const std::shared_ptr<Chip> two = MakeDeviceOnlyChip(2, 16 * kMiB);
  std::string text(kBytes, 0);
  for (uint64_t i = 0; i < kBytes; ++i) text[i] = static_cast<char>(i * 31 % 127);
  const std::vector<std::shared_ptr<Allocation>> way = {
      sim->Allocate(kBytes).value(), one->memory().Allocate(kBytes + 1).value(),
      two->memory().Allocate(kBytes + 2).value(), sim->Allocate(kBytes + 3).value()};
  ASSERT_THAT(way[0]->Write(0, text.data(), kBytes), IsOk());
  for (uint64_t i = 1; i < way.size(); ++i) {
    ASSERT_THAT(way[i]->CopyFrom(i, *way[i - 1], i - 1, kBytes), IsOk());
  }
  EXPECT_TRUE(Contents(*way[3], 3, kBytes) == text);
}

}  // namespace
}  // namespace pto::engine
