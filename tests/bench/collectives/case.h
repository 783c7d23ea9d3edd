#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/optional.h"

namespace pto::bench {

enum class Op { kBarrier, kBroadcast, kAllReduce, kAllGather, kReduceScatter, kAllToAll };
inline constexpr Op kOps[] = {Op::kBarrier,   Op::kBroadcast,     Op::kAllReduce,
                              Op::kAllGather, Op::kReduceScatter, Op::kAllToAll};

// For example "allreduce": used in names of lines, and on the command line of rank programs.
const char* OpName(Op op);
absl::optional<Op> FindOp(absl::string_view name);

// One collective, the same for every side. `bytes` is the input of each rank: the output of
// all_gather is `ranks` times longer, that of reduce_scatter `ranks` times shorter.
struct CollectiveCase {
  Op op = Op::kBarrier;
  uint64_t bytes = 0;
  uint32_t ranks = 2;

  uint64_t out_bytes() const;
  // The minimum to read and write, over all ranks, if nothing is moved twice.
  uint64_t moved_bytes() const;
  // "allreduce_64KiB_2".
  std::string name() const;
  // For rank programs, for example "allreduce:65536".
  std::string argument() const;
};

// All sizes of the given ops.
std::vector<CollectiveCase> CasesOf(const std::vector<Op>& ops, uint32_t ranks, bool quick);

}  // namespace pto::bench
