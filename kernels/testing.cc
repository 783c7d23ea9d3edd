#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "kernels/block.h"
#include "kernels/builtin.h"
#include "kernels/check.h"

namespace pto::kernels {
namespace {

constexpr pto_scalar_info kSpinScalars[] = {{"microseconds", PTO_INTEGER}};
constexpr pto_scalar_info kFailScalars[] = {{"code", PTO_INTEGER}};

constexpr pto_argument_info kSignalArguments[] = {
    {"signal", PTO_NO_DEPENDENCY, PTO_DTYPE_BIT(PTO_I32) | PTO_DTYPE_BIT(PTO_I64)}};
constexpr pto_scalar_info kHoldScalars[] = {{"value", PTO_INTEGER}};

// The fault of a rank of `falter`.
enum Fault : int64_t { kNoFault = 0, kFails = 1, kStalls = 2 };
constexpr int64_t kFalterPhases = 3;
constexpr pto_scalar_info kFalterScalars[] = {
    {"rank", PTO_INTEGER}, {"phase", PTO_INTEGER}, {"fault", PTO_INTEGER}};

int32_t Noop(const pto_context*) { return 0; }

int32_t Spin(const pto_context* context) {
  using std::chrono::steady_clock;
  const int64_t microseconds = context->scalars[0].i64;
  if (microseconds < 0) {
    return Fail(context,
                absl::StrCat("spin: microseconds is ", microseconds, ", expected 0 or more"));
  }
  const steady_clock::time_point start = steady_clock::now();
  // Compared in whole microseconds: large values would overflow in nanoseconds.
  while ((steady_clock::now() - start) / std::chrono::microseconds(1) < microseconds) {
    if (Cancelled(context)) return 0;
  }
  return 0;
}

int32_t FailOnPurpose(const pto_context* context) {
  const int64_t code = context->scalars[0].i64;
  if (code == 0) return 0;
  Fail(context, absl::StrCat("fail: asked to return ", code));
  // Not a plain cast, which would turn 2^32 into success.
  return static_cast<int32_t>(std::clamp<int64_t>(code, std::numeric_limits<int32_t>::min(),
                                                  std::numeric_limits<int32_t>::max()));
}

int32_t Hold(const pto_context* context) {
  const pto_signal signal = {context->tensors[0].data, context->tensors[0].dtype};
  return context->api->wait(context, &signal, PTO_GE, context->scalars[0].i64, 0);
}

int32_t Defer(const pto_context* context) {
  const pto_signal signal = {context->tensors[0].data, context->tensors[0].dtype};
  return context->api->defer(context, &signal, PTO_GE, context->scalars[0].i64, 0);
}

int32_t CheckSignal(absl::string_view kernel, const pto_tensor* tensors, uint32_t tensor_count,
                    char* message, size_t message_size) {
  const Check check{kernel, kSignalArguments, tensors, tensor_count, message, message_size};
  if (int32_t refused = check.Count()) return refused;
  return check.OneElement(0);
}

int32_t CheckHold(const pto_tensor* tensors, uint32_t tensor_count, char* message,
                  size_t message_size) {
  return CheckSignal("hold", tensors, tensor_count, message, message_size);
}

int32_t CheckDefer(const pto_tensor* tensors, uint32_t tensor_count, char* message,
                   size_t message_size) {
  return CheckSignal("defer", tensors, tensor_count, message, message_size);
}

int32_t CheckFalter(const pto_tensor* tensors, uint32_t tensor_count, char* message,
                    size_t message_size) {
  return CheckSignal("falter", tensors, tensor_count, message, message_size);
}

int32_t PlanFalter(const pto_launch* launch, pto_plan* plan, char* message, size_t message_size) {
  const Check check{"falter", kSignalArguments, nullptr, 0, message, message_size};
  const int64_t ends[] = {launch->member_count, kFalterPhases, kStalls + 1};
  for (size_t i = 0; i < std::size(ends); ++i) {
    const int64_t have = launch->scalars[i].i64;
    if (have >= 0 && have < ends[i]) continue;
    return check.Refuse(
        absl::StrCat(kFalterScalars[i].name, " is ", have, ", not 0 to ", ends[i] - 1));
  }
  plan->phases = kFalterPhases;
  return 0;
}

int32_t Falter(const pto_context* context) {
  if (context->member_index != context->scalars[0].i64 || context->phase != context->scalars[1].i64)
    return 0;
  const int64_t fault = context->scalars[2].i64;
  if (fault == kNoFault) return 0;
  // Tells others that this rank has arrived.
  const pto_signal signal = {context->tensors[0].data, context->tensors[0].dtype};
  context->api->notify(context, &signal, PTO_ADD, 1);
  if (fault == kFails) return Fail(context, "falter: asked to fail");
  while (!Cancelled(context)) {
  }
  return 0;
}

constexpr pto_kernel_info kKernels[] = {
    {
        .struct_size = sizeof(pto_kernel_info),
        .name = "noop",
        .description = "Does nothing; tasks can wait for each other through it.",
        .function = Noop,
        .check = nullptr,
        .default_core = PTO_AIV,
        .arguments = nullptr,
        .argument_count = 0,
        .scalars = nullptr,
        .scalar_count = 0,
        .requires_sync_start = 0,
        .flags = 0,
        .control = PTO_CONTROL_NONE,
    },
    {
        .struct_size = sizeof(pto_kernel_info),
        .name = "spin",
        .description = "Keeps each block's core busy for that many microseconds, or until the "
                       "run is cancelled.",
        .function = Spin,
        .check = nullptr,
        .default_core = PTO_AIV,
        .arguments = nullptr,
        .argument_count = 0,
        .scalars = kSpinScalars,
        .scalar_count = std::size(kSpinScalars),
        .requires_sync_start = 0,
        .flags = 0,
        .control = PTO_CONTROL_NONE,
    },
    {
        .struct_size = sizeof(pto_kernel_info),
        .name = "fail",
        .description = "Fails with the code, unless it is 0.",
        .function = FailOnPurpose,
        .check = nullptr,
        .default_core = PTO_AIV,
        .arguments = nullptr,
        .argument_count = 0,
        .scalars = kFailScalars,
        .scalar_count = std::size(kFailScalars),
        .requires_sync_start = 0,
        .flags = 0,
        .control = PTO_CONTROL_NONE,
    },
    {
        .struct_size = sizeof(pto_kernel_info),
        .name = "hold",
        .description = "Keeps each block's core, asleep, until signal is at least value.",
        .function = Hold,
        .check = CheckHold,
        .default_core = PTO_AIV,
        .arguments = kSignalArguments,
        .argument_count = std::size(kSignalArguments),
        .scalars = kHoldScalars,
        .scalar_count = std::size(kHoldScalars),
        .requires_sync_start = 0,
        .flags = PTO_KERNEL_WAITS,
        .control = PTO_CONTROL_NONE,
    },
    {
        .struct_size = sizeof(pto_kernel_info),
        .name = "falter",
        .description = "Works in 3 phases, in one of which one rank adds 1 to its signal and then "
                       "fails (fault 1) or stays busy until it is stopped (2).",
        .function = Falter,
        .check = CheckFalter,
        .default_core = PTO_AIV,
        .arguments = kSignalArguments,
        .argument_count = std::size(kSignalArguments),
        .scalars = kFalterScalars,
        .scalar_count = std::size(kFalterScalars),
        .requires_sync_start = 0,
        .flags = PTO_KERNEL_NOTIFIES,
        .control = PTO_CONTROL_NONE,
        .plan = PlanFalter,
    },
    {
        .struct_size = sizeof(pto_kernel_info),
        .name = "defer",
        .description = "Frees each block's core at once; the task ends when signal is at least "
                       "value.",
        .function = Defer,
        .check = CheckDefer,
        .default_core = PTO_AIV,
        .arguments = kSignalArguments,
        .argument_count = std::size(kSignalArguments),
        .scalars = kHoldScalars,
        .scalar_count = std::size(kHoldScalars),
        .requires_sync_start = 0,
        .flags = 0,
        .control = PTO_CONTROL_NONE,
    },
};

}  // namespace

absl::Span<const pto_kernel_info> TestingKernels() { return kKernels; }

}  // namespace pto::kernels
