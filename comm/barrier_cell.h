#pragma once

#include <atomic>
#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "comm/bell.h"
#include "comm/pto_comm.h"
#include "comm/waiting.h"

namespace pto::comm {

// A set of members of a job or a window, by number.
using RankSet = uint64_t;
static_assert(PTO_COMM_MAX_RANKS <= 64);
constexpr RankSet Only(uint32_t rank) { return RankSet{1} << rank; }
constexpr RankSet AllOf(uint32_t count) { return count == 64 ? ~RankSet{0} : Only(count) - 1; }

// A barrier in shared memory, initially zero. One number counts arrivals and never resets: the
// barrier of an arrival, and when it is complete, follow from the number. A member that gives up
// takes its arrival back atomically unless the barrier is complete by then, so either all members
// were in it or it did not happen.
struct BarrierCell {
  alignas(64) std::atomic<uint64_t> arrivals;
  Bell bell;
  // For error texts only: the count that each member waits for.
  struct alignas(64) Mark {
    std::atomic<uint64_t> target;
  };
  Mark marks[PTO_COMM_MAX_RANKS];

  // `trouble` gets the missing members. Returns its error, or DEADLINE_EXCEEDED without a text and
  // with the missing members in *missing.
  absl::Status Pass(uint32_t rank, uint32_t count, const Patience& patience, int64_t deadline,
                    absl::FunctionRef<absl::Status(RankSet)> trouble, RankSet* missing);
};

}  // namespace pto::comm
