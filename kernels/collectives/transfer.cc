#include "kernels/collectives/transfer.h"

#include <array>
#include <cstring>

#include "kernels/collectives/launch_check.h"
#include "kernels/dtype.h"
#include "kernels/reduction.h"
#include "kernels/strided.h"
#include "runtime/base/long_copy.h"

namespace pto::kernels::collectives {
namespace {

// Data for several ranks stays in the first-level cache in between.
constexpr int64_t kTileBytes = 8 << 10;
// Data for one rank is moved in longer pieces.
constexpr int64_t kPieceBytes = 256 << 10;

}  // namespace

Call::Call(const pto_context* context)
    : context_(context),
      dtype_(context->tensor_count == 0 ? 0 : context->members[0][0].dtype),
      element_bytes_(static_cast<int64_t>(DtypeSize(dtype_))),
      meter_(context) {}

int64_t Call::count(uint32_t rank, uint32_t argument) const {
  return ElementCount(context_->members[rank][argument]);
}

Share Call::ShareOf(int64_t total, int64_t weight) const {
  const int64_t calls = int64_t{context_->member_count} * context_->block_count;
  const int64_t index =
      int64_t{context_->member_index} * context_->block_count + context_->block_index;
  if (IsForOneCall(total * element_bytes_, weight)) {
    return index == 0 ? Share{0, total} : Share{total, total};
  }
  const int64_t least = std::max<int64_t>(kWorthACall / weight / 64, 1) * 64;
  return PartOf(total, calls, index, least / element_bytes_);
}

Share Call::BlockPart(Share all) const {
  const Share part =
      PartOf(all.end - all.begin, context_->block_count, context_->block_index, line());
  return {all.begin + part.begin, all.begin + part.end};
}

bool Call::IsLong(int64_t elements) const {
  return static_cast<uint64_t>(elements * element_bytes_) >= kStreamBytes;
}

void Call::Copy(const std::byte* from, absl::Span<std::byte* const> to, int64_t count,
                bool stream) const {
  const int64_t bytes = count * element_bytes_;
  const int64_t tile = to.size() > 1 ? kTileBytes : kPieceBytes;
  for (int64_t start = 0; start < bytes; start += tile) {
    const auto length = static_cast<size_t>(std::min(tile, bytes - start));
    if (!Spend(static_cast<int64_t>(length * (1 + to.size())))) return;
    for (std::byte* const out : to) {
      if (out == from) continue;
      LongCopy(out + start, from + start, length, stream);
    }
  }
}

void Call::Reduce(absl::Span<const std::byte* const> from, absl::Span<std::byte* const> to,
                  int64_t count, int64_t op, bool stream) const {
  const int64_t tile = kTileBytes / element_bytes_;
  alignas(64) std::byte sums[kTileBytes];
  std::array<const void*, kMaxRanks> inputs;
  for (int64_t start = 0; start < count; start += tile) {
    const int64_t offset = start * element_bytes_;
    const int64_t length = std::min(tile, count - start);
    // Elements count, not bytes: a reduction of narrow ones takes as long for each.
    if (!meter_.Spend(length * static_cast<int64_t>(from.size() + to.size()))) return;
    for (size_t i = 0; i < from.size(); ++i) inputs[i] = from[i] + offset;
    // Data that is stored past the caches must be computed elsewhere first.
    std::byte* const result = stream ? sums : to[0] + offset;
    kernels::Reduce(result, absl::MakeConstSpan(inputs.data(), from.size()),
                    static_cast<size_t>(length), dtype_, static_cast<kernels::ReduceOp>(op));
    for (std::byte* const out : to) {
      if (out + offset == result) continue;
      LongCopy(out + offset, result, static_cast<size_t>(length * element_bytes_), stream);
    }
  }
}

}  // namespace pto::kernels::collectives
