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

// "allreduce": in names of lines, and on the command line of rank programs.
const char* OpName(Op op);
absl::optional<Op> FindOp(absl::string_view name);

// One collective, as every side does it. `bytes` is what each rank puts in: all_gather's output is
// `ranks` times as long, reduce_scatter's is so many times shorter.
struct Case {
  Op op = Op::kBarrier;
  uint64_t bytes = 0;
  uint32_t ranks = 2;

  uint64_t out_bytes() const;
  // What has to be read and written, on all ranks together, if nothing is moved twice.
  uint64_t moved_bytes() const;
  // "allreduce_64KiB_2".
  std::string name() const;
  // "allreduce:65536", as rank programs are told.
  std::string argument() const;
};

// All sizes of all ops that are asked for.
std::vector<Case> CasesOf(const std::vector<Op>& ops, uint32_t ranks, bool quick);

}  // namespace pto::bench
