#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "daemon/auth/access.h"
#include "daemon/chip/chip_health.h"
#include "daemon/chip/chip_leases.h"
#include "daemon/journal/journal.h"
#include "daemon/journal/run_ids.h"
#include "daemon/kernels/kernel_hosts.h"
#include "daemon/model/limits.h"
#include "daemon/run/failed_runs.h"
#include "daemon/run/former_runs.h"
#include "daemon/session/drain_gate.h"
#include "daemon/session/session_manager.h"
#include "daemon/usage/usage_meter.h"
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
  // Who may upload kernels if the access policy does not say.
  enum class KernelUploads { kOff, kOperators, kUsers };

  struct Options {
    std::vector<std::shared_ptr<engine::Chip>> chips;  // by index
    Limits limits;
    SessionTimes session_times;
    uint32_t executors = 0;  // 0 means one per CPU
    absl::Duration drain_grace = absl::Seconds(10);
    // How long a chip must hang to count as faulted; zero disables the check.
    absl::Duration stall_after;
    // About kernels that run for long, as in config.proto: zero means no limit, and no spares.
    absl::Duration default_task_timeout;
    absl::Duration spare_after = absl::Milliseconds(200);
    uint32_t max_spare_threads = 64;
    absl::Duration compile_timeout;
    const Clock* clock = &Clock::Real();
    // If empty, the node chooses one.
    std::string boot_id;
    // As in SessionManager::Options.
    std::function<int64_t(int64_t since_ns, int64_t due_ns, int64_t now_ns)> not_served;
    // Stores runs across restarts; must have the same boot id. nullptr for none.
    std::shared_ptr<Journal> journal;
    // As in SessionManager::Options; `clock` is the one above.
    RunIds::Options run_ids;
    // The record of what principals use, as UsageMeter::Options.
    std::string usage_path;
    absl::Duration usage_interval = absl::Seconds(1);
    // Who may do what; nullptr: what holds without a configuration.
    std::unique_ptr<auth::Access> access;
    // Kernels that clients upload. The limits are those above.
    KernelHosts::Options kernel_hosts;
    KernelUploads kernel_uploads = KernelUploads::kOperators;
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
  KernelHosts& kernel_hosts() { return *kernel_hosts_; }
  // PERMISSION_DENIED, with the rule.
  absl::Status CheckKernelUpload(const auth::Principal& caller) const;
  auth::Access& access() { return *access_; }
  UsageMeter& usage() { return *usage_; }
  // Whether runs survive a restart.
  bool has_journal() const { return options_.journal != nullptr; }
  // nullptr when they do not.
  Journal* journal() const { return options_.journal.get(); }
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
  // NODE_DRAINING while draining; EXECUTORS_STUCK while no thread is left to run tasks.
  absl::Status CheckAccepting() const {
    if (engine_->threads_stuck()) return StuckError();
    return gate_.Check();
  }
  // Called when threads have become stuck, or no longer are; nullptr: nobody. From any thread.
  void OnStuck(std::function<void(bool)> callback);
  // The limits of a kernel's call and of compiling a graph, in ns; 0: none.
  int64_t default_task_timeout_ns() const {
    return absl::ToInt64Nanoseconds(options_.default_task_timeout);
  }
  int64_t compile_timeout_ns() const { return absl::ToInt64Nanoseconds(options_.compile_timeout); }
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
  // Moves from `options` only after `history` has been taken from their journal.
  Node(Options&& options, JournalHistory history);
  // Ids that runs of former boots have used.
  void RememberIds(const JournalHistory& history);
  absl::Status StuckError() const;
  std::unique_ptr<UsageMeter> MakeUsage(const JournalHistory& history);

  const std::unique_ptr<auth::Access> access_;
  const Options options_;
  const std::string boot_id_;
  const absl::Time start_time_;
  const FormerRuns former_;
  FailedRuns failed_runs_;
  engine::GraphTarget target_;
  TimerQueue timers_;
  TimerQueue event_timers_;
  DrainGate gate_;
  Mutex stuck_mutex_;
  std::function<void(bool)> on_stuck_ ABSL_GUARDED_BY(stuck_mutex_);
  // Before the engine, whose lanes end first.
  std::unique_ptr<KernelHosts> kernel_hosts_;
  std::unique_ptr<engine::Engine> engine_;
  std::unique_ptr<ChipHealth> health_;
  std::unique_ptr<ChipLeases> leases_;
  // After the engine, whose cores it looks at, and before those that count.
  std::unique_ptr<UsageMeter> usage_;
  std::unique_ptr<SessionManager> sessions_;

  Mutex mutex_;
  absl::Time cancel_time_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteFuture();
  std::vector<std::function<void()>> on_drain_ ABSL_GUARDED_BY(mutex_);

  // Last, so that they stop first.
  TimerThread timer_thread_;
  TimerThread event_timer_thread_;
};

}  // namespace pto::daemon
