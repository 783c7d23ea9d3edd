#include "daemon/node/node.h"

#include <algorithm>
#include <random>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "daemon/node/accepted_runs.h"
#include "runtime/base/error.h"
#include "runtime/base/log.h"

namespace pto::daemon {
namespace {

// Up to this many deadlines can be stuck in a hanging chip before others are late.
constexpr size_t kTimerThreads = 256;

}  // namespace

std::string Node::MakeBootId() {
  std::random_device random;
  return absl::StrFormat("%08x%08x%08x%08x", random(), random(), random(), random());
}

Node::Node(Options options)
    : Node(std::move(options),
           options.journal == nullptr ? JournalHistory() : options.journal->TakeHistory()) {}

Node::Node(Options&& options, JournalHistory history)
    : access_(options.access != nullptr ? std::move(options.access)
                                        : std::make_unique<auth::Access>()),
      options_(std::move(options)),
      boot_id_(options_.boot_id.empty() ? MakeBootId() : options_.boot_id),
      start_time_(options_.clock->WallTime()),
      former_(history),
      timers_(*options_.clock),
      event_timers_(*options_.clock),
      timer_thread_(timers_, kTimerThreads),
      event_timer_thread_(event_timers_) {
  engine::Engine::Options engine;
  engine.chips = options_.chips;
  for (const std::shared_ptr<engine::Chip>& chip : options_.chips) {
    target_.chip_clusters.push_back(chip->spec().clusters);
    target_.device_only.push_back(!chip->spec().host_visible);
  }
  target_.kernels = &BuiltinKernels();
  target_.max_tasks = options_.limits.max_graph_tasks;
  engine.clock = options_.clock;
  engine.timers = &timers_;
  engine.executors = options_.executors != 0 ? options_.executors
                                             : std::max(1u, std::thread::hardware_concurrency());
  engine.patience_ns = absl::ToInt64Nanoseconds(options_.spare_after);
  engine.max_spares = options_.max_spare_threads;
  engine.call_limit_ns = default_task_timeout_ns();
  engine.on_stuck = [this](bool stuck) {
    MutexLock lock(stuck_mutex_);
    if (on_stuck_ != nullptr) on_stuck_(stuck);
  };
  engine_ = std::make_unique<engine::Engine>(std::move(engine));
  KernelHosts::Options hosts = options_.kernel_hosts;
  hosts.max_kernel_bytes = options_.limits.max_kernel_bytes;
  hosts.max_client_bytes = options_.limits.max_client_kernel_bytes;
  kernel_hosts_ = std::make_unique<KernelHosts>(std::move(hosts));
  ChipHealth::Options health;
  health.chips = static_cast<uint32_t>(options_.chips.size());
  health.clock = options_.clock;
  health.stall_after = options_.stall_after;
  if (options_.stall_after > absl::ZeroDuration()) {
    health.look_every =
        std::clamp(options_.stall_after / 4, absl::Milliseconds(10), health.look_every);
  }
  health.probe = [this](uint32_t chip) { return options_.chips[chip]->Probe(); };
  health_ = std::make_unique<ChipHealth>(std::move(health));
  ChipLeases::Options leases;
  leases.chips = static_cast<uint32_t>(options_.chips.size());
  leases.timers = &timers_;
  leases.clock = options_.clock;
  leases.busy = [this](uint32_t chip, const std::string& holder) {
    return sessions_->UsedByOthers(chip, holder);
  };
  leases.health = health_.get();
  leases_ = std::make_unique<ChipLeases>(std::move(leases));
  usage_ = MakeUsage(history);
  SessionManager::Options sessions;
  sessions.usage = usage_.get();
  sessions.limits = &options_.limits;
  sessions.times = options_.session_times;
  sessions.engine = engine_.get();
  sessions.timers = &timers_;
  sessions.background = &event_timers_;
  sessions.clock = options_.clock;
  sessions.journal = options_.journal.get();
  sessions.run_ids = options_.run_ids;
  sessions.run_ids.clock = options_.clock;
  sessions.former = &former_;
  sessions.failed = &failed_runs_;
  sessions.gate = &gate_;
  sessions.leases = leases_.get();
  sessions.target = &target_;
  sessions.hosts = kernel_hosts_.get();
  sessions.not_served = options_.not_served;
  sessions_ = std::make_unique<SessionManager>(sessions);
  RememberIds(history);
}

std::unique_ptr<UsageMeter> Node::MakeUsage(const JournalHistory& history) {
  UsageMeter::Options options;
  options.path = options_.usage_path;
  options.interval = options_.usage_interval;
  options.clock = options_.clock;
  options.settle = [this] { engine_->SettleCoreTime(); };
  options.boot_id = boot_id_;
  options.accepted_by = [&history](const UsageStore::Boot& boot) {
    return CountAcceptedRuns(history, boot);
  };
  return std::make_unique<UsageMeter>(std::move(options));
}

void Node::RememberIds(const JournalHistory& history) {
  for (const UsedRunIds& ids : history.used_ids) {
    // By a clock that cannot be believed they are as new as can be.
    const absl::Duration age = history.clock_doubtful
                                   ? absl::ZeroDuration()
                                   : std::max(start_time_ - ids.newest, absl::ZeroDuration());
    for (const uint64_t hash : ids.hashes) sessions_->run_ids().Add(hash, age);
  }
}

Node::~Node() {
  sessions_->EndAll("the daemon stops");
  kernel_hosts_->Stop();
  // Timers point into sessions and the engine; none may fire while these are destroyed.
  timers_.Clear();
  event_timers_.Clear();
}

absl::Status Node::CheckKernelUpload(const auth::Principal& caller) const {
  using auth::Rights;
  const Rights::Uploads own = caller.rights.kernel_uploads;
  if (own == Rights::Uploads::kAllowed) return absl::OkStatus();
  std::string rule = "the access policy says kernel_uploads: DENIED";
  if (own == Rights::Uploads::kUnset) {
    switch (options_.kernel_uploads) {
      case KernelUploads::kUsers:
        return absl::OkStatus();
      case KernelUploads::kOperators:
        if (caller.rights.operates) return absl::OkStatus();
        rule =
            "that needs the role operator, kernel_uploads: ALLOWED in the access policy, or "
            "--kernel-uploads=users";
        break;
      case KernelUploads::kOff:
        rule =
            "the daemon runs with --kernel-uploads=off, and the access policy does not say "
            "kernel_uploads: ALLOWED";
        break;
    }
  }
  return Error(reason::kPermissionDenied,
               absl::StrCat(caller.name, " may not upload kernels: ", rule))
      .With("principal", caller.name)
      .With("rule", "kernel_uploads");
}

bool Node::UsesChip(const engine::Run& run, uint32_t chip) {
  const absl::Span<const uint32_t> chips = run.image().chips();
  return std::binary_search(chips.begin(), chips.end(), chip);
}

Node::Drain Node::BeginDrain(absl::string_view reason, absl::Duration grace) {
  if (grace == absl::ZeroDuration()) grace = options_.drain_grace;
  std::vector<std::function<void()>> callbacks;
  Drain drain;
  bool earlier = false;
  {
    MutexLock lock(mutex_);
    if (gate_.Close(reason)) {
      callbacks.swap(on_drain_);
      PTO_LOG(kInfo, "draining", {{"reason", reason}, {"grace", absl::FormatDuration(grace)}});
    }
    const absl::Time cancel_time = options_.clock->WallTime() + grace;
    earlier = cancel_time < cancel_time_;
    if (earlier) cancel_time_ = cancel_time;
    drain.cancel_time = cancel_time_;
  }
  for (const std::function<void()>& callback : callbacks) callback();
  if (earlier) {
    timers_.Schedule(options_.clock->NowNanos() + absl::ToInt64Nanoseconds(grace), [this] {
      CancelRuns(
          Error(reason::kRunCancelled, "the daemon is stopping and its grace period has passed")
              .With("by", "drain"));
    });
  }
  drain.active_runs = CountActiveRuns();
  return drain;
}

void Node::OnStuck(std::function<void(bool)> callback) {
  MutexLock lock(stuck_mutex_);
  on_stuck_ = std::move(callback);
}

absl::Status Node::StuckError() const {
  const engine::Engine::ThreadUse use = engine_->thread_use();
  return Error(reason::kExecutorsStuck,
               absl::StrCat("no thread is left to run tasks: kernels hold all ", use.held,
                            " threads, ", use.stopped, " of them for runs that were stopped"))
      .With("threads", use.held)
      .With("spare_threads", use.spares)
      .With("stopped", use.stopped);
}

void Node::CancelRuns(const absl::Status& error) {
  engine_->StopAll(engine::RunState::kCancelled, error);
  // The engine knows only those segments of an open run that have begun.
  for (const std::shared_ptr<Session>& session : sessions_->List(auth::Daemon(), "", size_t(-1))) {
    session->StopRuns(engine::RunState::kCancelled, error);
  }
}

uint64_t Node::CountActiveRuns() const {
  // The engine also has runs of ended sessions; sessions also have runs that the engine does not
  // know yet.
  return std::max(engine_->active_runs(), sessions_->CountActiveRuns());
}

bool Node::WaitDrained(absl::Duration timeout) {
  constexpr absl::Duration kLook = absl::Milliseconds(2);
  const absl::Time deadline = absl::Now() + timeout;
  while (true) {
    if (!engine_->WaitIdle(std::max(deadline - absl::Now(), absl::ZeroDuration()))) return false;
    if (CountActiveRuns() == 0) return true;
    // A run is being started, or waits for its client.
    if (absl::Now() >= deadline) return false;
    absl::SleepFor(kLook);
  }
}

void Node::OnDrain(std::function<void()> callback) {
  MutexLock lock(mutex_);
  on_drain_.push_back(std::move(callback));
}

}  // namespace pto::daemon
