#include "client/ptoctl/child_command.h"

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

TEST(ChildCommandTest, AProgramThatIsNotThereIsSaid) {
  EXPECT_THAT(RunChild({"no-such-program-here"}, {}), HasReason(reason::kUsage));
}

}  // namespace
}  // namespace pto::ptoctl
