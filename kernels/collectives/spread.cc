#include <array>

#include "kernels/collectives/kernels.h"
#include "kernels/collectives/launch_check.h"
#include "kernels/collectives/transfer.h"

// Collectives that send the data of one rank, or of each rank, to all ranks.
namespace pto::kernels::collectives {
namespace {

constexpr uint32_t kIn = 0;
constexpr uint32_t kOut = 1;

constexpr pto_argument_info kArguments[] = {{"in", PTO_INPUT, kMovable},
                                            {"out", PTO_OUTPUT, kMovable}};
constexpr pto_scalar_info kRoot[] = {{"root", PTO_INTEGER}};

int32_t Broadcast(const pto_context* context) {
  const Call call(context);
  const auto root = static_cast<uint32_t>(call.scalar(0));
  const int64_t count = call.count(root, kIn);
  const Share share = call.ShareOf(count, 1 + call.ranks());
  if (share.begin == share.end) return 0;
  std::array<std::byte*, kMaxRanks> to;
  for (uint32_t rank = 0; rank < call.ranks(); ++rank) to[rank] = call.at(rank, kOut, share.begin);
  call.Copy(call.at(root, kIn, share.begin), absl::MakeConstSpan(to.data(), call.ranks()),
            share.end - share.begin, call.IsLong(count * call.ranks()));
  return 0;
}

int32_t AllGather(const pto_context* context) {
  const Call call(context);
  const int64_t count = call.count(0, kIn);
  const int64_t ranks = call.ranks();
  const bool stream = call.IsLong(count * ranks * ranks);
  std::array<std::byte*, kMaxRanks> to;
  ForParts(call.ShareOf(count * ranks, 1 + ranks), count,
           [&](uint32_t part, int64_t begin, int64_t end) {
             for (uint32_t rank = 0; rank < ranks; ++rank) {
               to[rank] = call.at(rank, kOut, part * count + begin);
             }
             call.Copy(call.at(part, kIn, begin), absl::MakeConstSpan(to.data(), call.ranks()),
                       end - begin, stream);
           });
  return 0;
}

int32_t PlanBroadcast(const pto_launch* launch, pto_plan* plan, char* message, size_t size);
int32_t PlanAllGather(const pto_launch* launch, pto_plan* plan, char* message, size_t size);

constexpr pto_kernel_info kKernels[] = {
    Collective("broadcast", "Copies in of rank root to out of every rank; other ins are not read.",
               Broadcast, PlanBroadcast, kArguments, kRoot, kInAndOut),
    Collective("all_gather",
               "Puts the ins of all ranks, one after the other, into out of every rank; in may be "
               "its own place in out.",
               AllGather, PlanAllGather, kArguments, {}, kInAndOut),
};

int32_t PlanBroadcast(const pto_launch* launch, pto_plan* plan, char* message, size_t size) {
  const LaunchCheck check(kKernels[0], launch, message, size);
  if (int32_t refused = check.RankCount()) return refused;
  if (int32_t refused = check.IsRank(0)) return refused;
  const auto root = static_cast<uint32_t>(check.scalar(0));
  if (int32_t refused = check.Fits(root, kIn)) return refused;
  if (int32_t refused = check.AllHave(kOut, check.count(root, kIn))) return refused;
  if (int32_t refused = check.InPlaceOrApart(root, kIn, kOut, 0)) return refused;
  plan->phase_bytes = check.bytes(kOut) * (1 + check.ranks());
  check.Shares(plan, check.count(root, kIn), 1 + check.ranks());
  return 0;
}

int32_t PlanAllGather(const pto_launch* launch, pto_plan* plan, char* message, size_t size) {
  const LaunchCheck check(kKernels[1], launch, message, size);
  if (int32_t refused = check.RankCount()) return refused;
  if (int32_t refused = check.AllAlike(kIn)) return refused;
  const int64_t count = check.count(0, kIn);
  if (int32_t refused = check.AllHave(kOut, count * check.ranks())) return refused;
  for (uint32_t rank = 0; rank < check.ranks(); ++rank) {
    if (int32_t refused = check.InPlaceOrApart(rank, kIn, kOut, rank * count)) return refused;
  }
  plan->phase_bytes = check.bytes(kOut) * (1 + check.ranks());
  check.Shares(plan, count * check.ranks(), 1 + check.ranks());
  return 0;
}

}  // namespace

absl::Span<const pto_kernel_info> SpreadKernels() { return kKernels; }

}  // namespace pto::kernels::collectives
