#pragma once

#include <atomic>
#include <cstdint>

#include "comm/barrier_cell.h"
#include "comm/bell.h"
#include "comm/pto_comm.h"
#include "comm/segment_store.h"
#include "comm/shared_error.h"

namespace pto::comm {

// One rank's slot in a job.
struct alignas(64) RankSlot {
  enum State : uint32_t { kHere = 0, kLeft = 1, kAborted = 2 };

  std::atomic<uint64_t> identity;  // of the process that owns this rank; 0: none
  std::atomic<uint32_t> state;
  SharedError abort;  // tag: kAborted
  // The errors of the last windows that this rank could not create; tag: 1 + id.
  static constexpr uint32_t kFailures = 4;
  SharedError failed_windows[kFailures];
};

// The shared memory of a job's ranks.
struct JobLayout {
  // In `present`: no rank can join any more, because the job failed to start.
  static constexpr uint32_t kClosed = 0x80000000;

  SegmentPrefix prefix;
  uint64_t generation;
  uint64_t nonce;  // distinguishes this job from others of the same name and generation
  uint32_t size;
  uint32_t creator_rank;

  alignas(64) std::atomic<uint32_t> present;  // number of joined ranks; `size` means complete
  Bell bell;                                  // rung by joins and by new windows
  BarrierCell barrier;
  RankSlot slots[PTO_COMM_MAX_RANKS];
};

}  // namespace pto::comm
