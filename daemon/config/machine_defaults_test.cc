#include "daemon/config/machine_defaults.h"

#include <string>
#include <utility>
#include <vector>

#include "daemon/config/settings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace pto::daemon {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kGiB = uint64_t{1} << 30;

class MachineDefaultsTest : public ::testing::Test {
 protected:
  // Flags by their keys.
  void Apply(uint64_t host_bytes, const std::vector<std::pair<std::string, std::string>>& values) {
    FlagValues flags;
    for (const Setting& setting : AllSettings()) {
      for (const auto& [key, text] : values) {
        if (key == setting.key) flags.emplace_back(&setting, text);
      }
    }
    effective_ = MakeEffective(config::v1::DaemonConfig(), flags, "unix:/run/s").value();
    warnings_ = ApplyMachine(host_bytes, &effective_);
  }
  const config::v1::LimitsConfig& limits() const { return effective_.config.limits(); }
  uint64_t chip_bytes() const { return effective_.config.sim_chips().memory_bytes(); }

  EffectiveConfig effective_;
  std::vector<std::string> warnings_;
};

TEST_F(MachineDefaultsTest, DefaultsDivideTheMachine) {
  Apply(64 * kGiB, {{"sim_chips.count", "2"}});
  EXPECT_EQ(limits().max_memory_bytes(), 48 * kGiB);
  EXPECT_EQ(limits().max_client_memory_bytes(), 36 * kGiB);
  EXPECT_EQ(chip_bytes(), 16 * kGiB);
  EXPECT_THAT(warnings_, IsEmpty());
  // The finding: chips of 16 GiB on any machine.
  Apply(4 * kGiB, {{"sim_chips.count", "8"}});
  EXPECT_EQ(limits().max_memory_bytes(), 3 * kGiB);
  EXPECT_EQ(chip_bytes(), 384 * kMiB);
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(MachineDefaultsTest, OnTheSmallestMachineAChipHasStillSome) {
  Apply(64 * kMiB, {{"sim_chips.count", "256"}});
  EXPECT_EQ(chip_bytes(), kMiB);
}

TEST_F(MachineDefaultsTest, AClientMayHoldNoMoreThanAll) {
  Apply(8 * kGiB, {{"limits.max_memory_bytes", "1G"}});
  EXPECT_EQ(limits().max_client_memory_bytes(), 768 * kMiB);
  Apply(8 * kGiB, {{"limits.max_memory_bytes", "1G"}, {"limits.max_client_memory_bytes", "2G"}});
  EXPECT_EQ(limits().max_client_memory_bytes(), kGiB);
}

TEST_F(MachineDefaultsTest, ChipsThatAreConfiguredLargerAreCutAndReported) {
  Apply(4 * kGiB, {{"sim_chips.count", "1"}, {"sim_chips.memory_bytes", "16G"}});
  EXPECT_EQ(chip_bytes(), 3 * kGiB);
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("each chip has 3G")));
  Apply(4 * kGiB, {{"sim_chips.count", "4"}, {"sim_chips.memory_bytes", "1G"}});
  EXPECT_EQ(chip_bytes(), kGiB);
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("more memory together than 3G")));
  Apply(4 * kGiB, {{"limits.max_memory_bytes", "8G"}});
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("may use only 4G")));
}

}  // namespace
}  // namespace pto::daemon
