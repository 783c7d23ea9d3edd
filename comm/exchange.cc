#include <algorithm>
#include <cstring>

#include "absl/functional/function_ref.h"
#include "comm/collective_steps.h"
#include "kernels/dtype.h"
#include "kernels/reduction.h"
#include "runtime/base/long_copy.h"
#include "runtime/base/status_macros.h"

// The collectives in which each member only reads others' inputs and writes its own output.
namespace pto::comm {
namespace {

// Processes a piece of this member's part of every input. `from(i)` is the piece in member i's
// input; `start` is its offset in the part.
using Consume = absl::FunctionRef<void(absl::FunctionRef<const std::byte*(uint32_t)> from,
                                       size_t start, size_t bytes)>;

// `parts` is the number of parts of `bytes` bytes in each input: one for all members, or one for
// each member.
absl::Status Exchange(CollectiveSteps& steps, const std::byte* input, uint32_t parts, size_t bytes,
                      Consume consume) {
  MappedWindow& window = steps.window();
  const uint32_t mine = parts == 1 ? 0 : steps.me();  // the part for this member
  const bool small = parts * bytes <= CallSlot::kMessageBytes;
  PTO_ASSIGN_OR_RETURN(std::byte * slot, steps.MessageSlot());
  if (small) {
    // Skip this member's own part, which no other member reads.
    const size_t own = parts == 1 ? 0 : mine * bytes;
    const size_t after = parts == 1 ? 0 : own + bytes;
    std::memcpy(slot, input, own);
    std::memcpy(slot + after, input + after, parts * bytes - after);
  }
  steps.Enter();
  PTO_RETURN_IF_ERROR(steps.AwaitCalls());
  if (small) {
    const auto from = [&](uint32_t i) {
      return (i == steps.me() ? input : steps.MessageOf(i)) + mine * bytes;
    };
    consume(from, 0, bytes);
    return absl::OkStatus();
  }
  bool in_window = true;
  for (uint32_t i = 0; i < steps.count(); ++i) {
    in_window = in_window && steps.CallOf(i).input != CollectiveCall::kPrivate;
  }
  if (in_window) {
    consume([&](uint32_t i) { return window.data(i) + steps.CallOf(i).input + mine * bytes; }, 0,
            bytes);
    // Until then others read this member's input.
    return steps.PublishAndAwaitAll();
  }
  // In pieces through two halves of the scratch: one is filled while the other is read.
  const size_t half = window.staging_bytes() / 2;
  const size_t piece = half / parts / 64 * 64;
  for (size_t k = 0, done = 0; done < bytes; ++k, done += piece) {
    const size_t length = std::min(piece, bytes - done);
    for (uint32_t part = 0; part < parts; ++part) {
      std::memcpy(window.staging(steps.me()) + k % 2 * half + part * piece,
                  input + part * bytes + done, length);
    }
    PTO_RETURN_IF_ERROR(steps.PublishAndAwaitAll());
    consume([&](uint32_t i) { return window.staging(i) + k % 2 * half + mine * piece; }, done,
            length);
  }
  return absl::OkStatus();
}

// Member i's part becomes part i of the output.
absl::Status Gather(CollectiveSteps& steps, const void* input, uint32_t parts, void* output) {
  auto* out = static_cast<std::byte*>(output);
  const size_t bytes = steps.call().count;
  const bool stream = bytes * steps.count() * steps.count() >= kStreamBytes;
  return Exchange(
      steps, static_cast<const std::byte*>(input), parts, bytes,
      [&](absl::FunctionRef<const std::byte*(uint32_t)> from, size_t start, size_t length) {
        for (uint32_t i = 0; i < steps.count(); ++i) {
          // Members start at different peers.
          const uint32_t peer = (steps.me() + i) % steps.count();
          std::byte* to = out + peer * bytes + start;
          if (to != from(peer)) LongCopy(to, from(peer), length, stream);
        }
      });
}

}  // namespace

absl::Status AllGather(CollectiveSteps& steps, const void* input, void* output) {
  return Gather(steps, input, 1, output);
}

absl::Status AllToAll(CollectiveSteps& steps, const void* input, void* output) {
  return Gather(steps, input, steps.count(), output);
}

absl::Status ReduceScatter(CollectiveSteps& steps, const void* input, void* output) {
  auto* out = static_cast<std::byte*>(output);
  const CollectiveCall& call = steps.call();
  const size_t size = kernels::DtypeSize(call.dtype);
  return Exchange(
      steps, static_cast<const std::byte*>(input), steps.count(), call.count * size,
      [&](absl::FunctionRef<const std::byte*(uint32_t)> from, size_t start, size_t length) {
        const void* inputs[PTO_COMM_MAX_RANKS];
        for (uint32_t i = 0; i < steps.count(); ++i) inputs[i] = from(i);
        kernels::Reduce(out + start, absl::MakeConstSpan(inputs, steps.count()), length / size,
                        call.dtype, static_cast<kernels::ReduceOp>(call.op));
      });
}

}  // namespace pto::comm
