#include "runtime/graph/graph_testing.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "runtime/base/log.h"

namespace pto::engine::testing {
namespace {

int32_t DoNothing(const pto_context*) { return 0; }

int32_t CheckSameShape(const pto_tensor* tensors, uint32_t count, char* message, size_t size) {
  for (uint32_t i = 1; i < count; ++i) {
    if (tensors[i].data != nullptr || tensors[i].ndim != tensors[0].ndim ||
        !std::equal(tensors[i].shape, tensors[i].shape + tensors[i].ndim, tensors[0].shape)) {
      std::snprintf(message, size, "argument %u has another shape than argument 0", i);
      return 1;
    }
  }
  return 0;
}

constexpr uint32_t kFloats = PTO_DTYPE_BIT(PTO_F32) | PTO_DTYPE_BIT(PTO_F64);
constexpr pto_argument_info kAxpyArguments[] = {
    {"out", PTO_OUTPUT, kFloats}, {"x", PTO_INPUT, kFloats}, {"y", PTO_INPUT, kFloats}};
constexpr pto_scalar_info kAxpyScalars[] = {{"alpha", PTO_FLOAT}};
constexpr pto_argument_info kStepArguments[] = {{"data", PTO_INOUT, PTO_DTYPE_ALL}};
constexpr pto_scalar_info kStepScalars[] = {{"rate", PTO_FLOAT}, {"count", PTO_INTEGER}};
constexpr pto_argument_info kCubeArguments[] = {{"data", PTO_INOUT, PTO_DTYPE_BIT(PTO_F16)}};

constexpr pto_scalar_info kTwistScalars[] = {{"count", PTO_INTEGER}, {"rate", PTO_FLOAT}};

// Like the kernels of kernels/control.cc.
constexpr uint32_t kWords = PTO_DTYPE_BIT(PTO_I32) | PTO_DTYPE_BIT(PTO_I64);
constexpr pto_argument_info kSignalArguments[] = {{"signal", PTO_NO_DEPENDENCY, kWords},
                                                  {"token", PTO_OUTPUT, PTO_DTYPE_ALL}};
constexpr pto_scalar_info kNotifyScalars[] = {{"op", PTO_INTEGER}, {"value", PTO_INTEGER}};
constexpr pto_scalar_info kWaitScalars[] = {
    {"compare", PTO_INTEGER}, {"value", PTO_INTEGER}, {"timeout", PTO_INTEGER}};
constexpr pto_argument_info kCopyArguments[] = {{"to", PTO_OUTPUT, PTO_DTYPE_ALL},
                                                {"from", PTO_INPUT, PTO_DTYPE_ALL}};

// The kernels do nothing, so any overlap is allowed.
constexpr pto_overlap_info kAxpyOverlaps[] = {{0, 7}, {}, {}};
constexpr pto_overlap_info kOneOverlap[] = {{0, 1}};
constexpr pto_overlap_info kTokenOverlaps[] = {{}, {0, 2}};
constexpr pto_overlap_info kCopyOverlaps[] = {{0, 3}, {}};

constexpr uint32_t kSize = sizeof(pto_kernel_info);
constexpr pto_kernel_info kInfos[] = {
    {kSize, "nop", "Does nothing.", &DoNothing, nullptr, PTO_AIV, nullptr, 0, nullptr, 0, 0, 0, 0},
    {kSize, "axpy", "Like y + alpha x.", &DoNothing, &CheckSameShape, PTO_AIV, kAxpyArguments, 3,
     kAxpyScalars, 1, 0, 0, 0, nullptr, kAxpyOverlaps},
    {kSize, "step", "Like data += rate * count.", &DoNothing, nullptr, PTO_MIX, kStepArguments, 1,
     kStepScalars, 2, 0, 0, 0, nullptr, kOneOverlap},
    {kSize, "cube", "On a cube core.", &DoNothing, nullptr, PTO_AIC, kCubeArguments, 1, nullptr, 0,
     0, 0, 0, nullptr, kOneOverlap},
    {kSize, "gang", "All at once.", &DoNothing, nullptr, PTO_AIV, nullptr, 0, nullptr, 0, 1, 0, 0},
    {kSize, "twist", "Like step, with its scalars the other way round.", &DoNothing, nullptr,
     PTO_AIV, kStepArguments, 1, kTwistScalars, 2, 0, 0, 0, nullptr, kOneOverlap},
    {kSize, "waiter", "May wait.", &DoNothing, nullptr, PTO_AIV, nullptr, 0, nullptr, 0, 0,
     PTO_KERNEL_WAITS, 0},
    {kSize, "blocker", "May block.", &DoNothing, nullptr, PTO_AIV, nullptr, 0, nullptr, 0, 0,
     PTO_KERNEL_BLOCKS, 0},
    {kSize, "join", "Does nothing.", nullptr, nullptr, PTO_AIV, nullptr, 0, nullptr, 0, 0, 0,
     PTO_CONTROL_JOIN},
    {kSize, "notify", "Changes a signal.", nullptr, nullptr, PTO_AIV, kSignalArguments, 1,
     kNotifyScalars, 2, 0, 0, PTO_CONTROL_NOTIFY},
    {kSize, "wait", "Waits for a signal.", nullptr, nullptr, PTO_AIV, kSignalArguments, 1,
     kWaitScalars, 3, 0, 0, PTO_CONTROL_WAIT},
    {kSize, "wait_token", "Waits for a signal, and writes a token.", nullptr, nullptr, PTO_AIV,
     kSignalArguments, 2, kWaitScalars, 3, 0, 0, PTO_CONTROL_WAIT, nullptr, kTokenOverlaps},
    {kSize, "copy_async", "Copies between any two chips.", nullptr, &CheckSameShape, PTO_AIV,
     kCopyArguments, 2, nullptr, 0, 0, 0, PTO_CONTROL_COPY, nullptr, kCopyOverlaps},
};

}  // namespace

const KernelRegistry& GraphTestKernels() {
  static const KernelRegistry* const kernels = [] {
    auto* registry = new KernelRegistry;
    for (const pto_kernel_info& info : kInfos) {
      PTO_CHECK(registry->Add(info).ok(), "a test kernel is refused");
    }
    return registry;
  }();
  return *kernels;
}

GraphTarget GraphTestTarget(std::vector<uint32_t> chip_clusters) {
  GraphTarget target;
  target.kernels = &GraphTestKernels();
  target.chip_clusters = std::move(chip_clusters);
  return target;
}

}  // namespace pto::engine::testing
