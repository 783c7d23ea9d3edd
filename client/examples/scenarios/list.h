#pragma once

#include "client/examples/scenarios/scenario.h"

// The scenarios; list.cc describes them.
namespace pto::scenarios {

absl::Status AllReduceAuto(Client& client, const Options& options);
absl::Status AllReduceOneShot(Client& client, const Options& options);
absl::Status AllReduceTwoShot(Client& client, const Options& options);
absl::Status AllReduceRing(Client& client, const Options& options);
absl::Status AllReduceBidirectionalRing(Client& client, const Options& options);
absl::Status AllGather(Client& client, const Options& options);
absl::Status ReduceScatter(Client& client, const Options& options);
absl::Status Broadcast(Client& client, const Options& options);
absl::Status AllToAll(Client& client, const Options& options);
absl::Status FfnTensorParallel(Client& client, const Options& options);
absl::Status OwnKernelFfn(Client& client, const Options& options);
absl::Status MoeDispatch(Client& client, const Options& options);
absl::Status MoeExpertParallel(Client& client, const Options& options);
absl::Status AsyncCompletion(Client& client, const Options& options);
absl::Status AsyncNotify(Client& client, const Options& options);
absl::Status DeferredNotify(Client& client, const Options& options);
absl::Status DualDomainOverlap(Client& client, const Options& options);
absl::Status DomainRankMap(Client& client, const Options& options);
absl::Status MultiChipDispatch(Client& client, const Options& options);
absl::Status GroupReservation(Client& client, const Options& options);
absl::Status PredicatedDispatch(Client& client, const Options& options);
absl::Status SyncStart(Client& client, const Options& options);
absl::Status SyncStartVector(Client& client, const Options& options);
absl::Status SyncStartEdge(Client& client, const Options& options);
absl::Status SyncStartStress(Client& client, const Options& options);
absl::Status Starvation(Client& client, const Options& options);
absl::Status MessageStream(Client& client, const Options& options);

}  // namespace pto::scenarios
