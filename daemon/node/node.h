#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "daemon/chip/chip_health.h"
#include "daemon/chip/chip_leases.h"
#include "daemon/journal/journal.h"
#include "daemon/model/limits.h"
#include "daemon/run/failed_runs.h"
#include "daemon/run/former_runs.h"
#include "daemon/session/drain_gate.h"
#include "daemon/session/session_manager.h"
#include "kernels/builtin_kernels.h"
#include "runtime/base/clock.h"
#include "runtime/base/mutex.h"
#include "runtime/base/timer.h"
#include "runtime/chip/chip.h"
#include "runtime/engine/engine.h"
#include "runtime/graph/builder.h"

namespace pto::daemon {

// Everything that a daemon owns: chips, engine, sessions. Independent of gRPC. Thread-safe.
class Node {
 public:
  struct Options {
    std::vector<std::shared_ptr<engine::Chip>> chips;  // by index
    Limits limits;
    SessionTimes session_times;
    uint32_t executors = 0;  // 0 means one per CPU
    absl::Duration drain_grace = absl::Seconds(10);
    // How long a chip must hang to count as faulted; zero disables the check.
    absl::Duration stall_after;
    const Clock* clock = &Clock::Real();
    // If empty, the node chooses one.
    std::string boot_id;
    // Stores runs across restarts; must have the same boot id. nullptr for none.
    std::shared_ptr<Journal> journal;
  };

  // A random id for one start of the daemon.
  static std::string MakeBootId();

  explicit Node(Options options);
  ~Node();
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  const std::string& boot_id() const { return boot_id_; }
  absl::Time start_time() const { return start_time_; }
  const Limits& limits() const { return options_.limits; }
  const SessionTimes& session_times() const { return options_.session_times; }
  const Clock& clock() const { return *options_.clock; }
  const KernelRegistry& kernels() const { return BuiltinKernels(); }
  // The target for compiling graphs.
  const engine::GraphTarget& target() const { return target_; }
  engine::Engine& engine() { return *engine_; }
  SessionManager& sessions() { return *sessions_; }
  ChipHealth& health() { return *health_; }
  ChipLeases& leases() { return *leases_; }
  // Whether runs survive a restart.
  bool has_journal() const { return options_.journal != nullptr; }
  // The runs of former boots.
  const FormerRuns& former() const { return former_; }
  FailedRuns& failed_runs() { return failed_runs_; }
  // For leases and deadlines.
  TimerQueue& timers() { return timers_; }
  // For delivering events, so that a busy stream delays no deadline.
  TimerQueue& event_timers() { return event_timers_; }

  // For the engine: whether a run needs the chip.
  static bool UsesChip(const engine::Run& run, uint32_t chip);

  // ---- drain
  struct Drain {
    uint64_t active_runs = 0;
    absl::Time cancel_time;
  };
  // Refuses new sessions and runs from now on; cancels active runs after `grace` (zero: the
  // configured time). A later call can only shorten the time.
  Drain BeginDrain(absl::string_view reason, absl::Duration grace);
  bool draining() const { return gate_.closed(); }
  // Cancels all runs, including those being started and open runs that wait for their clients.
  void CancelRuns(const absl::Status& error);
  // NODE_DRAINING while draining.
  absl::Status CheckAccepting() const { return gate_.Check(); }
  // Called once when the drain begins.
  void OnDrain(std::function<void()> callback);
  // Queued and running runs, including open runs that wait for their clients.
  uint64_t CountActiveRuns() const;
  // Waits until no run is active or `timeout` has passed. Returns whether none is active. While
  // draining, this is final.
  bool WaitDrained(absl::Duration timeout);
  // The same for what the engine executes: afterwards no kernel runs.
  bool WaitIdle(absl::Duration timeout) { return engine_->WaitIdle(timeout); }

 private:
  const Options options_;
  const std::string boot_id_;
  const absl::Time start_time_;
  const FormerRuns former_;
  FailedRuns failed_runs_;
  engine::GraphTarget target_;
  TimerQueue timers_;
  TimerQueue event_timers_;
  DrainGate gate_;
  std::unique_ptr<engine::Engine> engine_;
  std::unique_ptr<ChipHealth> health_;
  std::unique_ptr<ChipLeases> leases_;
  std::unique_ptr<SessionManager> sessions_;

  Mutex mutex_;
  absl::Time cancel_time_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteFuture();
  std::vector<std::function<void()>> on_drain_ ABSL_GUARDED_BY(mutex_);

  // Last, so that they stop first.
  TimerThread timer_thread_;
  TimerThread event_timer_thread_;
};

}  // namespace pto::daemon
