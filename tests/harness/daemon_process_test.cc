#include "tests/harness/daemon_process.h"

#include <signal.h>

#include <filesystem>
#include <fstream>
#include <memory>

#include "gtest/gtest-spi.h"
#include "gtest/gtest.h"
#include "runtime/base/status_matchers.h"

namespace pto::testing {
namespace {

TEST(DaemonProcessTest, ServesWhenItIsMadeAndLeavesNothing) {
  std::string directory;
  {
    DaemonProcess daemon;
    directory = daemon.directory();
    EXPECT_TRUE(daemon.running());
    EXPECT_TRUE(daemon.IsServing());
    const auto node = Call(*daemon.api().node, &v1::NodeService::Stub::GetNode, {});
    ASSERT_THAT(node, IsOk());
    EXPECT_EQ(node->pid(), daemon.pid());
    EXPECT_EQ(node->chip_count(), 2u);
    EXPECT_GT(daemon.ResidentBytes(), 1u << 20);
    EXPECT_GT(daemon.OpenFiles(), 3u);
  }
  EXPECT_FALSE(std::filesystem::exists(directory));
}

TEST(DaemonProcessTest, RestartsOnTheSameSocket) {
  DaemonProcess daemon({"--sim-chips=1"});
  const pid_t before = daemon.pid();
  daemon.Stop();
  EXPECT_FALSE(daemon.running());
  daemon.Restart({"--sim-chips=3"});
  EXPECT_NE(daemon.pid(), before);
  const auto node = Call(*daemon.api().node, &v1::NodeService::Stub::GetNode, {});
  ASSERT_THAT(node, IsOk());
  EXPECT_EQ(node->chip_count(), 3u);
  daemon.Kill();
  daemon.Restart();
  EXPECT_TRUE(daemon.IsServing());
}

TEST(DaemonProcessTest, ACrashFailsTheTest) {
  auto daemon = std::make_unique<DaemonProcess>();
  daemon->Signal(SIGABRT);
  EXPECT_NONFATAL_FAILURE(daemon.reset(), "ptod ended with killed by signal 6");
}

TEST(DaemonProcessTest, AReportOfASanitizerFailsTheTest) {
  auto daemon = std::make_unique<DaemonProcess>();
  std::ofstream(daemon->directory() + "/log", std::ios::app)
      << "daemon/x.cc:7:9: runtime error: signed integer overflow\n";
  EXPECT_NONFATAL_FAILURE(daemon.reset(), "a sanitizer has reported");
}

TEST(DaemonProcessTest, ADaemonThatDoesNotStartFailsTheTest) {
  EXPECT_NONFATAL_FAILURE(
      {
        DaemonProcess daemon({"--no-such-flag"});
        daemon.Kill();
      },
      "does not serve");
}

TEST(RunProgramTest, ReturnsCodeAndOutputs) {
  const ProgramResult result =
      RunProgram({"/bin/sh", "-c", "echo out $WHO; echo err >&2; exit 7"}, {{"WHO", "me"}});
  EXPECT_EQ(result.exit_code, 7);
  EXPECT_EQ(result.out, "out me\n");
  EXPECT_EQ(result.err, "err\n");
}

TEST(RunProgramTest, AProgramThatHangsFailsTheTest) {
  EXPECT_NONFATAL_FAILURE(RunProgram({"/bin/sleep", "60"}, {}, absl::Milliseconds(10)),
                          "has not ended");
}

}  // namespace
}  // namespace pto::testing
