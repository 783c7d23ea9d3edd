#include "daemon/config/load.h"

#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "daemon/config/effective.h"
#include "daemon/config/settings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/error.h"
#include "runtime/base/status_matchers.h"
#include "tests/harness/directory.h"

namespace pto::daemon {
namespace {

using config::v1::DaemonConfig;
using ::pto::testing::HasReason;
using ::pto::testing::IsOk;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr char kSample[] = "deploy/ptod.conf.txtpb";

std::string Refusal(const std::string& text) {
  const absl::Status status = ParseConfig("ptod.conf", text).status();
  EXPECT_THAT(status, HasReason(reason::kConfigInvalid));
  return std::string(status.message());
}

TEST(LoadConfigTest, ReadsAFile) {
  const testing::Directory directory;
  const std::string path = directory.path() + "/ptod.conf";
  testing::WriteFile(path, "# comment\nlisten: 'unix:/a'\nsim_chips { count: 4 }\n");
  const absl::StatusOr<DaemonConfig> config = LoadConfig(path);
  ASSERT_THAT(config, IsOk());
  EXPECT_EQ(config->listen(0), "unix:/a");
  EXPECT_EQ(config->sim_chips().count(), 4u);
  testing::WriteFile(path, "");
  EXPECT_THAT(LoadConfig(path), IsOk());
}

TEST(LoadConfigTest, SaysWhatCannotBeRead) {
  const absl::Status missing = LoadConfig("/nonexistent/ptod.conf").status();
  EXPECT_THAT(missing, HasReason(reason::kConfigInvalid));
  EXPECT_EQ(missing.message(), "cannot read /nonexistent/ptod.conf: No such file or directory");
  const testing::Directory directory;
  EXPECT_THAT(LoadConfig(directory.path()), HasReason(reason::kConfigInvalid));
}

TEST(LoadConfigTest, PointsAtTheMistake) {
  EXPECT_THAT(Refusal("listen: 'unix:/a'\n  sim_chip { count: 4 }\n"),
              StartsWith("ptod.conf:2:3: there is no setting 'sim_chip' here; expected one of "
                         "listen, allow_remote, sim_chips, state_dir, executor_threads, "));
  EXPECT_THAT(Refusal("sim_chips {\n  chips: 4\n}\n"), StartsWith("ptod.conf:2:3: "));
  EXPECT_THAT(Refusal("sim_chips { chips: 4 }"),
              HasSubstr("expected one of count, clusters, memory_bytes, profile"));
  EXPECT_THAT(Refusal("sim_chips { count: many }"), StartsWith("ptod.conf:1:20: "));
  EXPECT_THAT(Refusal("sim_chips { count: many }"), HasSubstr("Expected integer"));
  EXPECT_THAT(Refusal("sim_chips { count: -1 }"), StartsWith("ptod.conf:1:20: "));
  EXPECT_THAT(Refusal("sim_chips {"), StartsWith("ptod.conf:1:"));
  EXPECT_THAT(Refusal("log_level: 'info'\nlog_level: 'debug'\n"), StartsWith("ptod.conf:2:"));
}

TEST(SampleConfigTest, IsTheDefault) {
  const absl::StatusOr<DaemonConfig> sample = LoadConfig(kSample);
  ASSERT_THAT(sample, IsOk());
  for (const Setting& setting : AllSettings()) {
    EXPECT_FALSE(IsSet(setting, *sample)) << setting.key << " is set in the sample";
  }
}

// With the comment marks taken away it says the same, so the defaults in it are true.
TEST(SampleConfigTest, ShowsEverySettingWithItsDefault) {
  std::string text;
  std::istringstream lines(testing::ReadFile(kSample));
  for (std::string line; std::getline(lines, line);) {
    const size_t mark = line.find("# ");
    if (mark != std::string::npos) {
      const std::string candidate = line.substr(mark + 2);
      const size_t end = candidate.find_first_of(": {");
      bool is_setting = false;
      for (const Setting& setting : AllSettings()) {
        const std::string key = setting.key;
        is_setting = is_setting || key.substr(key.rfind('.') + 1) == candidate.substr(0, end);
      }
      if (!is_setting) continue;
      line = candidate;
    }
    absl::StrAppend(&text, line, "\n");
  }
  const absl::StatusOr<DaemonConfig> shown = ParseConfig("sample", text);
  ASSERT_THAT(shown, IsOk());
  const absl::StatusOr<EffectiveConfig> expected =
      MakeEffective(DaemonConfig(), {}, "unix:/run/ptod/ptod.sock");
  ASSERT_THAT(expected, IsOk());
  for (const Setting& setting : AllSettings()) {
    EXPECT_EQ(ToTextProto(setting, *shown), ToTextProto(setting, expected->config)) << setting.key;
    const bool is_default = std::string(setting.default_value).empty();
    EXPECT_TRUE(IsSet(setting, *shown) || is_default) << setting.key;
  }
}

}  // namespace
}  // namespace pto::daemon
