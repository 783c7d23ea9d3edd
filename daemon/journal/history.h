#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/journal/journal.pb.h"

namespace pto {

// How much a journal keeps. Whatever is reached first, the oldest go.
struct JournalRetention {
  uint64_t max_runs = 65'536;  // that have ended
  uint64_t max_bytes = uint64_t{256} << 20;
  absl::Duration max_age = absl::Hours(168);
};

// What former boots have left.
struct JournalHistory {
  // One for each id, with the last boot that had it; oldest first.
  std::vector<journal::v1::SessionRecord> sessions;
  // One for each name, all with a final state: one that had not ended failed with
  // DAEMON_RESTARTED. In the order in which they ended.
  std::vector<journal::v1::RunRecord> runs;
  // How many at the end of `runs` had not ended: they ended now, so they are the newest.
  size_t restarted = 0;
  // The files that it is from, rising.
  std::vector<uint64_t> segments;
  // Those of them that are broken, for a person to look at.
  std::vector<uint64_t> broken;
};

// Reads a journal's files, and changes nothing. What is broken is logged. Errors: PATH_UNUSABLE,
// JOURNAL_NEWER.
absl::StatusOr<JournalHistory> LoadHistory(const std::string& directory,
                                           const JournalRetention& retention, absl::Time now);

}  // namespace pto
