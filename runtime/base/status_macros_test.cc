#include "runtime/base/status_macros.h"

#include <memory>

#include "gtest/gtest.h"
#include "runtime/base/error.h"
#include "runtime/base/status_matchers.h"

namespace pto {
namespace {

using ::pto::testing::HasReason;
using ::pto::testing::IsOk;

absl::Status Fail() { return Error(reason::kRunUnknown, "no such run"); }

absl::StatusOr<std::unique_ptr<int>> Make(bool well) {
  if (!well) return Fail();
  return std::make_unique<int>(7);
}

absl::Status Twice(bool first, bool second, int* sum) {
  PTO_ASSIGN_OR_RETURN(const std::unique_ptr<int> a, Make(first));
  PTO_ASSIGN_OR_RETURN(const std::unique_ptr<int> b, Make(second));
  *sum = *a + *b;
  return absl::OkStatus();
}

TEST(StatusMacrosTest, AssignsOrReturns) {
  int sum = 0;
  EXPECT_THAT(Twice(true, false, &sum), HasReason(reason::kRunUnknown));
  EXPECT_THAT(Twice(false, true, &sum), HasReason(reason::kRunUnknown));
  EXPECT_EQ(sum, 0);
  EXPECT_THAT(Twice(true, true, &sum), IsOk());
  EXPECT_EQ(sum, 14);
}

TEST(StatusMacrosTest, ReturnsOnlyOnError) {
  int calls = 0;
  const auto run = [&calls](const absl::Status& status) -> absl::StatusOr<int> {
    PTO_RETURN_IF_ERROR((++calls, status));
    return 1;
  };
  EXPECT_THAT(run(absl::OkStatus()), IsOk());
  EXPECT_THAT(run(Fail()), HasReason(reason::kRunUnknown));
  EXPECT_EQ(calls, 2);
}

}  // namespace
}  // namespace pto
