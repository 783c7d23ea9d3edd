#include "kernels/builtin.h"

#include <cstdio>
#include <cstdlib>

#include "kernels/builtin_kernels.h"

namespace pto {

const KernelRegistry& BuiltinKernels() {
  // Never destroyed: executors may still look up kernels while the program exits.
  static const KernelRegistry* const registry = [] {
    auto* built = new KernelRegistry;
    for (absl::Span<const pto_kernel_info> family :
         {kernels::CollectiveKernels(), kernels::ControlKernels(), kernels::CopyKernels(),
          kernels::CompareKernels(), kernels::ElementwiseKernels(), kernels::FillKernels(),
          kernels::MatmulKernels(), kernels::ReduceKernels(), kernels::RowKernels(),
          kernels::TestingKernels()}) {
      for (const pto_kernel_info& info : family) {
        const absl::Status status = built->Add(info);
        if (status.ok()) continue;
        std::fprintf(stderr, "built-in kernel: %s\n", status.ToString().c_str());
        std::abort();
      }
    }
    return built;
  }();
  return *registry;
}

}  // namespace pto
