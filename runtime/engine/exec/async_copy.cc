#include "runtime/engine/exec/async_copy.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/dtype.h"

namespace pto::engine {
namespace {

// Some ten microseconds of work.
constexpr int64_t kPieceBytes = 256 << 10;

// T is any type of the element's size: bits are moved, nothing is calculated.
template <typename T>
void CopyElements(const pto_tensor& from, const pto_tensor& to,
                  const kernels::StridedRange<2>& range, int64_t begin, int64_t end) {
  range.ForEach(begin, end, [&](const auto& offsets, const auto& strides, int64_t count, int64_t) {
    const T* source = static_cast<const T*>(from.data) + offsets[0];
    T* target = static_cast<T*>(to.data) + offsets[1];
    if (strides[0] == 1 && strides[1] == 1) {
      // Not memcpy: nobody forbids copying a tensor onto itself.
      std::memmove(target, source, static_cast<size_t>(count) * sizeof(T));
    } else {
      for (int64_t i = 0; i < count; ++i) target[i * strides[1]] = source[i * strides[0]];
    }
  });
}

}  // namespace

AsyncCopy::AsyncCopy(Services& services, Run& run, const pto_tensor& to, const pto_tensor& from,
                     const Notice& notice, HostCharge charge)
    : Errand(run),
      services_(services),
      to_(to),
      from_(from),
      notice_(notice),
      charge_(std::move(charge)),
      range_({&from_, &to_}) {}

std::shared_ptr<AsyncCopy> AsyncCopy::Begin(Services& services, Run& run, const pto_tensor& to,
                                            const pto_tensor& from, const Notice& notice,
                                            HostCharge charge) {
  std::shared_ptr<AsyncCopy> copy(
      new AsyncCopy(services, run, to, from, notice, std::move(charge)));
  copy->self_ = copy;
  run.life().Add();
  services.errands().Push(*copy);
  return copy;
}

void AsyncCopy::Do(Worker&, Completions& completions) {
  const std::shared_ptr<AsyncCopy> self = self_;
  if (!run().stopping()) {
    const auto element = static_cast<int64_t>(kernels::DtypeSize(from_.dtype));
    const int64_t begin = next_.load(std::memory_order_relaxed);
    const int64_t end = std::min(range_.size(), begin + kPieceBytes / element);
    CopyPiece(begin, end);
    next_.store(end, std::memory_order_relaxed);
    if (end < range_.size()) {
      // To the end of the queue: others have their turn.
      services_.errands().Push(*this);
      return;
    }
    if (notice_.signal.address != nullptr) {
      services_.waits().Notify(notice_.signal, notice_.op, notice_.value);
    }
    services_.waits().Notify(done(), PTO_SET, 1);
  }
  self_.reset();
  Scheduler::Drop(run(), completions);
}

void AsyncCopy::CopyPiece(int64_t begin, int64_t end) {
  switch (kernels::DtypeSize(from_.dtype)) {
    case 1:
      return CopyElements<uint8_t>(from_, to_, range_, begin, end);
    case 2:
      return CopyElements<uint16_t>(from_, to_, range_, begin, end);
    case 4:
      return CopyElements<uint32_t>(from_, to_, range_, begin, end);
    default:
      return CopyElements<uint64_t>(from_, to_, range_, begin, end);
  }
}

int64_t AsyncCopy::bytes() const {
  return range_.size() * static_cast<int64_t>(kernels::DtypeSize(from_.dtype));
}

std::string AsyncCopy::Describe() const {
  const auto element = static_cast<int64_t>(kernels::DtypeSize(from_.dtype));
  return absl::StrCat("a copy of ", bytes(), " bytes, had ",
                      next_.load(std::memory_order_relaxed) * element);
}

}  // namespace pto::engine
