#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "kernels/block.h"
#include "kernels/pto_kernel.h"
#include "kernels/work_meter.h"

// The building blocks of collectives: a call's share of the work, and copies and reductions between
// ranks. Data that goes to several ranks is read once, in pieces that stay in the first-level
// cache.
namespace pto::kernels::collectives {

// Part `index` of `parts` of `total` elements. All parts begin at a multiple of `unit`, and their
// sizes differ by at most `unit`.
inline Share PartOf(int64_t total, int64_t parts, int64_t index, int64_t unit) {
  const int64_t units = (total + unit - 1) / unit;
  const int64_t each = units / parts;
  const int64_t rest = units % parts;
  const int64_t begin = index * each + std::min(index, rest);
  const int64_t end = begin + each + (index < rest ? 1 : 0);
  return {std::min(begin * unit, total), std::min(end * unit, total)};
}

// One call of a collective. Once the run is to stop, copies and reductions do nothing more. For one
// thread.
class Call {
 public:
  explicit Call(const pto_context* context);

  uint32_t ranks() const { return context_->member_count; }
  uint32_t rank() const { return context_->member_index; }
  uint32_t phase() const { return context_->phase; }
  uint32_t phases() const { return context_->phase_count; }
  uint32_t dtype() const { return dtype_; }
  int64_t element_bytes() const { return element_bytes_; }
  int64_t scalar(uint32_t index) const { return context_->scalars[index].i64; }
  std::byte* workspace() const { return static_cast<std::byte*>(context_->workspace); }
  int64_t count(uint32_t rank, uint32_t argument) const;
  const int64_t* counts(uint32_t rank, uint32_t argument) const {
    return static_cast<const int64_t*>(context_->members[rank][argument].data);
  }
  // Element `first` of a rank's tensor.
  std::byte* at(uint32_t rank, uint32_t argument, int64_t first = 0) const {
    return static_cast<std::byte*>(context_->members[rank][argument].data) + first * element_bytes_;
  }

  // This call's share of `total` elements, each of which stands for `weight` moved elements. If
  // there are too few for several calls, the first call does everything: see LaunchCheck::Shares.
  Share ShareOf(int64_t total, int64_t weight) const;
  // This block's share of its rank's range.
  Share BlockPart(Share all) const;
  // Elements in a cache line.
  int64_t line() const { return std::max<int64_t>(64 / element_bytes_, 1); }

  // Copies elements to each of `to` that is not `from`. `stream`: past the caches.
  void Copy(const std::byte* from, absl::Span<std::byte* const> to, int64_t count,
            bool stream) const;
  // Reduces elements in the order of `from`, and writes the result to each of `to`, which may also
  // be in `from`. `op` has the numbers of the scalar.
  void Reduce(absl::Span<const std::byte* const> from, absl::Span<std::byte* const> to,
              int64_t count, int64_t op, bool stream) const;

  // Counts other work, in bytes that are read and written. Returns false if the call has to return.
  bool Spend(int64_t bytes) const { return meter_.Spend(bytes / kBytesForWork); }

  // Whether outputs of this many elements, over all ranks, should bypass the caches.
  bool IsLong(int64_t elements) const;

 private:
  // A unit of work is an element of four bytes.
  static constexpr int64_t kBytesForWork = 4;

  const pto_context* const context_;
  const uint32_t dtype_;
  const int64_t element_bytes_;
  mutable WorkMeter meter_;
};

// Treats parts of `size` elements each as one sequence and visits [begin, end) of it: calls
// `use(part, from, to)` with elements [from, to) of each part.
template <typename Use>
void ForParts(Share share, int64_t size, Use use) {
  for (int64_t at = share.begin; at < share.end;) {
    const int64_t part = at / size;
    const int64_t from = at % size;
    const int64_t to = std::min(size, from + (share.end - at));
    use(static_cast<uint32_t>(part), from, to);
    at += to - from;
  }
}

}  // namespace pto::kernels::collectives
