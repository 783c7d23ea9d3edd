#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "daemon/core/domain_uses.h"
#include "daemon/core/registered_graph.h"
#include "daemon/core/run_record.h"
#include "daemon/core/run_turn.h"
#include "daemon/core/session_buffer.h"
#include "daemon/events/event_log.h"
#include "daemon/graph/digest.h"
#include "runtime/base/clock.h"
#include "runtime/base/mutex.h"
#include "runtime/engine/engine.h"

namespace pto {

class Session;

// A run as its session knows it: from its acceptance until it is forgotten. Writes the run's
// events and tells those who wait for its end. Thread-safe.
class RunEntry final : public RunObserver,
                       public RunTurn,
                       public std::enable_shared_from_this<RunEntry> {
 public:
  // Called once with the final status, from any thread; must be quick.
  using Waiter = std::function<void(const RunStatus&)>;

  struct Options {
    std::weak_ptr<Session> session;
    RunRecord record;                        // as far as it is known at the start
    uint64_t number = 0;                     // rises within the session
    uint64_t own_number = 0;                 // 0 when the client chose the id
    Digest digest;                           // of the request that made it
    std::shared_ptr<RegisteredGraph> graph;  // nullptr for a submitted graph
    std::shared_ptr<const BoundSlots> slots;
    std::shared_ptr<const DomainUses> domains;  // nullptr when it uses none
    Engine* engine = nullptr;
    const Clock* clock = nullptr;
  };

  explicit RunEntry(Options options);

  // Only what was known at the start, unless the run has ended.
  const RunRecord& record() const { return options_.record; }
  uint64_t number() const { return options_.number; }
  uint64_t own_number() const { return options_.own_number; }
  const Digest& digest() const { return options_.digest; }

  // The run to watch. Once, before it is started.
  void Attach(std::shared_ptr<Run> run);

  // Its turn has come, and it begins next.
  void BeginUse() const {
    if (options_.domains != nullptr) options_.domains->BeginUse(number());
  }
  // Why a domain that it uses cannot be used any more; OK while all can.
  absl::Status CheckDomains() const {
    return options_.domains == nullptr ? absl::OkStatus() : options_.domains->CheckUsable();
  }

  // Between these two nothing is told of the run: the thread that starts it works on it itself,
  // so its end may come at once, and then the whole story is told in one go, when the client has
  // its answer. Whoever calls the first calls the second; more than once does no harm.
  void HoldNews();
  void ReleaseNews();

  RunStatus Status() const;
  bool ended() const { return ended_.load(std::memory_order_acquire); }

  // The engine's run, or nullptr some time after its end.
  std::shared_ptr<Run> run() const;

  // Calls `waiter` when the run ends; at once, and returning 0, when it has.
  uint64_t AddWaiter(Waiter waiter);
  // Returns true when the waiter will never be called.
  bool RemoveWaiter(uint64_t id);

  // Tells the session's event log what is new.
  void Tell();

  std::string name() const override { return options_.record.name(); }
  void OnStarted(Run& run) override;
  void OnRecords(Run& run, size_t waiting) override;
  void OnFinished(Run& run) override;

 protected:
  void OnTurn() override;
  void OnPassedLate() override;

 private:
  uint64_t end_sequence() const { return end_sequence_.load(std::memory_order_acquire); }
  std::shared_ptr<const RunRecord> shared_record() const {
    return {shared_from_this(), &options_.record};
  }
  // Adds what is to be told next.
  void CollectNews(Run& run, std::vector<LogEntry>* news)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(tell_mutex_);
  void TellNews(Run& run);
  // Tells the rest of the story and lets go of the run, once. It has ended.
  void Settle();
  absl::Time TimeOf(const Run& run, int64_t ns) const {
    return options_.record.create_time + absl::Nanoseconds(ns - run.accepted_ns());
  }

  friend class RunTable;

  Options options_;
  // The table's list of active runs.
  RunEntry* previous_active_ = nullptr;
  RunEntry* next_active_ = nullptr;
  std::atomic<bool> holding_{false};  // written under mutex_
  std::atomic<bool> ended_{false};    // written under mutex_
  // Written before `ended_`.
  RunState end_state_ = RunState::kSucceeded;
  std::atomic<uint64_t> end_sequence_{0};  // 0 until the end is in the log

  // Held while news goes to the log, so that it keeps its order.
  Mutex tell_mutex_;
  bool told_queued_ ABSL_GUARDED_BY(tell_mutex_) = false;
  bool told_started_ ABSL_GUARDED_BY(tell_mutex_) = false;
  bool settled_ ABSL_GUARDED_BY(tell_mutex_) = false;

  mutable Mutex mutex_;
  std::shared_ptr<Run> run_ ABSL_GUARDED_BY(mutex_);
  uint64_t next_waiter_ ABSL_GUARDED_BY(mutex_) = 1;
  std::vector<std::pair<uint64_t, Waiter>> waiters_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace pto
