#include "tests/bench/engine/process_memory.h"

#include <cstring>
#include <memory>

#include "gtest/gtest.h"

namespace pto::bench {
namespace {

constexpr size_t kBlock = size_t{64} << 20;
constexpr size_t kSlack = size_t{4} << 20;

TEST(ProcessMemoryTest, CountsWhatIsTouched) {
  const uint64_t before = ResidentBytes();
  ASSERT_GT(before, 0);
  const auto block = std::make_unique_for_overwrite<char[]>(kBlock);
  EXPECT_LT(ResidentBytes(), before + kSlack);
  std::memset(block.get(), 1, kBlock);
  EXPECT_GE(ResidentBytes(), before + kBlock - kSlack);
}

TEST(ProcessMemoryTest, RemembersThePeakSinceReset) {
  if (!ResetPeakResident()) GTEST_SKIP() << "this system does not let the peak be reset";
  const uint64_t before = PeakResidentBytes().value();
  const auto touch = [] {
    const auto block = std::make_unique_for_overwrite<char[]>(kBlock);
    std::memset(block.get(), 1, kBlock);
    return block[kBlock / 2];
  };
  EXPECT_EQ(touch(), 1);
  EXPECT_GE(PeakResidentBytes().value(), before + kBlock - kSlack);
  ASSERT_TRUE(ResetPeakResident());
  EXPECT_LT(PeakResidentBytes().value(), before + kBlock - kSlack);
}

}  // namespace
}  // namespace pto::bench
