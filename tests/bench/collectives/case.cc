#include "tests/bench/collectives/case.h"

#include "absl/strings/str_cat.h"

namespace pto::bench {
namespace {

std::string SizeText(uint64_t bytes) {
  if (bytes >= 1 << 20) return absl::StrCat(bytes >> 20, "MiB");
  if (bytes >= 1 << 10) return absl::StrCat(bytes >> 10, "KiB");
  return absl::StrCat(bytes, "B");
}

}  // namespace

const char* OpName(Op op) {
  switch (op) {
    case Op::kBarrier:
      return "barrier";
    case Op::kBroadcast:
      return "broadcast";
    case Op::kAllReduce:
      return "allreduce";
    case Op::kAllGather:
      return "allgather";
    case Op::kReduceScatter:
      return "reduce_scatter";
    case Op::kAllToAll:
      return "all_to_all";
  }
  return "?";
}

absl::optional<Op> FindOp(absl::string_view name) {
  for (const Op op : kOps) {
    if (name == OpName(op)) return op;
  }
  return absl::nullopt;
}

uint64_t CollectiveCase::out_bytes() const {
  switch (op) {
    case Op::kBarrier:
      return 0;
    case Op::kAllGather:
      return bytes * ranks;
    case Op::kReduceScatter:
      return bytes / ranks;
    default:
      return bytes;
  }
}

uint64_t CollectiveCase::moved_bytes() const {
  const uint64_t written = out_bytes() * ranks;
  // The root already has its output, and one read serves all.
  if (op == Op::kBroadcast) return bytes + bytes * (ranks - 1);
  return bytes * ranks + written;
}

std::string CollectiveCase::name() const {
  return op == Op::kBarrier ? absl::StrCat("barrier_", ranks)
                            : absl::StrCat(OpName(op), "_", SizeText(bytes), "_", ranks);
}

std::string CollectiveCase::argument() const { return absl::StrCat(OpName(op), ":", bytes); }

std::vector<CollectiveCase> CasesOf(const std::vector<Op>& ops, uint32_t ranks, bool quick) {
  std::vector<uint64_t> sizes = {256, 4 << 10, 64 << 10, 1 << 20, 16 << 20};
  if (quick) sizes = {256, 64 << 10};
  std::vector<CollectiveCase> cases;
  for (const Op op : ops) {
    if (op == Op::kBarrier) {
      cases.push_back({op, 0, ranks});
      continue;
    }
    for (const uint64_t size : sizes) cases.push_back({op, size, ranks});
  }
  return cases;
}

}  // namespace pto::bench
