#include "daemon/reloader.h"

#include <cstdint>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace pto::daemon {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

EffectiveConfig Config(const std::string& log_level, uint64_t max_sessions = 7,
                       const std::string& log_format = "text") {
  config::v1::DaemonConfig file;
  file.set_log_level(log_level);
  file.set_log_format(log_format);
  file.mutable_limits()->set_max_sessions(max_sessions);
  return MakeEffective(file, {}, "unix:/tmp/s").value();
}

class ReloaderTest : public ::testing::Test {
 protected:
  // Returns what is logged.
  std::string Apply(const EffectiveConfig& next, absl::Status* status = nullptr) {
    ::testing::internal::CaptureStderr();
    const absl::Status applied = reloader_.Apply(next);
    if (status != nullptr) *status = applied;
    return ::testing::internal::GetCapturedStderr();
  }

  Reloader reloader_{Config("info")};
};

TEST_F(ReloaderTest, AppliesWhatCanChangeAndNamesTheRest) {
  std::string level;
  reloader_.Add({"log_level"}, [&](const config::v1::DaemonConfig& config) {
    level = config.log_level();
    return absl::OkStatus();
  });
  std::string log = Apply(Config("debug", 8));
  EXPECT_EQ(level, "debug");
  EXPECT_THAT(log, AllOf(HasSubstr("changed=log_level\n"),
                         HasSubstr("need a restart settings=limits.max_sessions\n")));
  EXPECT_EQ(reloader_.current().config.log_level(), "debug");
  EXPECT_EQ(reloader_.current().config.limits().max_sessions(), 7u) << "still in use";
  // A restart is still needed.
  log = Apply(Config("debug", 8));
  EXPECT_THAT(log, AllOf(HasSubstr("changed=\"\"\n"), HasSubstr("limits.max_sessions")));
  EXPECT_THAT(Apply(Config("debug", 7)), Not(HasSubstr("restart")));
}

TEST_F(ReloaderTest, CallsAllFunctionsAtEachReload) {
  int calls = 0;
  reloader_.Add({"log_level"}, [](const auto&) { return absl::InternalError("refused"); });
  reloader_.Add({"log_format", "limits."}, [&](const auto&) {
    ++calls;
    return absl::OkStatus();
  });
  absl::Status status;
  const std::string log = Apply(Config("debug", 8, "json"), &status);
  EXPECT_EQ(status, absl::InternalError("refused"));
  EXPECT_THAT(log, AllOf(HasSubstr("not changed settings=log_level"), Not(HasSubstr("restart"))));
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(reloader_.current().config.log_level(), "info");
  EXPECT_EQ(reloader_.current().config.log_format(), "json");
  EXPECT_EQ(reloader_.current().config.limits().max_sessions(), 8u);
  // Files that settings name may have changed.
  Apply(Config("info", 8, "json"));
  EXPECT_EQ(calls, 2);
}

}  // namespace
}  // namespace pto::daemon
