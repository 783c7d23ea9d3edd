// `ptoctl scenarios` as a person uses it, against a fresh daemon with eight chips.

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "client/examples/scenarios/scenario.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/harness/daemon_process.h"
#include "tests/harness/ptoctl.h"
#include "tests/harness/sanitizer.h"

namespace pto::testing {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

constexpr int kUsage = 2;
constexpr int kFailed = 1;
constexpr int kNoDaemon = 3;
constexpr absl::Duration kLong = absl::Seconds(200);

std::vector<std::string> Lines(const std::string& text) {
  return absl::StrSplit(text, '\n', absl::SkipEmpty());
}

// The line about a scenario; empty if there is none.
std::string LineOf(const std::string& text, const std::string& name) {
  for (const std::string& line : Lines(text)) {
    if (absl::StartsWith(line, absl::StrCat(name, " "))) return line;
  }
  return "";
}

// The scenarios that take a size.
std::vector<std::string> Collectives() {
  std::vector<std::string> names;
  for (const scenarios::Scenario& scenario : scenarios::AllScenarios()) {
    if (scenario.takes_size) names.push_back(scenario.name);
  }
  return names;
}

class PtoctlScenariosTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { daemon_ = new DaemonProcess({"--sim-chips=8"}); }
  static void TearDownTestSuite() {
    delete daemon_;
    daemon_ = nullptr;
  }

  static ProgramResult Run(std::vector<std::string> names, const std::vector<std::string>& options,
                           absl::Duration timeout = kLong) {
    names.insert(names.begin(), {"scenarios", "run"});
    names.insert(names.end(), options.begin(), options.end());
    return RunPtoctl(daemon_->address(), names, timeout);
  }
  // For an invalid command line: nothing was run.
  static void ExpectRefused(const ProgramResult& result, int code, const std::string& what) {
    EXPECT_EQ(result.exit_code, code);
    EXPECT_THAT(result.out, IsEmpty());
    EXPECT_THAT(result.err, AllOf(StartsWith("ptoctl: error: "), HasSubstr(what)));
  }

  static DaemonProcess* daemon_;
};
DaemonProcess* PtoctlScenariosTest::daemon_ = nullptr;

TEST_F(PtoctlScenariosTest, ListsThemAll) {
  const ProgramResult result = RunPtoctl(daemon_->address(), {"scenarios", "ls"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(Lines(result.out).size(), scenarios::AllScenarios().size() + 1);
  EXPECT_THAT(Lines(result.out)[0],
              AllOf(StartsWith("NAME"), HasSubstr("CHIPS"), HasSubstr("WHAT")));
  for (const scenarios::Scenario& scenario : scenarios::AllScenarios()) {
    EXPECT_THAT(LineOf(result.out, scenario.name), HasSubstr(scenario.summary)) << scenario.name;
  }
  EXPECT_THAT(LineOf(result.out, "moe_ep"), HasSubstr(" 2-8 "));
  EXPECT_THAT(LineOf(result.out, "group_reservation"), HasSubstr(" 3 "));
}

TEST_F(PtoctlScenariosTest, AllOfThemPassOnEightChips) {
  std::vector<std::string> names;
  for (const scenarios::Scenario& scenario : scenarios::AllScenarios()) {
    // A kernel host must not be a process of a sanitizer, which needs more memory than it may have.
    if (kAddressSanitizer && std::string(scenario.name) == "own_kernel_ffn") continue;
    names.push_back(scenario.name);
  }
  const ProgramResult result =
      kAddressSanitizer ? Run(names, {"--chips", "0-7"}) : Run({"all"}, {"--chips", "0-7"});
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_THAT(result.err, IsEmpty());
  for (const std::string& name : names) {
    EXPECT_THAT(LineOf(result.out, name), HasSubstr(" ok, ")) << name;
  }
  EXPECT_THAT(LineOf(result.out, "allgather"), HasSubstr(" ok, 8 chips, "));
  EXPECT_THAT(LineOf(result.out, "domain_rank_map"), HasSubstr(" ok, 3 chips, "));
  const size_t count = names.size();
  EXPECT_THAT(result.out, EndsWith(absl::StrCat(count, " of ", count, " scenarios passed\n")));
}

// Leftovers of one use must not end a wait of the next, nor be taken for its result.
TEST_F(PtoctlScenariosTest, CollectivesStayRightAThousandTimes) {
  const int repeat = kAddressSanitizer ? 50 : 1000;
  const std::vector<std::string> names = Collectives();
  const ProgramResult result =
      Run(names, {"--chips", "0-3", "--repeat", absl::StrCat(repeat)}, absl::Seconds(240));
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  for (const std::string& name : names) {
    EXPECT_THAT(LineOf(result.out, name), HasSubstr(" ok, 4 chips, ")) << name;
  }
}

TEST_F(PtoctlScenariosTest, CollectivesTakeASize) {
  const ProgramResult result = Run(Collectives(), {"--chips", "6,1,4", "--size", "1009"});
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_THAT(result.out, HasSubstr("9 of 9 scenarios passed\n"));
}

TEST_F(PtoctlScenariosTest, OthersHaveTheirOwnSize) {
  ExpectRefused(Run({"allgather", "moe_ep"}, {"--size", "7"}), kUsage,
                "--size: moe_ep has a fixed size");
  ExpectRefused(Run({"all"}, {"--size", "7"}), kUsage, "--size: ffn_tp has a fixed size");
  ExpectRefused(Run({"allgather"}, {"--size", "0"}), kUsage, "--size");
  ExpectRefused(Run({"allgather"}, {"--repeat", "0"}), kUsage, "--repeat");
}

TEST_F(PtoctlScenariosTest, NamesThatAreNotKnown) {
  const ProgramResult result = Run({"allgather", "alreduce"}, {});
  ExpectRefused(result, kUsage, "there is no scenario 'alreduce'");
  EXPECT_THAT(result.err, HasSubstr("did you mean 'allreduce'?"));
  const ProgramResult far = Run({"zzzzzzzzzzzz"}, {});
  ExpectRefused(far, kUsage, "there is no scenario 'zzzzzzzzzzzz'");
  EXPECT_THAT(far.err, HasSubstr("ptoctl scenarios ls"));
  EXPECT_EQ(Run({}, {}).exit_code, kUsage);
}

TEST_F(PtoctlScenariosTest, ChipsThatCannotBeUsed) {
  ExpectRefused(Run({"allgather"}, {"--chips", "0-2,1"}), kUsage, "0-2,1 names chip 1 twice");
  ExpectRefused(Run({"allgather"}, {"--chips", "0-x"}), kUsage, "--chips: chip list '0-x'");
  ExpectRefused(Run({"allgather"}, {"--chips", "0-8"}), kFailed,
                "there is no chips/8, the node has 8 chips (CHIP_UNKNOWN)");
}

TEST_F(PtoctlScenariosTest, TooFewChipsAreNoFailure) {
  const ProgramResult result =
      Run({"group_reservation", "allgather", "async_notify"}, {"--chips", "5"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(LineOf(result.out, "group_reservation"),
              EndsWith("skipped: needs 3 chips, there are 1"));
  EXPECT_THAT(LineOf(result.out, "allgather"), HasSubstr(" ok, 1 chips, "));
  EXPECT_THAT(result.out, EndsWith("1 of 1 scenarios passed, 2 skipped\n"));
}

// Because another session has leased the chip.
TEST_F(PtoctlScenariosTest, OneThatFailsIsNamedAndTheOthersGoOn) {
  const ProgramResult result =
      RunPtoctl(daemon_->address(), {"chips", "lease", "-n", "1", "--", "env", "-u", "PTOD_LEASE",
                                     Runfile("client/ptoctl/ptoctl"), "scenarios", "run",
                                     "allgather", "predicated_dispatch", "--chips", "0"});
  EXPECT_EQ(result.exit_code, kFailed) << result.out << result.err;
  EXPECT_THAT(LineOf(result.out, "allgather"), HasSubstr("FAILED: "));
  EXPECT_THAT(LineOf(result.out, "predicated_dispatch"), HasSubstr("FAILED: "));
  EXPECT_THAT(result.out, EndsWith("0 of 2 scenarios passed\n"));
  EXPECT_THAT(result.err, HasSubstr("2 scenarios failed"));
}

TEST(PtoctlScenarios, WithoutADaemon) {
  const ProgramResult result = RunPtoctl("unix:/nowhere/ptod.sock", {"scenarios", "run", "all"});
  EXPECT_EQ(result.exit_code, kNoDaemon);
  EXPECT_THAT(result.out, Not(HasSubstr("passed")));
}

}  // namespace
}  // namespace pto::testing
