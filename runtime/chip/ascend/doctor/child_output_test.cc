#include "runtime/chip/ascend/doctor/child_output.h"

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <csignal>

#include "absl/time/clock.h"

namespace pto::ascend {
namespace {

ChildOutput Shell(const std::string& script, absl::Duration timeout) {
  return RunChild({"/bin/sh", "-c", script}, {"PATH=/usr/bin:/bin", "WORD=hello"}, timeout);
}

TEST(ChildOutputTest, HasTextAndStatus) {
  const ChildOutput child = Shell("echo $WORD; exit 3", absl::Seconds(20));
  EXPECT_EQ(child.error, 0);
  EXPECT_TRUE(child.ended);
  EXPECT_EQ(child.text, "hello\n");
  EXPECT_EQ(WEXITSTATUS(child.status), 3);
  EXPECT_NE(RunChild({"/no/such/program"}, {}, absl::Seconds(1)).error, 0);
}

TEST(ChildOutputTest, AChildThatPrintsTooMuchEndsAllTheSame) {
  const ChildOutput child = Shell("head -c 3000000 /dev/zero; exit 4", absl::Seconds(20));
  EXPECT_TRUE(child.ended);
  EXPECT_EQ(WEXITSTATUS(child.status), 4);
  EXPECT_EQ(child.text.size(), ChildOutput::kMostBytes);
}

TEST(ChildOutputTest, AChildThatOnlyClosesItsOutputIsAwaitedInTime) {
  const absl::Time begin = absl::Now();
  const ChildOutput child = Shell("exec >&-; exec sleep 100", absl::Milliseconds(200));
  EXPECT_FALSE(child.ended);
  EXPECT_LT(absl::Now() - begin, absl::Seconds(20));
}

TEST(ChildOutputTest, ASignalIsTold) {
  const ChildOutput child = Shell("kill -SEGV $$", absl::Seconds(20));
  EXPECT_TRUE(child.ended);
  EXPECT_TRUE(WIFSIGNALED(child.status));
  EXPECT_EQ(WTERMSIG(child.status), SIGSEGV);
}

}  // namespace
}  // namespace pto::ascend
