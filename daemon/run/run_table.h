#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "daemon/journal/run_ids.h"
#include "daemon/run/run_entry.h"
#include "runtime/base/memory_account.h"

namespace pto::daemon {

// The runs of one session by their ids: those that are active, and the newest of those that have
// ended. Has the ids of the others in a RunIds, so that no run is executed twice.
// Not thread-safe: its session locks.
class RunTable {
 public:
  // What the tasks that are kept of ended runs may take together.
  static constexpr uint64_t kMaxKeptBytes = uint64_t{128} << 20;

  // As many ended runs are kept even if the account that they are charged to has no room.
  static constexpr size_t kMinEnded = 64;

  // `used` has ids of all sessions, also those that other sessions of this id have used before;
  // nullptr when nobody remembers them.
  RunTable(std::string session, RunIds* used, size_t max_ended,
           uint64_t max_kept_bytes = kMaxKeptBytes)
      : session_(std::move(session)),
        used_(used),
        max_ended_(max_ended),
        max_kept_bytes_(max_kept_bytes) {}

  // What counts the records of ended runs. Before all else.
  void ChargeTo(std::shared_ptr<MemoryAccount> memory) { charge_ = HostCharge(std::move(memory)); }

  // nullptr when there is none, or no longer.
  std::shared_ptr<RunEntry> Find(absl::string_view id) const;
  // Whether a run of that id was once there and is not any more.
  bool IsForgotten(absl::string_view id) const;
  // The session has ended: remembers the ids of all its runs.
  void RememberIds() const;

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

  // Takes tasks that are kept of ended runs, oldest first, until they have this many bytes.
  std::vector<std::unique_ptr<KeptGraph>> DropKept(uint64_t bytes);

  // Newest first, those older than number `before` (0: from the newest).
  std::vector<std::shared_ptr<RunEntry>> List(uint64_t before, size_t limit,
                                              bool active_only) const;
  // In no order.
  std::vector<std::shared_ptr<RunEntry>> Active() const;
  size_t ended() const { return ended_.size(); }

 private:
  template <typename Visitor>
  void ForEach(Visitor visitor) const;
  void ForgetFirst();
  std::unique_ptr<KeptGraph> DropFirstKept();
  // Whether there is room for all ended runs.
  bool Cover();
  void RememberId(absl::string_view id) const;

  // What is needed to forget it: nobody may have used the entry itself for long.
  struct Ended {
    const RunEntry* entry = nullptr;
    uint64_t own_number = 0;
    uint64_t bytes = 0;
  };

  // An ended run whose tasks are kept.
  struct Kept {
    RunEntry* entry = nullptr;
    uint64_t bytes = 0;
  };

  const std::string session_;
  RunIds* const used_;
  const size_t max_ended_;
  const uint64_t max_kept_bytes_;
  RunEntry* active_ = nullptr;  // a list through the entries
  uint64_t next_number_ = 1;
  uint64_t next_own_ = 1;
  // Runs whose id the table chose, by its number: no text to make, hash or compare.
  absl::flat_hash_map<uint64_t, std::shared_ptr<RunEntry>> own_;
  absl::flat_hash_map<std::string, std::shared_ptr<RunEntry>> chosen_;
  std::deque<Ended> ended_;   // oldest first; they are in one of the maps
  std::deque<Kept> kept_;     // oldest first; they are among the ended ones
  uint64_t kept_bytes_ = 0;   // of all of them
  uint64_t ended_bytes_ = 0;  // that ended runs take
  HostCharge charge_;         // for these, in steps
  // A client has chosen an id of the form of those that the table chooses.
  bool own_form_chosen_ = false;
};

}  // namespace pto::daemon
