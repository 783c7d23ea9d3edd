#include "client/ptoctl/resolve_run.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/status_matchers.h"

namespace pto::ptoctl {
namespace {

std::vector<v1::Run> Runs(std::vector<std::string> names) {
  std::vector<v1::Run> runs(names.size());
  for (size_t i = 0; i < names.size(); ++i) runs[i].set_name(names[i]);
  return runs;
}

TEST(ResolveRunTest, TakesAnIdThatIsUnique) {
  const std::vector<v1::Run> runs =
      Runs({"sessions/s1/runs/r1", "sessions/s1/runs/xr1", "sessions/s2/runs/r2"});
  EXPECT_EQ(ResolveRun(runs, "r1").value(), "sessions/s1/runs/r1");
  EXPECT_THAT(ResolveRun(runs, "r3"), testing::HasReason(reason::kRunUnknown));
}

TEST(ResolveRunTest, NamesAllThatHaveTheId) {
  const absl::Status status =
      ResolveRun(Runs({"sessions/s1/runs/r1", "sessions/s2/runs/r1"}), "r1").status();
  EXPECT_THAT(status, testing::HasReason(reason::kRunUnknown));
  EXPECT_EQ(std::string(status.message()),
            "more than one session has a run 'r1': sessions/s1/runs/r1, sessions/s2/runs/r1");
}

TEST(ResolveRunTest, FindsTheSession) {
  EXPECT_EQ(SessionOfRun("sessions/s1/runs/r1").value(), "sessions/s1");
  for (const char* bad : {"", "r1", "sessions/s1", "sessions/s1/graphs/g", "a/b/runs/c"}) {
    EXPECT_THAT(SessionOfRun(bad), testing::HasReason(reason::kNameInvalid)) << bad;
  }
}

}  // namespace
}  // namespace pto::ptoctl
