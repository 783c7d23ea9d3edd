#pragma once

#include <cstdint>
#include <functional>

#include "absl/status/statusor.h"
#include "client/kernel_check/finding.h"
#include "client/kernel_check/options.h"

namespace pto::kernel_check {

// Runs a kernel of either ABI on random inputs and reports what is wrong with it. Each input is
// used in a process of its own, because the kernel may crash; so this must be called while the
// process has no other threads. `progress` is called after each case.
//
// Errors are about the file, the signature and the options. That the kernel is wrong is none: that
// is what the report is for.
absl::StatusOr<Report> CheckKernel(
    const Options& options,
    const std::function<void(uint32_t done, uint32_t total)>& progress = nullptr);

}  // namespace pto::kernel_check
