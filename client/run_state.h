#pragma once

#include "absl/status/status.h"
#include "pto/v1/run.pb.h"

namespace pto {

// Whether the state is final: the run has ended.
bool IsFinal(v1::Run::State state);

// The result of a run: OK if it succeeded, otherwise its first error. FAILED_PRECONDITION if it has
// not ended.
absl::Status StatusOf(const v1::Run& run);

// The result of a launch: OK if its run succeeded, otherwise why it was rejected, failed or was
// cancelled.
absl::Status StatusOf(const v1::LaunchCompletion& completion);

}  // namespace pto
