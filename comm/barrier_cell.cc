#include "comm/barrier_cell.h"

namespace pto::comm {

absl::Status BarrierCell::Pass(uint32_t rank, uint32_t count, const Patience& patience,
                               int64_t deadline, absl::FunctionRef<absl::Status(RankSet)> trouble,
                               RankSet* missing) {
  const uint64_t before = arrivals.fetch_add(1);
  const uint64_t target = (before / count + 1) * count;
  if (before + 1 == target) {
    bell.Ring();
    return absl::OkStatus();
  }
  marks[rank].target.store(target, std::memory_order_relaxed);
  const auto absent = [&] {
    RankSet set = 0;
    for (uint32_t i = 0; i < count; ++i) {
      if (marks[i].target.load(std::memory_order_relaxed) != target) set |= Only(i);
    }
    return set;
  };
  absl::Status status = Await([&] { return arrivals.load(std::memory_order_acquire) >= target; },
                              bell, patience, deadline, [&] { return trouble(absent()); });
  if (status.ok()) return status;
  *missing = absent();
  uint64_t now = arrivals.load();
  while (now < target) {
    if (arrivals.compare_exchange_weak(now, now - 1)) {
      marks[rank].target.store(0, std::memory_order_relaxed);
      return status;
    }
  }
  return absl::OkStatus();  // the last one came just now
}

}  // namespace pto::comm
