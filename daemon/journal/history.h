#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/journal/journal.pb.h"

namespace pto::daemon {

// How much a journal keeps. The oldest runs are removed when any limit is reached.
struct JournalRetention {
  uint64_t max_runs = 65'536;  // that have ended
  uint64_t max_bytes = uint64_t{256} << 20;
  absl::Duration max_age = absl::Hours(168);
};

// What earlier boots have recorded.
struct JournalHistory {
  // One for each id, with the last boot that used it; oldest first.
  std::vector<journal::v1::SessionRecord> sessions;
  // One for each name, all in a final state. Runs that had not ended have failed with
  // DAEMON_RESTARTED. Ordered by their end.
  std::vector<journal::v1::RunRecord> runs;
  // How many runs at the end of `runs` had not ended. They end now, so they are the newest.
  size_t restarted = 0;
  // The files that were read, ascending.
  std::vector<uint64_t> segments;
  // The corrupt ones among them, which are kept for inspection.
  std::vector<uint64_t> broken;
};

// Reads the files of a journal without changing them. Logs corrupt files. Errors: PATH_UNUSABLE,
// JOURNAL_NEWER.
absl::StatusOr<JournalHistory> LoadHistory(const std::string& directory,
                                           const JournalRetention& retention, absl::Time now);

}  // namespace pto::daemon
