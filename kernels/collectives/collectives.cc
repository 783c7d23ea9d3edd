#include <vector>

#include "kernels/builtin.h"
#include "kernels/collectives/kernels.h"

namespace pto::kernels {

absl::Span<const pto_kernel_info> CollectiveKernels() {
  // Never destroyed, like the registry that points to them.
  static const auto* const kernels = [] {
    auto* all = new std::vector<pto_kernel_info>;
    for (const absl::Span<const pto_kernel_info> some :
         {collectives::AllReduceKernels(), collectives::ReduceKernels(),
          collectives::SpreadKernels(), collectives::PartKernels(),
          collectives::ExchangeKernels()}) {
      all->insert(all->end(), some.begin(), some.end());
    }
    return all;
  }();
  return *kernels;
}

}  // namespace pto::kernels
