#include "daemon/config/effective.h"

#include <string>

#include "absl/strings/string_view.h"
#include "daemon/config/load.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/status_matchers.h"

namespace pto::daemon {
namespace {

using config::v1::DaemonConfig;
using ::pto::testing::IsOk;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const Setting* Find(absl::string_view key) {
  for (const Setting& setting : AllSettings()) {
    if (setting.key == key) return &setting;
  }
  return nullptr;
}

EffectiveConfig Make(const std::string& file, const FlagValues& flags) {
  const absl::StatusOr<DaemonConfig> parsed = ParseConfig("file", file);
  EXPECT_THAT(parsed, IsOk());
  absl::StatusOr<EffectiveConfig> effective = MakeEffective(*parsed, flags, "unix:/default");
  EXPECT_THAT(effective, IsOk());
  return *std::move(effective);
}

TEST(EffectiveConfigTest, EverySettingHasAValue) {
  const DaemonConfig config = Make("", {}).config;
  EXPECT_THAT(config.listen(), ElementsAre("unix:/default"));
  EXPECT_EQ(config.sim_chips().clusters(), 24u);
  EXPECT_EQ(config.sim_chips().memory_bytes(), uint64_t{16} << 30);
  EXPECT_EQ(config.session().default_ttl().seconds(), 30);
  EXPECT_EQ(config.drain_grace().seconds(), 10);
  EXPECT_EQ(config.log_level(), "info");
}

TEST(EffectiveConfigTest, FlagsWinOverTheFile) {
  const DaemonConfig config =
      Make("listen: 'unix:/file' sim_chips { count: 2 clusters: 8 } drain_grace { seconds: 5 }",
           {{Find("listen"), "unix:/a"},
            {Find("listen"), "unix:/b"},
            {Find("sim_chips.count"), "4"}})
          .config;
  EXPECT_THAT(config.listen(), ElementsAre("unix:/a", "unix:/b"));
  EXPECT_EQ(config.sim_chips().count(), 4u);
  EXPECT_EQ(config.sim_chips().clusters(), 8u);
  EXPECT_EQ(config.drain_grace().seconds(), 5);
}

TEST(EffectiveConfigTest, TheProfileSaysHowManyClustersUnlessSomebodyDoes) {
  const Setting* const profile = Find("sim_chips.profile");
  EXPECT_EQ(Make("", {{profile, "a5"}}).config.sim_chips().clusters(), 36u);
  EXPECT_EQ(Make("sim_chips { profile: 'a5' }", {}).config.sim_chips().clusters(), 36u);
  EXPECT_EQ(Make("sim_chips { clusters: 8 }", {{profile, "a5"}}).config.sim_chips().clusters(), 8u);
  EXPECT_EQ(
      Make("", {{profile, "a5"}, {Find("sim_chips.clusters"), "24"}}).config.sim_chips().clusters(),
      24u);
}

TEST(EffectiveConfigTest, AFlagCanSwitchOffWhatTheFileSays) {
  const DaemonConfig config =
      Make(
          "sim_chips { count: 2 } allow_remote: true state_dir: '/var/lib/ptod' "
          "limits { max_sessions: 7 }",
          {{Find("sim_chips.count"), "0"},
           {Find("allow_remote"), "false"},
           {Find("state_dir"), ""},
           {Find("limits.max_sessions"), "0"}})
          .config;
  EXPECT_EQ(config.sim_chips().count(), 0u);
  EXPECT_FALSE(config.allow_remote());
  EXPECT_EQ(config.state_dir(), "");
  EXPECT_EQ(config.limits().max_sessions(), 1024u);
}

TEST(PrintConfigTest, SaysWhereValuesComeFrom) {
  const std::string text =
      PrintConfig(Make("sim_chips { count: 2 clusters: 8 }", {{Find("sim_chips.count"), "4"}}));
  EXPECT_THAT(text, HasSubstr("listen: \"unix:/default\"  # default\n"));
  EXPECT_THAT(text, HasSubstr("sim_chips {\n  count: 4  # flag\n  clusters: 8  # file\n"
                              "  memory_bytes: 17179869184  # default\n"
                              "  profile: \"a2a3\"  # default\n}\n"));
}

TEST(PrintConfigTest, CanBeUsedAsAFile) {
  const EffectiveConfig effective = Make("sim_chips { count: 2 } listen: 'unix:/a'", {});
  const absl::StatusOr<DaemonConfig> again = ParseConfig("printed", PrintConfig(effective));
  ASSERT_THAT(again, IsOk());
  EXPECT_EQ(again->SerializeAsString(), effective.config.SerializeAsString());
}

}  // namespace
}  // namespace pto::daemon
