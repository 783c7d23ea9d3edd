// Uses every call of the C++ layer. Two blocks, which start together, and 64 words:
//   0: block 0 tells block 1      8-11: data      16-19: its copy      20: their sum
//   1: the end of a copy          24-27: another copy                  32-34: each block's share
#include <stdexcept>

#include "pto_kernel_cpp.h"

namespace {

using pto::kernel::Block;
using pto::kernel::Range;
using pto::kernel::Signal;

void Work(const Block& block) {
  const auto words = block.Tensor<int64_t>(0);
  const auto copy = words.Slice(0, 16, 4);
  if (block.index() == 0) {
    const auto data = words.Slice(0, 8, 4);
    for (int64_t i = 0; i < data.size(); ++i) data[i] = 10 + i;
    block.Wait(block.Copy(copy, data));
    block.Notify(Signal(words(0)), PTO_SET, 1);
    block.Copy(words.Slice(0, 24, 4), data, Signal(words(1)), PTO_ADD, 2);
    block.Defer(Signal(words(1)), PTO_GE, 2);
    block.Defer(block.Copy(words.Slice(0, 28, 4), data));
  } else {
    block.Wait(Signal(words(0)), PTO_GE, 1);
    for (int64_t i = 0; i < copy.size(); ++i) words(20) += copy(i);
  }
  block.Barrier();
  const Range share = block.Share(3);
  for (int64_t i = share.begin; i < share.end; ++i) {
    words(32 + i) = 100 * block.index() + words(20);
  }
  block.Log(PTO_LOG_DEBUG, "done");
}

void Exercise(const Block& block) {
  switch (block.Integer(0)) {
    case 0:
      return Work(block);
    case 1:
      block.Tensor<int64_t>(0)(64) = 1;
      break;
    case 2:
      throw std::runtime_error("thrown");
    case 3:
      block.Tensor<const float>(0);
      break;
    case 4:
      throw 4;
    case 5:
      block.Fail(77, "on purpose");
    case 6:
      block.Tensor<int64_t>(0)(1, 2) = 1;
      break;
    case 7:
      block.Tensor<int64_t>(0).Slice(0, 60, 5);
      break;
    case 8: {
      int64_t outside = 0;  // of the memory of the task
      block.Notify(Signal(outside), PTO_SET, 1);
      break;
    }
    case 9:
      block.Tensor<int64_t>(1);
      break;
    default:
      block.Integer(99);
  }
}

}  // namespace

PTO_EXPORT_KERNEL(Exercise, pto::kernel::Describe("exercise", "Uses every call.")
                                .NoDependency("words", PTO_I64)
                                .Integer("mode")
                                .Flags(PTO_KERNEL_WAITS | PTO_KERNEL_NOTIFIES)
                                .SyncStart());
