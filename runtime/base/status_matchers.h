#pragma once

#include <ostream>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "runtime/base/error.h"

namespace pto::testing {

inline absl::Status GetStatus(const absl::Status& status) { return status; }
template <typename T>
absl::Status GetStatus(const absl::StatusOr<T>& status) {
  return status.status();
}

// EXPECT_THAT(Do(), IsOk());
MATCHER(IsOk, "is OK") {
  *result_listener << GetStatus(arg).ToString();
  return GetStatus(arg).ok();
}

// EXPECT_THAT(Do(), HasReason(reason::kKernelUnknown));
MATCHER_P(HasReason, reason, "has the reason " + std::string(reason.name)) {
  const absl::Status status = GetStatus(arg);
  *result_listener << status.ToString() << " with the reason '" << ReasonOf(status) << "'";
  return ReasonOf(status) == reason.name && status.code() == reason.code;
}

}  // namespace pto::testing
