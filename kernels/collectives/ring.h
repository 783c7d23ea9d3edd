#pragma once

#include <cstdint>

#include "kernels/collectives/transfer.h"

namespace pto::kernels::collectives {

// all_reduce by passing parts from rank to rank: in the first half of the phases each rank adds its
// own input to its neighbour's partial result, in the second half it copies complete results. Only
// neighbours read each other's data. F16 and BF16 travel as F32 in the workspace until they are
// complete.
//
// Bidirectional: one half of the elements travels in the other direction.
void RingPhase(const Call& call, bool bidirectional);

inline uint32_t RingPhases(uint32_t ranks) { return ranks == 1 ? 1 : 2 * (ranks - 1); }
uint64_t RingWorkspace(uint32_t ranks, uint32_t dtype, int64_t count);

}  // namespace pto::kernels::collectives
