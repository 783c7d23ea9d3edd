#include "daemon/node/accepted_runs.h"

#include "absl/time/time.h"

namespace pto::daemon {

UsageStore::RunCounts CountAcceptedRuns(const JournalHistory& history,
                                        const UsageStore::Boot& boot) {
  const bool by_time = boot.id.empty() && !history.clock_doubtful;
  UsageStore::RunCounts counts;
  for (const journal::v1::RunRecord& run : history.runs) {
    if (run.owner().empty()) continue;
    const bool accepted = run.boot_id().empty()
                              ? by_time && run.create_ns() >= absl::ToUnixNanos(boot.start)
                              : run.boot_id() == boot.id;
    if (accepted) ++counts[run.owner()];
  }
  return counts;
}

}  // namespace pto::daemon
