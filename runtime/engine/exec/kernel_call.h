#pragma once

#include <exception>

#include "absl/status/status.h"
#include "kernels/pto_kernel.h"
#include "runtime/engine/exec/block_state.h"

namespace pto::engine {

// How a call of a kernel ended. kDeferred: its task is counted, and goes on without it; the call
// itself may have failed.
enum class BlockEnd { kDone, kFailed, kDeferred };

// What a kernel's result means, which was not 0.
absl::Status KernelFailed(BlockState& state, int32_t code);
// `thrown` is nullptr when it is no std::exception.
absl::Status KernelThrew(const BlockState& state, const std::exception* thrown);

// Calls a kernel, and turns what it returns, or throws, into a status. Returns kDone or kFailed.
inline BlockEnd CallKernel(const pto_kernel_info& kernel, const pto_context& context,
                           BlockState& state, absl::Status* error) {
  try {
    const int32_t code = kernel.function(&context);
    if (code == 0) [[likely]] {
      return BlockEnd::kDone;
    }
    *error = KernelFailed(state, code);
  } catch (const std::exception& thrown) {
    *error = KernelThrew(state, &thrown);
  } catch (...) {
    *error = KernelThrew(state, nullptr);
  }
  return BlockEnd::kFailed;
}

}  // namespace pto::engine
