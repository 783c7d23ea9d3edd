#include "comm/collectives.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "comm/collective_steps.h"
#include "comm/handle.h"
#include "comm/status.h"
#include "kernels/dtype.h"
#include "kernels/reduction.h"

namespace pto::comm {
namespace {

// The buffer's offset in this member's bytes of the window.
uint64_t OffsetIn(const MappedWindow& window, const void* buffer, uint64_t bytes) {
  const auto base = reinterpret_cast<uintptr_t>(window.local());
  const auto start = reinterpret_cast<uintptr_t>(buffer);
  const uint64_t available = window.spec().bytes;
  if (start < base || start - base > available || bytes > available - (start - base)) {
    return CollectiveCall::kPrivate;
  }
  return start - base;
}

struct Arguments {
  CollectiveKind kind;
  const void* input;
  void* output;
  uint64_t count;
  uint32_t input_parts = 1;   // parts of `count` elements
  uint32_t output_parts = 1;  // parts of `count` elements
  uint32_t dtype = 0;         // bytes
  uint32_t op = 0;
  uint32_t root = 0;
};

using Function = absl::Status (*)(CollectiveSteps& steps, const void* input, void* output);

int Run(pto_comm_window* handle, const Arguments& arguments, int64_t deadline, Function function) {
  const auto fail = [&](const absl::Status& status) { return Report(handle->comm, status); };
  MappedWindow* window = handle->window->mapped();
  if (window == nullptr) return fail(NotSupported("this backend cannot map its peers' memory"));
  size_t size = 1;
  if (arguments.op != 0 || arguments.dtype != 0) {
    if (!kernels::IsReducible(arguments.dtype) || !kernels::IsReduceOp(arguments.op)) {
      return fail(Invalid(absl::StrCat("type ", arguments.dtype, " and operation ", arguments.op,
                                       " cannot be reduced")));
    }
    size = kernels::DtypeSize(arguments.dtype);
  }
  if (arguments.root >= window->count()) {
    return fail(Invalid(absl::StrCat("there is no member ", arguments.root)));
  }
  constexpr uint64_t kMost = uint64_t{1} << 48;
  if (arguments.count > kMost) {
    return fail(Invalid(absl::StrCat(arguments.count, " elements are too many")));
  }
  // Without elements, buffers may be null. The call is made anyway: only together can members
  // notice that one of them has data to send.
  alignas(int64_t) std::byte nothing{};
  const void* input = arguments.count == 0 ? &nothing : arguments.input;
  void* output = arguments.count == 0 ? &nothing : arguments.output;
  const auto aligned = [&](const void* buffer) {
    return buffer != nullptr && reinterpret_cast<uintptr_t>(buffer) % size == 0;
  };
  if (arguments.count != 0 && (!aligned(input) || !aligned(output))) {
    return fail(Invalid("a buffer is null, or not aligned to its elements"));
  }
  const uint64_t bytes = arguments.count * size;
  if (window->count() == 1) {
    std::memmove(output, input, bytes);
    return PTO_COMM_OK;
  }
  CollectiveCall call{};
  call.kind = static_cast<uint32_t>(arguments.kind);
  call.dtype = arguments.dtype;
  call.op = arguments.op;
  call.root = arguments.root;
  call.count = arguments.count;
  call.input = OffsetIn(*window, input, bytes * arguments.input_parts);
  call.output = OffsetIn(*window, output, bytes * arguments.output_parts);
  call.history = window->history();
  CollectiveSteps steps(*window, call, deadline);
  return fail(steps.Finish(function(steps, input, output)));
}

}  // namespace
}  // namespace pto::comm

using pto::comm::CollectiveKind;
using pto::comm::CollectiveSteps;

int pto_comm_broadcast(pto_comm_window* window, void* buffer, uint64_t bytes, uint32_t root,
                       int64_t deadline_ns) {
  return pto::comm::Run(window,
                        {.kind = CollectiveKind::kBroadcast,
                         .input = buffer,
                         .output = buffer,
                         .count = bytes,
                         .root = root},
                        deadline_ns, [](CollectiveSteps& steps, const void*, void* output) {
                          return pto::comm::Broadcast(steps, output);
                        });
}

int pto_comm_all_reduce(pto_comm_window* window, const void* input, void* output, uint64_t count,
                        pto_dtype dtype, pto_comm_reduce op, int64_t deadline_ns) {
  return pto::comm::Run(window,
                        {.kind = CollectiveKind::kAllReduce,
                         .input = input,
                         .output = output,
                         .count = count,
                         .dtype = dtype,
                         .op = op},
                        deadline_ns, pto::comm::AllReduce);
}

int pto_comm_all_gather(pto_comm_window* window, const void* input, void* output, uint64_t bytes,
                        int64_t deadline_ns) {
  return pto::comm::Run(window,
                        {.kind = CollectiveKind::kAllGather,
                         .input = input,
                         .output = output,
                         .count = bytes,
                         .output_parts = pto_comm_window_size(window)},
                        deadline_ns, pto::comm::AllGather);
}

int pto_comm_reduce_scatter(pto_comm_window* window, const void* input, void* output,
                            uint64_t count, pto_dtype dtype, pto_comm_reduce op,
                            int64_t deadline_ns) {
  return pto::comm::Run(window,
                        {.kind = CollectiveKind::kReduceScatter,
                         .input = input,
                         .output = output,
                         .count = count,
                         .input_parts = pto_comm_window_size(window),
                         .dtype = dtype,
                         .op = op},
                        deadline_ns, pto::comm::ReduceScatter);
}

int pto_comm_all_to_all(pto_comm_window* window, const void* input, void* output, uint64_t bytes,
                        int64_t deadline_ns) {
  return pto::comm::Run(window,
                        {.kind = CollectiveKind::kAllToAll,
                         .input = input,
                         .output = output,
                         .count = bytes,
                         .input_parts = pto_comm_window_size(window),
                         .output_parts = pto_comm_window_size(window)},
                        deadline_ns, pto::comm::AllToAll);
}
