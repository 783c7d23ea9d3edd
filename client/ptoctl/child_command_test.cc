#include "client/ptoctl/child_command.h"

#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "runtime/base/status_matchers.h"

namespace pto::ptoctl {
namespace {

using ::pto::testing::HasReason;
using ::pto::testing::IsOk;

int RunShell(const std::string& script,
             const std::map<std::string, std::string>& environment = {}) {
  const absl::StatusOr<int> code = RunChild({"sh", "-c", script}, environment);
  EXPECT_THAT(code, IsOk());
  return code.value_or(-1);
}

TEST(ChildCommandTest, EndsAsTheProgramDid) {
  EXPECT_EQ(RunShell("exit 0"), 0);
  EXPECT_EQ(RunShell("exit 7"), 7);
  EXPECT_EQ(RunShell("kill -KILL $$"), 128 + 9);
}

TEST(ChildCommandTest, ChangesTheEnvironment) {
  setenv("OLD", "before", 1);
  setenv("KEPT", "kept", 1);
  EXPECT_EQ(
      RunShell("test \"$OLD $KEPT $NEW\" = 'after kept new'", {{"OLD", "after"}, {"NEW", "new"}}),
      0);
  EXPECT_STREQ(getenv("OLD"), "before");
}

TEST(ChildCommandTest, SignalsGoOnToIt) {
  // The program sends us a signal, which we forward to it.
  EXPECT_EQ(RunShell(absl::StrCat("trap 'exit 3' TERM; kill -TERM ", getpid(),
                                  "; while true; do sleep 0.01; done")),
            3);
}

// Runs a script that starts background processes and appends their ids to the file $PIDS. Returns
// how many of them there were, and fails if one is left.
int RunWithOrphans(const std::string& script) {
  const std::string pids = absl::StrCat("/tmp/child-command-test-", getpid());
  EXPECT_EQ(RunShell(script + "\nexit 3", {{"PIDS", pids}}), 3);
  int count = 0;
  std::ifstream file(pids);
  for (pid_t pid = 0; file >> pid; ++count) {
    EXPECT_EQ(kill(pid, 0), -1) << pid << " still runs";
  }
  unlink(pids.c_str());
  return count;
}

TEST(ChildCommandTest, WhatItLeavesRunningIsEnded) {
  EXPECT_EQ(RunWithOrphans("sleep 1000 & echo $! >>$PIDS; sleep 1000 & echo $! >>$PIDS"), 2);
  EXPECT_EQ(RunWithOrphans("(sh -c 'echo $$ >>$PIDS; exec sleep 1000' &); "
                           "until test -s $PIDS; do sleep 0.01; done"),
            1)
      << "a grandchild";
  EXPECT_EQ(RunWithOrphans("setsid sh -c 'echo $$ >>$PIDS; exec sleep 1000' & "
                           "until test -s $PIDS; do sleep 0.01; done"),
            1)
      << "one with a session of its own";
}

TEST(ChildCommandTest, WhatIgnoresThatIsKilled) {
  EXPECT_EQ(
      RunWithOrphans("sh -c 'trap \"\" TERM; echo $$ >>$PIDS; while :; do sleep 1000; done' & "
                     "until test -s $PIDS; do sleep 0.01; done"),
      1);
}

TEST(ChildCommandTest, AProgramThatIsNotThereIsSaid) {
  EXPECT_THAT(RunChild({"no-such-program-here"}, {}), HasReason(reason::kUsage));
}

}  // namespace
}  // namespace pto::ptoctl
