#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/journal/segment.h"
#include "daemon/journal/storage.h"

namespace pto::daemon {

// Ids of runs that have ended at about the same time, as HashOfRunId gives them.
struct UsedRunIds {
  absl::Time newest;  // when the last of the runs ended
  std::vector<uint64_t> hashes;
};

// The files `ids-0000000001` and so on: ids of runs whose records are not in the journal any more.
// A file is written as a whole and does not change. Not thread-safe.
class IdFiles {
 public:
  IdFiles(std::shared_ptr<Storage> storage, size_t max_ids, absl::Duration max_age)
      : storage_(std::move(storage)), max_ids_(max_ids), max_age_(max_age) {}

  // Reads the files that are there. Calls `damaged` for each that is damaged. Errors:
  // PATH_UNUSABLE, JOURNAL_NEWER.
  using Damaged = std::function<void(const std::string& name, const SegmentContents& contents)>;
  absl::StatusOr<std::vector<UsedRunIds>> Load(const std::vector<std::string>& names,
                                               const Damaged& damaged);

  // Writes what is intact of damaged files into new ones, after which they can go.
  absl::Status Rescue();
  // The ids are on the disk when this returns OK. Otherwise nothing has changed.
  absl::Status Add(UsedRunIds ids);
  // Removes files whose ids are all older, by a clock that is believed.
  void ForgetOld(absl::Time now);
  // Removes the oldest files while there are more ids than allowed.
  void ForgetMost();

 private:
  struct File {
    uint64_t number = 0;
    size_t ids = 0;
    absl::Time oldest;  // as far as it is known
    absl::Time newest;
  };

  void RemoveFirst();

  const std::shared_ptr<Storage> storage_;
  const size_t max_ids_;
  const absl::Duration max_age_;
  std::vector<File> files_;          // oldest first
  std::vector<UsedRunIds> rescued_;  // of damaged files
  size_t ids_ = 0;                   // in all of them
  uint64_t next_ = 1;
};

}  // namespace pto::daemon
