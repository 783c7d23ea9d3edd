// The kernels of the scenario own_kernel_ffn: a user's own, in one object, with nothing but the two
// headers of the kernel ABI.
#include <cmath>

#include "pto_kernel_cpp.h"

namespace {

using pto::kernel::Block;
using pto::kernel::Describe;
using pto::kernel::Range;
using pto::kernel::Signal;
using pto::kernel::View;

// y = x · w; each block computes some rows.
void MatMul(const Block& block) {
  const auto x = block.Tensor<const float>("x");
  const auto w = block.Tensor<const float>("w");
  const auto y = block.Tensor<float>("y");
  if (x.dim(1) != w.dim(0) || y.dim(0) != x.dim(0) || y.dim(1) != w.dim(1)) {
    block.Fail(PTO_INVALID, "the shapes of x, w and y do not fit together");
  }
  const Range rows = block.Share(y.dim(0));
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    if (block.cancelled()) return;
    for (int64_t column = 0; column < y.dim(1); ++column) {
      double sum = 0;
      for (int64_t i = 0; i < x.dim(1); ++i) sum += static_cast<double>(x(row, i)) * w(i, column);
      y(row, column) = static_cast<float>(sum);
    }
  }
}

// x / (1 + e^-x), in place.
void Silu(const Block& block) {
  const auto x = block.Tensor<float>("x");
  const Range share = block.Share(x.size());
  for (int64_t i = share.begin; i < share.end; ++i) x[i] = x[i] / (1 + std::exp(-x[i]));
}

// Sums `partial` over all ranks. A block is responsible for a part of the elements: it writes those
// of its rank into the window of every rank, tells the block of the same number there, waits for
// all ranks, and sums up what they have written. Signals start at 0 in each run.
void AllReduce(const Block& block) {
  const auto partial = block.Tensor<const float>("partial");
  const auto sum = block.Tensor<float>("sum");
  const Range share = block.Share(partial.size());
  const int64_t blocks = block.count();
  for (uint32_t peer = 0; peer < block.ranks(); ++peer) {
    const auto slots = block.Tensor<float>("slots", peer);
    for (int64_t i = share.begin; i < share.end; ++i) slots(block.rank(), i) = partial[i];
    const auto arrived = block.Tensor<int64_t>("arrived", peer);
    block.Notify(Signal(arrived(block.rank() * blocks + block.index())), PTO_SET, 1);
  }
  const auto arrived = block.Tensor<int64_t>("arrived");
  for (uint32_t peer = 0; peer < block.ranks(); ++peer) {
    block.Wait(Signal(arrived(peer * blocks + block.index())), PTO_GE, 1);
  }
  const auto slots = block.Tensor<float>("slots");
  for (int64_t i = share.begin; i < share.end; ++i) {
    double total = 0;
    for (uint32_t peer = 0; peer < block.ranks(); ++peer) total += slots(peer, i);
    sum[i] = static_cast<float>(total);
  }
}

}  // namespace

PTO_EXPORT_KERNEL_AS("own_matmul", MatMul,
                     Describe("own_matmul", "Multiplies two matrices.")
                         .In("x", PTO_F32)
                         .In("w", PTO_F32)
                         .Out("y", PTO_F32)
                         .On(PTO_AIC));
PTO_EXPORT_KERNEL_AS("own_silu", Silu,
                     Describe("own_silu", "Replaces x by x / (1 + e^-x).").InOut("x", PTO_F32));
PTO_EXPORT_KERNEL_AS("own_all_reduce", AllReduce,
                     Describe("own_all_reduce", "Sums a vector over all ranks.")
                         .In("partial", PTO_F32)
                         .Out("sum", PTO_F32)
                         .NoDependency("slots", PTO_F32)
                         .NoDependency("arrived", PTO_I64)
                         .Flags(PTO_KERNEL_WAITS | PTO_KERNEL_NOTIFIES)
                         .SyncStart());
