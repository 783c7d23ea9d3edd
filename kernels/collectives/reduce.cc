#include <array>

#include "kernels/collectives/kernels.h"
#include "kernels/collectives/launch_check.h"
#include "kernels/collectives/transfer.h"

// Collectives that reduce the data of all ranks to one place.
namespace pto::kernels::collectives {
namespace {

constexpr uint32_t kIn = 0;
constexpr uint32_t kOut = 1;

constexpr pto_argument_info kArguments[] = {{"in", PTO_INPUT, kReducible},
                                            {"out", PTO_OUTPUT, kReducible}};
constexpr pto_scalar_info kOpAndRoot[] = {{"op", PTO_INTEGER}, {"root", PTO_INTEGER}};
constexpr pto_scalar_info kOp[] = {{"op", PTO_INTEGER}};

// Reduces elements [first, first + count) of all inputs.
void ReduceTo(const Call& call, std::byte* out, int64_t first, int64_t count, bool stream) {
  std::array<const std::byte*, kMaxRanks> from;
  for (uint32_t rank = 0; rank < call.ranks(); ++rank) from[rank] = call.at(rank, kIn, first);
  call.Reduce(absl::MakeConstSpan(from.data(), call.ranks()), {&out, 1}, count, call.scalar(0),
              stream);
}

int32_t Reduce(const pto_context* context) {
  const Call call(context);
  const auto root = static_cast<uint32_t>(call.scalar(1));
  const int64_t count = call.count(root, kIn);
  const Share share = call.ShareOf(count, 1 + call.ranks());
  if (share.begin == share.end) return 0;
  const bool stream = call.IsLong(count) && call.at(root, kIn) != call.at(root, kOut);
  ReduceTo(call, call.at(root, kOut, share.begin), share.begin, share.end - share.begin, stream);
  return 0;
}

int32_t ReduceScatter(const pto_context* context) {
  const Call call(context);
  const int64_t count = call.count(0, kOut);
  const int64_t total = count * call.ranks();
  const bool stream = call.IsLong(total) && call.at(0, kIn) != call.at(0, kOut);
  ForParts(call.ShareOf(total, 1 + call.ranks()), count,
           [&](uint32_t part, int64_t begin, int64_t end) {
             ReduceTo(call, call.at(part, kOut, begin), part * count + begin, end - begin, stream);
           });
  return 0;
}

int32_t PlanReduce(const pto_launch* launch, pto_plan* plan, char* message, size_t size);
int32_t PlanReduceScatter(const pto_launch* launch, pto_plan* plan, char* message, size_t size);

constexpr pto_kernel_info kKernels[] = {
    Collective("reduce",
               "Reduces the ins of all ranks, in their order, to out of rank root; op is 1 sum, "
               "2 prod, 3 max, 4 min; F16 and BF16 are reduced as F32; other outs are not used.",
               Reduce, PlanReduce, kArguments, kOpAndRoot, kInAndOut),
    Collective("reduce_scatter",
               "Reduces the ins of all ranks, in their order, and leaves each rank its part in "
               "out, which may be that part of in; op is 1 sum, 2 prod, 3 max, 4 min.",
               ReduceScatter, PlanReduceScatter, kArguments, kOp, kInAndOut),
};

int32_t PlanReduce(const pto_launch* launch, pto_plan* plan, char* message, size_t size) {
  const LaunchCheck check(kKernels[0], launch, message, size);
  if (int32_t refused = check.RankCount()) return refused;
  if (int32_t refused = check.IsReduceOp(0)) return refused;
  if (int32_t refused = check.IsRank(1)) return refused;
  if (int32_t refused = check.AllAlike(kIn)) return refused;
  const auto root = static_cast<uint32_t>(check.scalar(1));
  if (int32_t refused = check.Has(root, kOut, check.count(0, kIn))) return refused;
  if (int32_t refused = check.InPlaceOrApart(root, kIn, kOut, 0)) return refused;
  plan->phase_bytes = check.bytes(kIn) * (1 + check.ranks());
  check.Shares(plan, check.count(0, kIn), 1 + check.ranks());
  return 0;
}

int32_t PlanReduceScatter(const pto_launch* launch, pto_plan* plan, char* message, size_t size) {
  const LaunchCheck check(kKernels[1], launch, message, size);
  if (int32_t refused = check.RankCount()) return refused;
  if (int32_t refused = check.IsReduceOp(0)) return refused;
  if (int32_t refused = check.AllAlike(kOut)) return refused;
  const int64_t count = check.count(0, kOut);
  if (int32_t refused = check.AllHave(kIn, count * check.ranks())) return refused;
  for (uint32_t rank = 0; rank < check.ranks(); ++rank) {
    if (int32_t refused = check.InPlaceOrApart(rank, kIn, kOut, -(rank * count))) return refused;
  }
  plan->phase_bytes = check.bytes(kIn) * (1 + check.ranks());
  check.Shares(plan, count * check.ranks(), 1 + check.ranks());
  return 0;
}

}  // namespace

absl::Span<const pto_kernel_info> ReduceKernels() { return kKernels; }

}  // namespace pto::kernels::collectives
