#pragma once

#include "absl/status/status.h"
#include "pto/v1/run.pb.h"

namespace pto {

// Whether a run in this state will not change any more.
bool IsFinal(v1::Run::State state);

// How a run ended: OK when it succeeded, else its first error. FAILED_PRECONDITION while it has
// not ended.
absl::Status StatusOf(const v1::Run& run);

// How a launch ended: OK when its run succeeded, else why it was refused, failed or cancelled.
absl::Status StatusOf(const v1::LaunchCompletion& completion);

}  // namespace pto
