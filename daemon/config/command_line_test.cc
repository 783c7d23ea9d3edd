#include "daemon/config/command_line.h"

#include <string>
#include <vector>

#include "daemon/config/settings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/error.h"
#include "runtime/base/status_matchers.h"
#include "tests/harness/directory.h"

namespace pto::daemon {
namespace {

using ::pto::testing::HasReason;
using ::pto::testing::IsOk;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::StatusOr<CommandLine> Parse(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "ptod");
  return ParseCommandLine(static_cast<int>(arguments.size()), arguments.data(), "ptod 1.0.0");
}

std::string Refusal(const std::vector<const char*>& arguments) {
  const absl::Status status = Parse(arguments).status();
  EXPECT_THAT(status, HasReason(reason::kConfigInvalid));
  return std::string(status.message());
}

TEST(CommandLineTest, ServesWithTheDefaults) {
  const absl::StatusOr<CommandLine> line = Parse({});
  ASSERT_THAT(line, IsOk());
  EXPECT_EQ(line->action, CommandLine::Action::kServe);
  EXPECT_EQ(line->effective.config.listen_size(), 1);
  EXPECT_EQ(line->effective.config.sim_chips().count(), 0u);
}

TEST(CommandLineTest, TakesFlagsInBothForms) {
  const absl::StatusOr<CommandLine> line = Parse(
      {"--sim-chips=4", "--sim-memory", "512M", "--listen=unix:/a", "--listen", "[::1]:7000",
       "--state-dir=/var/lib/ptod", "--allow-remote", "--drain-grace=0s", "--max-sessions=9"});
  ASSERT_THAT(line, IsOk());
  EXPECT_EQ(line->effective.config.sim_chips().count(), 4u);
  EXPECT_EQ(line->effective.config.sim_chips().memory_bytes(), uint64_t{512} << 20);
  EXPECT_THAT(line->effective.config.listen(), ElementsAre("unix:/a", "[::1]:7000"));
  EXPECT_EQ(line->effective.config.state_dir(), "/var/lib/ptod");
  EXPECT_TRUE(line->effective.config.allow_remote());
  EXPECT_EQ(line->effective.config.drain_grace().seconds(), 0);
  EXPECT_EQ(line->effective.config.limits().max_sessions(), 9u);
}

TEST(CommandLineTest, FlagsWinOverTheFile) {
  const testing::Directory directory;
  const std::string path = directory.path() + "/ptod.conf";
  testing::WriteFile(path, "sim_chips { count: 2 clusters: 36 } allow_remote: true");
  const std::string flag = "--config=" + path;
  const absl::StatusOr<CommandLine> line =
      Parse({flag.c_str(), "--sim-chips=4", "--allow-remote=false"});
  ASSERT_THAT(line, IsOk());
  EXPECT_EQ(line->effective.config.sim_chips().count(), 4u);
  EXPECT_EQ(line->effective.config.sim_chips().clusters(), 36u);
  EXPECT_FALSE(line->effective.config.allow_remote());
}

TEST(CommandLineTest, RefusesWhatItDoesNotKnow) {
  EXPECT_THAT(Refusal({"--sim-chip=4"}), HasSubstr("--sim-chip"));
  EXPECT_THAT(Refusal({"serve"}), HasSubstr("serve"));
  EXPECT_THAT(Refusal({"--listen=unix:/a", "unix:/b"}), HasSubstr("unix:/b"));
  EXPECT_THAT(Refusal({"--sim-chips=many"}), HasSubstr("sim_chips.count"));
  EXPECT_THAT(Refusal({"--allow-remote=maybe"}), HasSubstr("allow_remote"));
  EXPECT_THAT(Refusal({"--sim-chips"}), HasSubstr("--sim-chips"));
  EXPECT_THAT(Refusal({"--sim-chips=1", "--sim-chips=2"}), HasSubstr("--sim-chips"));
  EXPECT_THAT(Refusal({"--config=/nonexistent"}), HasSubstr("/nonexistent"));
  EXPECT_THAT(Refusal({"--listen=0.0.0.0:1"}), HasSubstr("--allow-remote"));
}

TEST(CommandLineTest, ReadsWithWhichProcessToEnd) {
  const absl::StatusOr<CommandLine> line = Parse({"--exit-with=17"});
  ASSERT_THAT(line, IsOk());
  EXPECT_EQ(line->exit_with, 17);
  EXPECT_EQ(Parse({"--sim-chips=1"})->exit_with, 0);
  EXPECT_THAT(Refusal({"--exit-with=0"}), HasSubstr("--exit-with"));
  EXPECT_THAT(Refusal({"--exit-with=me"}), HasSubstr("--exit-with"));
}

TEST(CommandLineTest, HelpNamesEveryFlag) {
  const absl::StatusOr<CommandLine> line = Parse({"--help"});
  ASSERT_THAT(line, IsOk());
  EXPECT_EQ(line->action, CommandLine::Action::kPrint);
  for (const Setting& setting : AllSettings()) {
    EXPECT_THAT(line->text, HasSubstr(std::string("--") + setting.flag));
  }
  EXPECT_THAT(line->text, HasSubstr("--config FILE"));
  EXPECT_THAT(line->text, HasSubstr("--sim-memory BYTES"));
}

TEST(CommandLineTest, PrintsTheVersion) {
  const absl::StatusOr<CommandLine> line = Parse({"--version"});
  ASSERT_THAT(line, IsOk());
  EXPECT_EQ(line->action, CommandLine::Action::kPrint);
  EXPECT_EQ(line->text, "ptod 1.0.0\n");
}

TEST(CommandLineTest, PrintsTheConfiguration) {
  const absl::StatusOr<CommandLine> line = Parse({"--print-config", "--sim-chips=4"});
  ASSERT_THAT(line, IsOk());
  EXPECT_EQ(line->action, CommandLine::Action::kPrint);
  EXPECT_THAT(line->text, HasSubstr("  count: 4  # flag\n"));
}

}  // namespace
}  // namespace pto::daemon
