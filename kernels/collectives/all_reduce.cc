#include <array>

#include "kernels/collectives/kernels.h"
#include "kernels/collectives/launch_check.h"
#include "kernels/collectives/ring.h"
#include "kernels/collectives/transfer.h"

// all_reduce and its algorithms. All but the rings reduce every element in the order of the ranks.
namespace pto::kernels::collectives {
namespace {

constexpr pto_argument_info kArguments[] = {{"in", PTO_INPUT, kReducible},
                                            {"out", PTO_OUTPUT, kReducible}};
constexpr pto_scalar_info kScalars[] = {
    {"op", PTO_INTEGER}, {"algorithm", PTO_INTEGER}, {"deterministic", PTO_INTEGER}};
constexpr uint32_t kIn = 0;
constexpr uint32_t kOut = 1;

// The addresses of element `first` in all ranks' tensors.
struct Everywhere {
  Everywhere(const Call& call, uint32_t argument, int64_t first) : size(call.ranks()) {
    for (uint32_t rank = 0; rank < size; ++rank) at[rank] = call.at(rank, argument, first);
  }
  absl::Span<std::byte* const> all() const { return absl::MakeConstSpan(at.data(), size); }
  absl::Span<const std::byte* const> inputs() const {
    return absl::MakeConstSpan(const_cast<const std::byte* const*>(at.data()), size);
  }

  const uint32_t size;
  std::array<std::byte*, kMaxRanks> at;
};

// Moves the least data: reads each element once from each rank and writes it once to each. Needs
// one phase and works in place, because no other call reads what a call writes.
void Direct(const Call& call) {
  const int64_t count = call.count(0, kIn);
  const Share share = call.ShareOf(count, 2 * call.ranks());
  if (share.begin == share.end) return;
  const Everywhere in(call, kIn, share.begin);
  const Everywhere out(call, kOut, share.begin);
  // In place, the output lines are already in the caches.
  const bool stream = call.IsLong(count * call.ranks()) && in.at[0] != out.at[0];
  call.Reduce(in.inputs(), out.all(), share.end - share.begin, call.scalar(0), stream);
}

// Each rank reads everything and writes its own output. In place, the inputs are saved first.
void OneShot(const Call& call) {
  const int64_t count = call.count(0, kIn);
  const Share share = call.BlockPart({0, count});
  if (share.begin == share.end) return;
  const int64_t element = call.element_bytes();
  const auto aside = [&](uint32_t rank) {
    return call.workspace() + (rank * count + share.begin) * element;
  };
  if (call.phase() + 1 < call.phases()) {
    std::byte* const to = aside(call.rank());
    call.Copy(call.at(call.rank(), kIn, share.begin), {&to, 1}, share.end - share.begin, false);
    return;
  }
  Everywhere in(call, kIn, share.begin);
  if (call.phases() > 1) {
    for (uint32_t rank = 0; rank < call.ranks(); ++rank) in.at[rank] = aside(rank);
  }
  std::byte* const out = call.at(call.rank(), kOut, share.begin);
  call.Reduce(in.inputs(), {&out, 1}, share.end - share.begin, call.scalar(0), false);
}

// Each rank reduces its part, then all ranks copy the parts of the others.
void TwoShot(const Call& call) {
  const int64_t count = call.count(0, kIn);
  const auto part_of = [&](uint32_t rank) {
    return call.BlockPart(PartOf(count, call.ranks(), rank, call.line()));
  };
  if (call.phase() == 0) {
    const Share part = part_of(call.rank());
    if (part.begin == part.end) return;
    const Everywhere in(call, kIn, part.begin);
    std::byte* const out = call.at(call.rank(), kOut, part.begin);
    call.Reduce(in.inputs(), {&out, 1}, part.end - part.begin, call.scalar(0), false);
    return;
  }
  // Starts with the next rank, so that not all ranks read from the same one.
  for (uint32_t step = 1; step < call.ranks(); ++step) {
    const uint32_t from = (call.rank() + step) % call.ranks();
    const Share part = part_of(from);
    if (part.begin == part.end) continue;
    std::byte* const out = call.at(call.rank(), kOut, part.begin);
    call.Copy(call.at(from, kOut, part.begin), {&out, 1}, part.end - part.begin, false);
  }
}

// The rings start each part at a different rank, so they are not used if the order is fixed.
Algorithm Choose(int64_t algorithm, int64_t deterministic) {
  if (deterministic != 0 && algorithm >= kRing) return kAuto;
  return static_cast<Algorithm>(algorithm);
}

int32_t AllReduce(const pto_context* context) {
  const Call call(context);
  switch (Choose(call.scalar(1), call.scalar(2))) {
    case kAuto:
      Direct(call);
      break;
    case kOneShot:
      OneShot(call);
      break;
    case kTwoShot:
      TwoShot(call);
      break;
    case kRing:
      RingPhase(call, false);
      break;
    case kBidirectional:
      RingPhase(call, true);
      break;
  }
  return 0;
}

int32_t PlanAllReduce(const pto_launch* launch, pto_plan* plan, char* message, size_t size);

constexpr pto_kernel_info kKernels[] = {Collective(
    "all_reduce",
    "Reduces the ins of all ranks to out of every rank, which may be in; op is 1 sum, 2 prod, "
    "3 max, 4 min; algorithm is 0 auto, 1 one_shot, 2 two_shot, 3 ring, 4 bidirectional_ring; "
    "with deterministic 1 always in the order of the ranks; F16 and BF16 are reduced as F32.",
    AllReduce, PlanAllReduce, kArguments, kScalars, kInAndOut)};

int32_t PlanAllReduce(const pto_launch* launch, pto_plan* plan, char* message, size_t size) {
  const LaunchCheck check(kKernels[0], launch, message, size);
  if (int32_t refused = check.RankCount()) return refused;
  if (int32_t refused = check.IsReduceOp(0)) return refused;
  if (int32_t refused = check.IsOneOf(1, kAuto, kBidirectional)) return refused;
  if (int32_t refused = check.IsOneOf(2, 0, 1)) return refused;
  if (int32_t refused = check.AllAlike(kIn)) return refused;
  const int64_t count = check.count(0, kIn);
  if (int32_t refused = check.AllHave(kOut, count)) return refused;
  if (int32_t refused = check.AllInPlaceOrApart(kIn, kOut)) return refused;
  const uint64_t ranks = check.ranks();
  const uint64_t bytes = check.bytes(kIn);
  plan->phase_bytes = 2 * ranks * bytes;
  plan->fixed = 1;
  switch (Choose(check.scalar(1), check.scalar(2))) {
    case kAuto:
      check.Shares(plan, count, 2 * check.ranks());
      break;
    case kOneShot: {
      plan->phase_bytes = ranks * (ranks + 1) * bytes;
      bool in_place = false;
      for (uint32_t rank = 0; rank < ranks; ++rank) {
        in_place |=
            check.data(rank, kIn) != nullptr && check.data(rank, kIn) == check.data(rank, kOut);
      }
      if (!in_place) break;
      plan->phases = 2;
      plan->workspace_bytes = ranks * bytes;
      break;
    }
    case kTwoShot:
      plan->phases = ranks == 1 ? 1 : 2;
      break;
    case kRing:
    case kBidirectional:
      plan->phases = RingPhases(check.ranks());
      plan->workspace_bytes = RingWorkspace(check.ranks(), check.tensor(0, kIn).dtype, count);
      plan->phase_bytes = 3 * bytes;
      break;
  }
  return 0;
}

}  // namespace

absl::Span<const pto_kernel_info> AllReduceKernels() { return kKernels; }

}  // namespace pto::kernels::collectives
