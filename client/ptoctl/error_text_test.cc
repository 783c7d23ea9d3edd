#include "client/ptoctl/error_text.h"

#include "client/ptoctl/exit_code.h"
#include "gtest/gtest.h"
#include "runtime/base/error.h"

namespace pto::ptoctl {
namespace {

TEST(ErrorTextTest, ShowsReasonFieldAndHint) {
  const absl::Status status = Error(reason::kKernelUnknown, "there is no kernel 'ad'")
                                  .At("graph.tasks[3].kernel")
                                  .Hint("try add");
  EXPECT_EQ(FormatError(status),
            "ptoctl: error: there is no kernel 'ad' (KERNEL_UNKNOWN)\n"
            "  at: graph.tasks[3].kernel\n"
            "  hint: try add\n"
            "  more: ptoctl errors show KERNEL_UNKNOWN\n");
}

TEST(ErrorTextTest, SaysWhereToReadOnAboutReasonsOfALaterRelease) {
  const Reason later{"NOT_INVENTED_YET", absl::StatusCode::kInternal, Scope::kRun, "later", ""};
  EXPECT_EQ(FormatError(Error(later, "new").Help("deploy/docs/errors/x.md#not_invented_yet")),
            "ptoctl: error: new (NOT_INVENTED_YET)\n"
            "  more: deploy/docs/errors/x.md#not_invented_yet\n");
  EXPECT_EQ(FormatError(Error(later, "new")), "ptoctl: error: new (NOT_INVENTED_YET)\n");
}

TEST(ErrorTextTest, FindsTheFieldInTheJobFile) {
  job::SourceMap places("add.json");
  places.Set("graph.tasks[3]", 12, 5);
  const absl::Status status =
      Error(reason::kFieldInvalid, "too many").At("graph.tasks[3].launch.block_num");
  EXPECT_EQ(FormatError(status, places),
            "ptoctl: error: too many (FIELD_INVALID)\n"
            "  at: graph.tasks[3].launch.block_num (add.json:12:5)\n"
            "  more: ptoctl errors show FIELD_INVALID\n");
  // The message of an error in the file already has the position.
  EXPECT_EQ(FormatError(places.Fault("graph.tasks[3]", "expected a kernel"), places),
            "ptoctl: error: add.json:12:5: expected a kernel (JOB_INVALID)\n"
            "  at: graph.tasks[3]\n");
}

TEST(ErrorTextTest, FindsTheTaskInTheJobFile) {
  job::SourceMap places("add.json");
  places.Set("graph.tasks[3]", 12, 5);
  const absl::Status status = Error(reason::kKernelFailed, "task 3 failed").With("task", 3);
  EXPECT_EQ(FormatError(status, places),
            "ptoctl: error: task 3 failed (KERNEL_FAILED)\n"
            "  at: graph.tasks[3] (add.json:12:5)\n"
            "  more: ptoctl errors show KERNEL_FAILED\n");
  EXPECT_EQ(FormatError(status),
            "ptoctl: error: task 3 failed (KERNEL_FAILED)\n"
            "  more: ptoctl errors show KERNEL_FAILED\n");
}

TEST(ErrorTextTest, ShowsForeignErrors) {
  EXPECT_EQ(FormatError(absl::InternalError("boom")), "ptoctl: error: boom (INTERNAL)\n");
}

TEST(ExitCodeTest, FollowsTheReason) {
  EXPECT_EQ(ExitCodeOf(absl::OkStatus()), ExitCode::kOk);
  EXPECT_EQ(ExitCodeOf(absl::InternalError("")), ExitCode::kFailed);
  EXPECT_EQ(ExitCodeOf(Error(reason::kCheckFailed, "")), ExitCode::kFailed);
  EXPECT_EQ(ExitCodeOf(Error(reason::kRunDeadline, "")), ExitCode::kFailed);
  EXPECT_EQ(ExitCodeOf(Error(reason::kJobInvalid, "")), ExitCode::kUsage);
  EXPECT_EQ(ExitCodeOf(Error(reason::kUsage, "")), ExitCode::kUsage);
  EXPECT_EQ(ExitCodeOf(Error(reason::kDaemonUnreachable, "")), ExitCode::kNoDaemon);
  EXPECT_EQ(ExitCodeOf(Error(reason::kClientTimeout, "")), ExitCode::kTimedOut);
}

}  // namespace
}  // namespace pto::ptoctl
