#include "kernels/collectives/ring.h"

#include <algorithm>

#include "kernels/dtype.h"
#include "kernels/reduction.h"
#include "kernels/tile.h"

namespace pto::kernels::collectives {
namespace {

constexpr uint32_t kIn = 0;
constexpr uint32_t kOut = 1;

bool IsHalf(uint32_t dtype) { return dtype == PTO_F16 || dtype == PTO_BF16; }

void Load(uint32_t dtype, const std::byte* from, int64_t count, float* to) {
  if (dtype == PTO_F16) return LoadTile(reinterpret_cast<const F16*>(from), 1, count, to);
  LoadTile(reinterpret_cast<const BF16*>(from), 1, count, to);
}

void Store(uint32_t dtype, const float* from, int64_t count, std::byte* to) {
  if (dtype == PTO_F16) return StoreTile(from, count, reinterpret_cast<F16*>(to), 1);
  StoreTile(from, count, reinterpret_cast<BF16*>(to), 1);
}

// One rank's view of a ring over some of the elements. Ranks and parts are numbered in the ring's
// direction, so that the previous neighbour is always one less.
class Ring {
 public:
  Ring(const Call& call, Share elements, bool backwards)
      : call_(call), elements_(elements), backwards_(backwards), size_(call.ranks()) {
    self_ = Turn(call.rank());
  }

  void Phase(uint32_t phase) const {
    const uint32_t steps = size_ - 1;
    if (phase < steps) {
      // Part p starts at rank p, so after this many steps it is here.
      AddOwn(Part(self_ + 2 * size_ - 1 - phase), phase == 0, phase + 1 == steps);
    } else {
      TakeOver(Part(self_ + size_ - (phase - steps)));
    }
  }

 private:
  uint32_t Turn(uint32_t rank) const { return backwards_ ? (size_ - rank) % size_ : rank; }
  uint32_t before() const { return Turn((self_ + size_ - 1) % size_); }

  // This block's share of a part.
  Share Part(uint32_t number) const {
    const Share part = PartOf(elements_.end - elements_.begin, size_, number % size_, call_.line());
    return call_.BlockPart({elements_.begin + part.begin, elements_.begin + part.end});
  }

  void AddOwn(Share part, bool first, bool last) const {
    const int64_t count = part.end - part.begin;
    if (count == 0) return;
    if (IsHalf(call_.dtype())) return AddOwnHalves(part, first, last);
    const std::byte* const both[] = {call_.at(before(), first ? kIn : kOut, part.begin),
                                     call_.at(call_.rank(), kIn, part.begin)};
    std::byte* const out = call_.at(call_.rank(), kOut, part.begin);
    call_.Reduce(both, {&out, 1}, count, call_.scalar(0), false);
  }

  void AddOwnHalves(Share part, bool first, bool last) const {
    constexpr int64_t kTile = 1024;
    float own[kTile];
    const auto op = static_cast<kernels::ReduceOp>(call_.scalar(0));
    float* const sums = reinterpret_cast<float*>(call_.workspace());
    for (int64_t at = part.begin; at < part.end; at += kTile) {
      const int64_t count = std::min(kTile, part.end - at);
      if (!call_.Spend(count * 16)) return;
      if (first) Load(call_.dtype(), call_.at(before(), kIn, at), count, sums + at);
      Load(call_.dtype(), call_.at(call_.rank(), kIn, at), count, own);
      kernels::ReduceInto(sums + at, own, static_cast<size_t>(count), PTO_F32, op);
      if (last) Store(call_.dtype(), sums + at, count, call_.at(call_.rank(), kOut, at));
    }
  }

  void TakeOver(Share part) const {
    if (part.begin == part.end) return;
    std::byte* const out = call_.at(call_.rank(), kOut, part.begin);
    call_.Copy(call_.at(before(), kOut, part.begin), {&out, 1}, part.end - part.begin, false);
  }

  const Call& call_;
  const Share elements_;
  const bool backwards_;
  const uint32_t size_;
  uint32_t self_ = 0;
};

}  // namespace

uint64_t RingWorkspace(uint32_t ranks, uint32_t dtype, int64_t count) {
  return ranks > 1 && IsHalf(dtype) ? static_cast<uint64_t>(count) * sizeof(float) : 0;
}

void RingPhase(const Call& call, bool bidirectional) {
  const int64_t count = call.count(0, kIn);
  if (count == 0) return;
  if (call.ranks() == 1) {
    const Share share = call.BlockPart({0, count});
    if (share.begin == share.end) return;
    std::byte* const out = call.at(0, kOut, share.begin);
    call.Copy(call.at(0, kIn, share.begin), {&out, 1}, share.end - share.begin, false);
    return;
  }
  const int64_t middle = bidirectional ? PartOf(count, 2, 0, call.line()).end : count;
  Ring(call, {0, middle}, false).Phase(call.phase());
  if (middle < count) Ring(call, {middle, count}, true).Phase(call.phase());
}

}  // namespace pto::kernels::collectives
