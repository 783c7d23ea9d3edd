#include <algorithm>
#include <cstring>

#include "comm/collective_steps.h"
#include "kernels/dtype.h"
#include "kernels/reduction.h"
#include "runtime/base/long_copy.h"
#include "runtime/base/status_macros.h"

namespace pto::comm {
namespace {

// Up to this size every member reduces everything: one round of waiting, but each member does all
// the work.
constexpr size_t kAloneBytes = 32 * 1024;

class AllReducer {
 public:
  AllReducer(CollectiveSteps& steps, const void* input, void* output)
      : steps_(steps),
        window_(steps.window()),
        size_(kernels::DtypeSize(steps.call().dtype)),
        bytes_(steps.call().count * size_),
        input_(static_cast<const std::byte*>(input)),
        output_(static_cast<std::byte*>(output)) {}

  absl::Status Run() {
    const bool alone = bytes_ <= CallSlot::kMessageBytes && bytes_ * steps_.count() <= kAloneBytes;
    PTO_ASSIGN_OR_RETURN(std::byte * slot, steps_.MessageSlot());
    if (alone) std::memcpy(slot, input_, bytes_);
    steps_.Enter();
    PTO_RETURN_IF_ERROR(steps_.AwaitCalls());
    if (alone) {
      ReduceFrom([&](uint32_t i) { return i == steps_.me() ? input_ : steps_.MessageOf(i); },
                 output_, bytes_);
      return absl::OkStatus();
    }
    for (uint32_t i = 0; i < steps_.count(); ++i) {
      const CollectiveCall& call = steps_.CallOf(i);
      if (call.input == CollectiveCall::kPrivate || call.output == CollectiveCall::kPrivate) {
        return ThroughScratch();
      }
    }
    return InWindow();
  }

 private:
  struct Range {
    size_t start;
    size_t bytes;
  };

  // The part of `bytes` that member i reduces: whole cache lines, the same number for all.
  Range PartOf(uint32_t i, size_t bytes) const {
    const size_t each = ((bytes + steps_.count() - 1) / steps_.count() + 63) / 64 * 64;
    const size_t start = std::min(bytes, i * each);
    return {start, std::min(each, bytes - start)};
  }

  // Reduces at(i) of all members to out.
  template <typename At>
  void ReduceFrom(At at, void* out, size_t bytes) {
    const void* inputs[PTO_COMM_MAX_RANKS];
    for (uint32_t i = 0; i < steps_.count(); ++i) inputs[i] = at(i);
    kernels::Reduce(out, absl::MakeConstSpan(inputs, steps_.count()), bytes / size_,
                    steps_.call().dtype, static_cast<kernels::ReduceOp>(steps_.call().op));
  }

  // Each member reduces its part of all inputs and writes the result to all outputs.
  absl::Status InWindow() {
    constexpr size_t kTile = 32 * 1024;
    const bool stream = bytes_ * steps_.count() >= kStreamBytes;
    const Range part = PartOf(steps_.me(), bytes_);
    for (size_t done = 0; done < part.bytes; done += kTile) {
      const size_t start = part.start + done;
      const size_t tile = std::min(kTile, part.bytes - done);
      std::byte* mine = output_ + start;
      ReduceFrom([&](uint32_t i) { return window_.data(i) + steps_.CallOf(i).input + start; }, mine,
                 tile);
      for (uint32_t i = 0; i < steps_.count(); ++i) {
        if (i == steps_.me()) continue;
        LongCopy(window_.data(i) + steps_.CallOf(i).output + start, mine, tile, stream);
      }
    }
    return steps_.PublishAndAwaitAll();
  }

  // Works in chunks that each go through three steps: all inputs into the scratch; each part
  // reduced in its member's scratch; all parts from there into every output. Three chunks are in
  // flight at a time.
  absl::Status ThroughScratch() {
    const size_t chunk = window_.staging_bytes() / 4 / 64 * 64;
    const auto in = [&](uint32_t i, size_t k) { return window_.staging(i) + k % 2 * chunk; };
    const auto out = [&](uint32_t i, size_t k) { return window_.staging(i) + (2 + k % 2) * chunk; };
    const size_t chunks = (bytes_ + chunk - 1) / chunk;
    const auto length = [&](size_t k) { return std::min(chunk, bytes_ - k * chunk); };
    for (size_t k = 0; k < chunks + 2; ++k) {
      if (k < chunks) std::memcpy(in(steps_.me(), k), input_ + k * chunk, length(k));
      if (k >= 1 && k <= chunks) {
        const Range part = PartOf(steps_.me(), length(k - 1));
        ReduceFrom([&](uint32_t i) { return in(i, k - 1) + part.start; },
                   out(steps_.me(), k - 1) + part.start, part.bytes);
      }
      if (k >= 2) {
        for (uint32_t i = 0; i < steps_.count(); ++i) {
          const Range part = PartOf(i, length(k - 2));
          std::memcpy(output_ + (k - 2) * chunk + part.start, out(i, k - 2) + part.start,
                      part.bytes);
        }
      }
      if (k + 1 < chunks + 2) {
        PTO_RETURN_IF_ERROR(steps_.PublishAndAwaitAll());
      }
    }
    return absl::OkStatus();
  }

  CollectiveSteps& steps_;
  MappedWindow& window_;
  const size_t size_;
  const size_t bytes_;
  const std::byte* const input_;
  std::byte* const output_;
};

}  // namespace

absl::Status AllReduce(CollectiveSteps& steps, const void* input, void* output) {
  return AllReducer(steps, input, output).Run();
}

}  // namespace pto::comm
