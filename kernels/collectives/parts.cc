#include "kernels/collectives/kernels.h"
#include "kernels/collectives/launch_check.h"
#include "kernels/collectives/transfer.h"

// Collectives that move data unchanged from or to one rank, and the barrier.
namespace pto::kernels::collectives {
namespace {

constexpr uint32_t kIn = 0;
constexpr uint32_t kOut = 1;

constexpr pto_argument_info kArguments[] = {{"in", PTO_INPUT, kMovable},
                                            {"out", PTO_OUTPUT, kMovable}};
constexpr pto_scalar_info kRoot[] = {{"root", PTO_INTEGER}};
constexpr pto_scalar_info kFromTo[] = {{"from", PTO_INTEGER}, {"to", PTO_INTEGER}};

int32_t Scatter(const pto_context* context) {
  const Call call(context);
  const auto root = static_cast<uint32_t>(call.scalar(0));
  const int64_t count = call.count(root, kOut);
  const int64_t total = count * call.ranks();
  ForParts(call.ShareOf(total, 2), count, [&](uint32_t part, int64_t begin, int64_t end) {
    std::byte* const to = call.at(part, kOut, begin);
    call.Copy(call.at(root, kIn, part * count + begin), {&to, 1}, end - begin, call.IsLong(total));
  });
  return 0;
}

int32_t Gather(const pto_context* context) {
  const Call call(context);
  const auto root = static_cast<uint32_t>(call.scalar(0));
  const int64_t count = call.count(root, kIn);
  const int64_t total = count * call.ranks();
  ForParts(call.ShareOf(total, 2), count, [&](uint32_t part, int64_t begin, int64_t end) {
    std::byte* const to = call.at(root, kOut, part * count + begin);
    call.Copy(call.at(part, kIn, begin), {&to, 1}, end - begin, call.IsLong(total));
  });
  return 0;
}

int32_t SendRecv(const pto_context* context) {
  const Call call(context);
  const auto from = static_cast<uint32_t>(call.scalar(0));
  const auto to = static_cast<uint32_t>(call.scalar(1));
  const int64_t count = call.count(from, kIn);
  const Share share = call.ShareOf(count, 2);
  if (share.begin == share.end) return 0;
  std::byte* const out = call.at(to, kOut, share.begin);
  call.Copy(call.at(from, kIn, share.begin), {&out, 1}, share.end - share.begin,
            call.IsLong(count));
  return 0;
}

int32_t Barrier(const pto_context*) { return 0; }

int32_t PlanScatter(const pto_launch* launch, pto_plan* plan, char* message, size_t size);
int32_t PlanGather(const pto_launch* launch, pto_plan* plan, char* message, size_t size);
int32_t PlanSendRecv(const pto_launch* launch, pto_plan* plan, char* message, size_t size);
int32_t PlanBarrier(const pto_launch* launch, pto_plan* plan, char* message, size_t size);

constexpr pto_kernel_info kKernels[] = {
    Collective("scatter",
               "Copies part r of rank root's in to out of rank r; root's own out may be its part "
               "of in; other ins are not read.",
               Scatter, PlanScatter, kArguments, kRoot, kInAndOut),
    Collective("gather",
               "Copies the ins of all ranks, one after the other, to out of rank root, whose own "
               "in may be its part of out; other outs are not used.",
               Gather, PlanGather, kArguments, kRoot, kInAndOut),
    Collective("send_recv",
               "Copies in of rank from to out of rank to; nothing else is read or written.",
               SendRecv, PlanSendRecv, kArguments, kFromTo, kInAndOut),
    Collective("barrier", "Ends when all ranks have reached it; moves no data.", Barrier,
               PlanBarrier, {}, {}, nullptr),
};

int32_t PlanScatter(const pto_launch* launch, pto_plan* plan, char* message, size_t size) {
  const LaunchCheck check(kKernels[0], launch, message, size);
  if (int32_t refused = check.RankCount()) return refused;
  if (int32_t refused = check.IsRank(0)) return refused;
  if (int32_t refused = check.AllAlike(kOut)) return refused;
  const auto root = static_cast<uint32_t>(check.scalar(0));
  const int64_t count = check.count(0, kOut);
  if (int32_t refused = check.Has(root, kIn, count * check.ranks())) return refused;
  if (int32_t refused = check.InPlaceOrApart(root, kIn, kOut, -(root * count))) return refused;
  plan->phase_bytes = 2 * check.bytes(kOut) * check.ranks();
  check.Shares(plan, count * check.ranks(), 2);
  return 0;
}

int32_t PlanGather(const pto_launch* launch, pto_plan* plan, char* message, size_t size) {
  const LaunchCheck check(kKernels[1], launch, message, size);
  if (int32_t refused = check.RankCount()) return refused;
  if (int32_t refused = check.IsRank(0)) return refused;
  if (int32_t refused = check.AllAlike(kIn)) return refused;
  const auto root = static_cast<uint32_t>(check.scalar(0));
  const int64_t count = check.count(0, kIn);
  if (int32_t refused = check.Has(root, kOut, count * check.ranks())) return refused;
  if (int32_t refused = check.InPlaceOrApart(root, kIn, kOut, root * count)) return refused;
  plan->phase_bytes = 2 * check.bytes(kIn) * check.ranks();
  check.Shares(plan, count * check.ranks(), 2);
  return 0;
}

int32_t PlanSendRecv(const pto_launch* launch, pto_plan* plan, char* message, size_t size) {
  const LaunchCheck check(kKernels[2], launch, message, size);
  if (int32_t refused = check.RankCount()) return refused;
  if (int32_t refused = check.IsRank(0)) return refused;
  if (int32_t refused = check.IsRank(1)) return refused;
  const auto from = static_cast<uint32_t>(check.scalar(0));
  const auto to = static_cast<uint32_t>(check.scalar(1));
  if (int32_t refused = check.Fits(from, kIn)) return refused;
  if (int32_t refused = check.Has(to, kOut, check.count(from, kIn))) return refused;
  if (from == to) {
    if (int32_t refused = check.InPlaceOrApart(from, kIn, kOut, 0)) return refused;
  }
  plan->phase_bytes = 2 * static_cast<uint64_t>(check.count(from, kIn)) * check.element_bytes();
  check.Shares(plan, check.count(from, kIn), 2);
  return 0;
}

int32_t PlanBarrier(const pto_launch* launch, pto_plan* plan, char* message, size_t size) {
  plan->calls = 1;
  plan->fixed = 1;
  return LaunchCheck(kKernels[3], launch, message, size).RankCount();
}

}  // namespace

absl::Span<const pto_kernel_info> PartKernels() { return kKernels; }

}  // namespace pto::kernels::collectives
