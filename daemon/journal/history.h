#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/journal/id_files.h"
#include "daemon/journal/journal.pb.h"
#include "daemon/journal/storage.h"
#include "runtime/base/clock.h"

namespace pto::daemon {

// How much a journal keeps. The oldest runs are removed when any limit is reached.
struct JournalRetention {
  uint64_t max_runs = 65'536;  // that have ended
  uint64_t max_bytes = uint64_t{256} << 20;
  absl::Duration max_age = absl::Hours(168);
};

// What a start found that should not be.
struct JournalDamage {
  uint64_t files = 0;          // that are damaged or missing
  uint64_t skipped_bytes = 0;  // of the damaged ones
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
  // Ids of runs of which nothing else is known, oldest first. Set by Journal::Open.
  std::vector<UsedRunIds> used_ids;
  // Those of runs that were in the files and are not in `runs`, because there are too many.
  UsedRunIds forgotten;

  // The files that were read, ascending, and their sizes.
  std::vector<uint64_t> segments;
  std::vector<uint64_t> segment_bytes;
  // The damaged ones among them, and those that end with an incomplete write: kept for inspection.
  std::vector<uint64_t> damaged;
  std::vector<uint64_t> torn;
  JournalDamage damage;

  // The newest time that can be believed; InfinitePast when there is none.
  absl::Time newest;
  // The clock is far from that, so nothing was forgotten because of its age.
  bool clock_doubtful = false;
};

// The hash of a run's id; 0 when the session chose the id, so that no request can repeat it.
uint64_t HashOfRun(const journal::v1::RunRecord& run);
absl::Time EndTime(const journal::v1::RunRecord& run);

// Reads the files of a journal without changing them. Logs damage. Errors: PATH_UNUSABLE,
// JOURNAL_NEWER.
absl::StatusOr<JournalHistory> LoadHistory(Storage& storage, const std::vector<std::string>& names,
                                           const JournalRetention& retention, const Clock& clock);

}  // namespace pto::daemon
