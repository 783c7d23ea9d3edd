#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "daemon/events/event_log.h"
#include "daemon/graph/graph_part.h"
#include "daemon/kernels/used_kernels.h"
#include "daemon/model/run_record.h"
#include "daemon/names/digest.h"
#include "daemon/quota/quota.h"
#include "daemon/run/kept_graph.h"
#include "daemon/run/run_owner.h"
#include "daemon/turn/run_turn.h"
#include "daemon/turn/stoppable.h"
#include "runtime/base/memory_account.h"
#include "runtime/base/mutex.h"
#include "runtime/engine/run/run.h"

namespace pto::daemon {

class Journal;

// A run as its session knows it: from its acceptance until it is forgotten. Tells the session's
// event log of it, and those who wait for its end. What is executed is the derived class's
// business. Thread-safe.
class RunEntry : public RunTurn, public Stoppable, public std::enable_shared_from_this<RunEntry> {
 public:
  // Called once with the final status, from any thread; must be quick.
  using Waiter = std::function<void(const RunStatus&)>;

  struct Options {
    std::weak_ptr<RunOwner> owner;
    RunRecord record;         // as far as it is known at the start
    uint64_t number = 0;      // rises within the session
    uint64_t own_number = 0;  // 0 when the client chose the id
    Digest digest;            // of the request that made it
    // The uploaded kernels that it uses, if it has an id of the client's and its graph is its own.
    std::shared_ptr<const UsedKernels> kernels;
    Journal* journal = nullptr;   // to tell of its end, if any
    uint64_t journal_number = 0;  // what the journal calls it
    // What it counts for until it has ended, when its session may be gone.
    QuotaCharge run_charge;
    QuotaCharge task_charge;
    HostCharge memory_charge;
    // What tasks that are kept are charged to; nullptr when they are not.
    std::shared_ptr<MemoryAccount> memory;
  };

  // Only what was known at the start, unless the run is recorded.
  const RunRecord& record() const { return options_.record; }
  uint64_t number() const { return options_.number; }
  uint64_t own_number() const { return options_.own_number; }
  const Digest& digest() const { return options_.digest; }
  // nullptr: none.
  const UsedKernels* kernels() const { return options_.kernels.get(); }

  virtual RunStatus Status() const = 0;
  // The end is in the log: Status is final.
  bool ended() const { return ended_.load(std::memory_order_acquire); }
  // The record is complete, and the end is in the journal; the last events may not be in the log
  // yet. Only the thread that ended the run may tell its client so early.
  bool recorded() const { return recorded_.load(std::memory_order_acquire); }
  // How it ended, and its final status, of a run that is recorded.
  engine::RunState end_state() const { return end_state_; }
  RunStatus EndStatus() const;

  // Calls `waiter` when the run has ended and its end is in the log; at once, and returning 0, when
  // that is so.
  uint64_t AddWaiter(Waiter waiter);
  // Returns true when the waiter will never be called.
  bool RemoveWaiter(uint64_t id);

  // Its tasks, as far as they are known: of an open run the newest, of a run that has ended perhaps
  // none.
  virtual GraphParts graph_parts() const;
  // It has ended, and its tasks are not to be kept any longer. Returns what was.
  std::unique_ptr<KeptGraph> TakeKeptGraph();

  // The session that it is a run of; nullptr when that is gone, or was one of a former boot.
  std::shared_ptr<RunOwner> owner() const { return options_.owner.lock(); }

  // Tells the session's event log what is new.
  virtual void Tell() = 0;
  // The same, and then that it does not go on, unless it has ended: nothing is told of a run after
  // its end. `stall.run` is set here.
  virtual void TellStall(RunStall stall, absl::Time time) = 0;

 protected:
  explicit RunEntry(Options&& options) : options_(std::move(options)) {
    set_shown_number(options_.number);
  }

  RunRecord& mutable_record() { return options_.record; }
  // The run has ended, which is not visible to others yet: there is room for the next one.
  void ReleaseRun();
  std::shared_ptr<const RunRecord> shared_record() const {
    return {shared_from_this(), &options_.record};
  }
  // The final status as of the last event of the run; EndStatus is as of now.
  RunStatus FinalStatus() const;
  LogEntry StateEvent(engine::RunState state, absl::Time time) const;
  LogEntry StallEvent(RunStall stall, absl::Time time) const;
  // Adds the events of errors that the record does not list.
  void AddErrors(std::vector<absl::Status> errors, std::vector<LogEntry>* news) const;

  // Writes the end to the journal. The record is complete, but nobody sees it yet.
  void JournalEnd(engine::RunState state);
  // From now on recorded() is true.
  void MarkRecorded(engine::RunState state) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Adds the last events to the log.
  void AppendLast(std::vector<LogEntry> news);
  // From now on ended() is true, and no waiter is added. Returns whether there are any.
  bool MarkEnded() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Calls those who wait for the end. After MarkEnded.
  void AnswerWaiters();
  // Keeps tasks beyond their end, within `bounds`, which are those of the first call. Not after
  // MarkEnded. Returns what is not kept, as KeptGraph::Add.
  GraphParts Keep(std::shared_ptr<const GraphPart> part, KeptGraph::Bounds bounds)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable Mutex mutex_;

 private:
  friend class RunTable;

  Options options_;
  // The table's list of active runs.
  RunEntry* previous_active_ = nullptr;
  RunEntry* next_active_ = nullptr;
  // Written under mutex_, in this order.
  std::atomic<bool> recorded_{false};
  std::atomic<bool> ended_{false};
  // Written before `recorded_`.
  engine::RunState end_state_ = engine::RunState::kSucceeded;
  std::atomic<uint64_t> end_sequence_{0};  // 0 until the end is in the log
  uint64_t next_waiter_ ABSL_GUARDED_BY(mutex_) = 1;
  std::vector<std::pair<uint64_t, Waiter>> waiters_ ABSL_GUARDED_BY(mutex_);  // by rising id
  size_t removed_waiters_ ABSL_GUARDED_BY(mutex_) = 0;       // of them, which are empty
  std::unique_ptr<KeptGraph> kept_ ABSL_GUARDED_BY(mutex_);  // nullptr for most runs
  std::atomic<uint64_t> kept_bytes_{0};                      // of `kept_`; written under mutex_
};

}  // namespace pto::daemon
