#pragma once

#include <array>

#include "absl/strings/string_view.h"
#include "daemon/graph/graph_limits.h"
#include "kernels/builtin_kernels.h"
#include "kernels/domain_scalar.h"
#include "kernels/registry.h"
#include "runtime/base/log.h"
#include "runtime/graph/task_input.h"

namespace pto::fuzz {

inline int32_t DoNothing(const pto_context*) { return 0; }

// The built-in kernels, and `ranked`, which takes a domain and a number as uploaded kernels do.
inline const KernelSource& GraphKernels() {
  static const auto* const kernels = [] {
    static constexpr pto_scalar_info kScalars[] = {{"domain", kDomainScalar},
                                                   {"count", PTO_INTEGER}};
    pto_kernel_info info = {};
    info.struct_size = sizeof info;
    info.name = "ranked";
    info.description = "Takes a domain.";
    info.function = &DoNothing;
    info.default_core = PTO_AIV;
    info.scalars = kScalars;
    info.scalar_count = 2;
    auto* const all = new KernelRegistry(&BuiltinKernels());
    PTO_CHECK(all->Add(info).ok(), "the kernel is refused");
    return all;
  }();
  return *kernels;
}

// A small node, with limits that inputs can reach.
inline engine::GraphTarget SmallTarget() {
  engine::GraphTarget target;
  target.kernels = &GraphKernels();
  target.chip_clusters = {4, 2, 1, 1};
  target.max_tasks = 500;
  target.max_dependencies = 20'000;
  return target;
}

inline constexpr daemon::GraphLimits kSmallLimits = {.max_tensors = 400, .max_edges = 2'000};

// Strings for graphs.
inline constexpr std::array<absl::string_view, 38> kGraphWords = {
    "chips/0",
    "chips/1",
    "chips/2",
    "sessions/s",
    "sessions/s/buffers/x",
    "domains/d/ranks/0/signals",
    "domains/d/ranks/1/buffers/x",
    "0",
    "1",
    "noop",
    "fail",
    "hold",
    "fill",
    "iota",
    "copy",
    "add",
    "scale",
    "axpy",
    "matmul",
    "reduce_sum",
    "compare",
    "take_rows",
    "scale_rows",
    "sum_rows",
    "join",
    "notify",
    "wait",
    "wait_token",
    "copy_async",
    "kernels/all_reduce",
    "all_gather",
    "all_to_all",
    "broadcast",
    "barrier",
    "ranked",
    "d",
    "domains/d",
    "sessions/s/domains/d",
};

}  // namespace pto::fuzz
