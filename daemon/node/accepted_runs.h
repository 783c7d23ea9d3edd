#pragma once

#include "daemon/journal/history.h"
#include "daemon/usage/usage_store.h"

namespace pto::daemon {

// How many runs of each principal a boot has accepted, of those that the journal still has. Runs
// that earlier releases have recorded do not tell their boot: those count that are not older than
// it, unless the clock cannot be believed.
UsageStore::RunCounts CountAcceptedRuns(const JournalHistory& history,
                                        const UsageStore::Boot& boot);

}  // namespace pto::daemon
