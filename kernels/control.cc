#include <cstddef>
#include <cstdint>
#include <iterator>

#include "kernels/builtin.h"
#include "kernels/check.h"

// Operations that the engine executes itself, described like kernels so that graphs can name them.
namespace pto::kernels {
namespace {

constexpr uint32_t kWords = PTO_DTYPE_BIT(PTO_I32) | PTO_DTYPE_BIT(PTO_I64);

// Signals create no dependencies: a task that needs one waits for it explicitly.
constexpr pto_argument_info kSignal[] = {{"signal", PTO_NO_DEPENDENCY, kWords}};
constexpr pto_argument_info kSignalAndToken[] = {{"signal", PTO_NO_DEPENDENCY, kWords},
                                                 {"token", PTO_OUTPUT, PTO_DTYPE_ALL}};
constexpr pto_argument_info kToFrom[] = {{"to", PTO_OUTPUT, PTO_DTYPE_ALL},
                                         {"from", PTO_INPUT, PTO_DTYPE_ALL}};
// The token is never accessed.
constexpr pto_overlap_info kTokenOverlaps[] = {{}, {.same = 0, .any = PTO_ARGUMENT_BIT(1)}};
constexpr pto_overlap_info kToFromOverlaps[] = {{.same = PTO_ARGUMENT_BIT(1), .any = 0}, {}};
constexpr pto_scalar_info kNotifyScalars[] = {{"op", PTO_INTEGER}, {"value", PTO_INTEGER}};
constexpr pto_scalar_info kWaitScalars[] = {
    {"compare", PTO_INTEGER}, {"value", PTO_INTEGER}, {"timeout", PTO_INTEGER}};

int32_t CheckNotify(const pto_tensor* tensors, uint32_t tensor_count, char* message,
                    size_t message_size) {
  const Check check{"notify", kSignal, tensors, tensor_count, message, message_size};
  if (int32_t refused = check.Count()) return refused;
  return check.OneElement(0);
}

int32_t CheckWait(const pto_tensor* tensors, uint32_t tensor_count, char* message,
                  size_t message_size) {
  const Check check{"wait", kSignal, tensors, tensor_count, message, message_size};
  if (int32_t refused = check.Count()) return refused;
  return check.OneElement(0);
}

int32_t CheckWaitToken(const pto_tensor* tensors, uint32_t tensor_count, char* message,
                       size_t message_size) {
  const Check check{"wait_token", kSignalAndToken, tensors, tensor_count, message, message_size};
  if (int32_t refused = check.Count()) return refused;
  return check.OneElement(0);
}

int32_t CheckCopyAsync(const pto_tensor* tensors, uint32_t tensor_count, char* message,
                       size_t message_size) {
  return Check{"copy_async", kToFrom, tensors, tensor_count, message, message_size}.AllAlike();
}

constexpr pto_kernel_info Control(const char* name, const char* description, pto_control control,
                                  pto_check_function check, const pto_argument_info* arguments,
                                  uint32_t argument_count, const pto_scalar_info* scalars,
                                  uint32_t scalar_count,
                                  const pto_overlap_info* overlaps = nullptr) {
  return {
      .struct_size = sizeof(pto_kernel_info),
      .name = name,
      .description = description,
      .function = nullptr,
      .check = check,
      .default_core = PTO_AIV,
      .arguments = arguments,
      .argument_count = argument_count,
      .scalars = scalars,
      .scalar_count = scalar_count,
      .requires_sync_start = 0,
      .flags = 0,
      .control = static_cast<uint32_t>(control),
      .overlaps = overlaps,
  };
}

constexpr pto_kernel_info kKernels[] = {
    Control("join", "Does nothing; ends after its dependencies.", PTO_CONTROL_JOIN, nullptr,
            nullptr, 0, nullptr, 0),
    Control("notify", "Sets signal (op 1), or adds to it (op 2), and wakes its waiters.",
            PTO_CONTROL_NOTIFY, CheckNotify, kSignal, std::size(kSignal), kNotifyScalars,
            std::size(kNotifyScalars)),
    Control("wait",
            "Ends when signal compares true with value: 1 ==, 2 !=, 3 >, 4 >=, 5 <, 6 <=. "
            "timeout is in ns; 0 means the run's.",
            PTO_CONTROL_WAIT, CheckWait, kSignal, std::size(kSignal), kWaitScalars,
            std::size(kWaitScalars)),
    Control("wait_token", "Like wait; tasks that read token, which is not accessed, run after it.",
            PTO_CONTROL_WAIT, CheckWaitToken, kSignalAndToken, std::size(kSignalAndToken),
            kWaitScalars, std::size(kWaitScalars), kTokenOverlaps),
    Control("copy_async", "Copies tensor 'from' to tensor 'to', between any chips, without a core.",
            PTO_CONTROL_COPY, CheckCopyAsync, kToFrom, std::size(kToFrom), nullptr, 0,
            kToFromOverlaps),
};

}  // namespace

absl::Span<const pto_kernel_info> ControlKernels() { return kKernels; }

}  // namespace pto::kernels
