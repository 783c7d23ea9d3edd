#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/string_view.h"
#include "daemon/core/run_entry.h"

namespace pto {

// The runs of one session by their ids: those that are active, and the newest of those that have
// ended. Knows of the others that their ids are used, so that no run is executed twice.
// Not thread-safe: its session locks.
class RunTable {
 public:
  explicit RunTable(size_t max_ended) : max_ended_(max_ended) {}

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
  // Keeps it among the newest ended ones.
  void OnEnded(RunEntry& entry);

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

  const size_t max_ended_;
  RunEntry* active_ = nullptr;  // a list through the entries
  uint64_t next_number_ = 1;
  uint64_t next_own_ = 1;
  // Runs whose id the table chose, by its number: no text to make, hash or compare.
  absl::flat_hash_map<uint64_t, std::shared_ptr<RunEntry>> own_;
  absl::flat_hash_map<std::string, std::shared_ptr<RunEntry>> chosen_;
  std::deque<const RunEntry*> ended_;  // oldest first; they are in one of the maps
  // Ids that clients chose and whose runs are forgotten.
  absl::flat_hash_set<std::string> used_;
  std::deque<std::string> used_order_;
};

}  // namespace pto
