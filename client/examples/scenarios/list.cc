#include "client/examples/scenarios/list.h"

namespace pto::scenarios {
namespace {

constexpr uint32_t kMany = 64;
constexpr bool kSize = true;
constexpr bool kNoSize = false;

constexpr Scenario kScenarios[] = {
    {"allreduce", "sum over all ranks, by the algorithm that the daemon picks", 1, kMany, kSize,
     AllReduceAuto},
    {"allreduce_one_shot", "the same, where every rank reads all others", 1, kMany, kSize,
     AllReduceOneShot},
    {"allreduce_two_shot", "the same, by parts that are then gathered", 1, kMany, kSize,
     AllReduceTwoShot},
    {"allreduce_ring", "the same, from neighbour to neighbour", 1, kMany, kSize, AllReduceRing},
    {"allreduce_bidirectional_ring", "the same, both ways round at once", 1, kMany, kSize,
     AllReduceBidirectionalRing},
    {"allgather", "everyone's numbers to everyone", 1, kMany, kSize, AllGather},
    {"reduce_scatter", "sums, of which each rank gets its part", 1, kMany, kSize, ReduceScatter},
    {"broadcast", "from every rank in turn to all others", 1, kMany, kSize, Broadcast},
    {"all_to_all", "a part of every rank's numbers to every other", 1, kMany, kSize, AllToAll},
    {"ffn_tp", "matrix products on each rank and their sum; the daemon finds the order", 2, kMany,
     kNoSize, FfnTensorParallel},
    {"own_kernel_ffn", "the same with a program's own kernels, which it uploads", 2, 8, kNoSize,
     OwnKernelFfn},
    {"moe_dispatch", "tokens to experts by asynchronous copies and notifications", 2, 8, kNoSize,
     MoeDispatch},
    {"moe_ep", "tokens to six experts each and back, 128 of 4,096 numbers per rank", 2, 8, kNoSize,
     MoeExpertParallel},
    {"async_completion", "a task that ends when its copy from the peer has", 2, 2, kNoSize,
     AsyncCompletion},
    {"async_notify", "producer, notification, a wait with a token, consumer", 2, 2, kNoSize,
     AsyncNotify},
    {"deferred_notify", "what was written before a notification is there after it", 2, 2, kNoSize,
     DeferredNotify},
    {"dual_domain_overlap", "two domains that share a chip, at the same time", 3, 3, kNoSize,
     DualDomainOverlap},
    {"domain_rank_map", "other ranks in other domains, and none where a chip is no member", 3, 3,
     kNoSize, DomainRankMap},
    {"multi_chip_dispatch", "work on several chips and a task that waits for all", 2, kMany,
     kNoSize, MultiChipDispatch},
    {"group_reservation", "tasks over several chips that want the same ones", 3, 3, kNoSize,
     GroupReservation},
    {"predicated_dispatch", "tasks that run only if a number says so", 1, 1, kNoSize,
     PredicatedDispatch},
    {"sync_start", "clusters whose blocks start together", 1, 1, kNoSize, SyncStart},
    {"sync_start_aiv", "the same on vector cores", 1, 1, kNoSize, SyncStartVector},
    {"sync_start_edge", "one block, a third of the chip, all but one and all", 1, 1, kNoSize,
     SyncStartEdge},
    {"sync_start_stress", "54 tasks of all kinds that want the chip at once", 1, 1, kNoSize,
     SyncStartStress},
    {"starvation", "few tasks that start together among many that do not", 1, 1, kNoSize,
     Starvation},
    {"message_stream", "a run that the client feeds while it runs", 1, 1, kNoSize, MessageStream},
};

}  // namespace

absl::Span<const Scenario> AllScenarios() { return kScenarios; }

const Scenario* FindScenario(absl::string_view name) {
  for (const Scenario& scenario : kScenarios) {
    if (scenario.name == name) return &scenario;
  }
  return nullptr;
}

}  // namespace pto::scenarios
