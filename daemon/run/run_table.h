#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/string_view.h"
#include "daemon/run/run_entry.h"

namespace pto::daemon {

// The runs of one session by their ids: those that are active, and the newest of those that have
// ended. Knows of the others that their ids are used, so that no run is executed twice.
// Not thread-safe: its session locks.
class RunTable {
 public:
  // What the tasks that are kept of ended runs may take together.
  static constexpr uint64_t kMaxKeptBytes = uint64_t{128} << 20;

  explicit RunTable(size_t max_ended, uint64_t max_kept_bytes = kMaxKeptBytes)
      : max_ended_(max_ended), max_kept_bytes_(max_kept_bytes) {}

  // nullptr when there is none, or no longer.
  std::shared_ptr<RunEntry> Find(absl::string_view id) const;
  // Whether a run of that id was once there and is not any more.
  bool IsForgotten(absl::string_view id) const;

  // Runs of a former boot have had these. Before all else.
  void StartAfter(uint64_t number, uint64_t own_number) {
    next_number_ = number + 1;
    next_own_ = own_number + 1;
  }

  // A number that no run had before. Numbers rise.
  uint64_t NextNumber() { return next_number_++; }
  // Chooses an id that no run had before.
  struct OwnId {
    uint64_t number = 0;
    std::string id;
  };
  OwnId NextOwnId();

  void Add(std::shared_ptr<RunEntry> entry);
  // Keeps it among the newest ended ones. Returns tasks of ended runs that are no longer kept: to
  // free them takes time.
  std::vector<std::unique_ptr<KeptGraph>> OnEnded(RunEntry& entry);

  // Newest first, those older than number `before` (0: from the newest).
  std::vector<std::shared_ptr<RunEntry>> List(uint64_t before, size_t limit,
                                              bool active_only) const;
  // In no order.
  std::vector<std::shared_ptr<RunEntry>> Active() const;
  size_t ended() const { return ended_.size(); }

 private:
  template <typename Visitor>
  void ForEach(Visitor visitor) const;
  void Forget(const RunEntry& entry);

  // An ended run whose tasks are kept.
  struct Kept {
    RunEntry* entry = nullptr;
    uint64_t bytes = 0;
  };

  const size_t max_ended_;
  const uint64_t max_kept_bytes_;
  RunEntry* active_ = nullptr;  // a list through the entries
  uint64_t next_number_ = 1;
  uint64_t next_own_ = 1;
  // Runs whose id the table chose, by its number: no text to make, hash or compare.
  absl::flat_hash_map<uint64_t, std::shared_ptr<RunEntry>> own_;
  absl::flat_hash_map<std::string, std::shared_ptr<RunEntry>> chosen_;
  std::deque<const RunEntry*> ended_;  // oldest first; they are in one of the maps
  std::deque<Kept> kept_;              // oldest first; they are among the ended ones
  uint64_t kept_bytes_ = 0;            // of all of them
  // Ids that clients chose and whose runs are forgotten.
  absl::flat_hash_set<std::string> used_;
  std::deque<std::string> used_order_;
};

}  // namespace pto::daemon
