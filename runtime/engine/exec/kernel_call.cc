#include "runtime/engine/exec/kernel_call.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/error.h"
#include "runtime/engine/run/task_data.h"

namespace pto::engine {

absl::Status KernelFailed(BlockState& state, int32_t code) {
  // Why a wait failed says more than its code does.
  if (code == PTO_TIMED_OUT && !state.rare().failure.ok()) return std::move(state.rare().failure);
  return TaskData::BlockError(reason::kKernelFailed, *state.ticket, absl::StrCat("returned ", code),
                              state.rare().error);
}

absl::Status KernelThrew(const BlockState& state, const std::exception* thrown) {
  return TaskData::BlockError(reason::kKernelThrew, *state.ticket, "threw",
                              thrown == nullptr ? "" : thrown->what());
}

}  // namespace pto::engine
