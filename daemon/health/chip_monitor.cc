#include "daemon/health/chip_monitor.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "runtime/engine/engine.h"

namespace pto::daemon {
namespace {

// The interval between checks of idle chips. A fault must be detected within two seconds.
constexpr absl::Duration kIdle = absl::Seconds(1);
constexpr absl::Duration kShortest = absl::Milliseconds(10);

}  // namespace

ChipMonitor::ChipMonitor(Node& node, Tell tell)
    : node_(node),
      tell_(std::move(tell)),
      usable_(node.engine().chips().size(), true),
      faults_(node.engine().chips().size()),
      samples_(node.engine().chips().size()),
      asks_("chip-asks", [this] { return Ask(); }),
      stops_("chip-stops"),
      watches_("chip-watch", [this] { return Watch(); }) {}

void ChipMonitor::Stop() {
  watches_.Stop();
  stops_.Stop();
  asks_.Stop();
}

absl::Duration ChipMonitor::Interval() const {
  return node_.engine().active_runs() == 0 ? kIdle : node_.health().look_every();
}

std::chrono::nanoseconds ChipMonitor::Ask() {
  const size_t count = node_.engine().chips().size();
  std::vector<ChipSign> signs(count);
  for (uint32_t chip = 0; chip < count; ++chip) {
    {
      MutexLock lock(mutex_);
      samples_[chip].asking = true;
      samples_[chip].asked_ns = node_.clock().NowNanos();
    }
    node_.engine().AwaitQueue(chip);
    const engine::Engine::ChipUse use = node_.engine().chip_use(chip);
    {
      MutexLock lock(mutex_);
      samples_[chip].asking = false;
    }
    signs[chip].busy_cores = use.busy_cores;
    signs[chip].ready_tasks = use.ready_tasks;
    signs[chip].waiting_gangs = use.waiting_gangs;
  }
  CountRuns(&signs);
  const bool thread_free = node_.engine().has_idle_executor();
  MutexLock lock(mutex_);
  for (uint32_t chip = 0; chip < count; ++chip) {
    signs[chip].thread_free = thread_free;
    samples_[chip].sign = signs[chip];
    samples_[chip].taken_ns = node_.clock().NowNanos();
  }
  return absl::ToChronoNanoseconds(Interval());
}

void ChipMonitor::CountRuns(std::vector<ChipSign>* signs) const {
  const auto is_busy = [](const ChipSign& sign) { return sign.busy_cores > 0; };
  if (std::none_of(signs->begin(), signs->end(), is_busy)) return;
  // The callback counts: one run may count for several chips.
  (void)node_.engine().CountIf([&](const engine::Run& run) {
    if (run.started_ns() == 0) return false;
    for (const uint32_t chip : run.image().chips()) {
      ++(*signs)[chip].started_runs;
      if (run.stop_requested()) ++(*signs)[chip].stopping_runs;
    }
    return false;
  });
}

ChipSign ChipMonitor::SignOf(uint32_t chip, int64_t now_ns) const {
  const int64_t patience = 2 * absl::ToInt64Nanoseconds(node_.health().look_every());
  MutexLock lock(mutex_);
  const Sample& sample = samples_[chip];
  ChipSign sign = sample.sign;
  // Lock-free, so it is known even if the queue hangs.
  sign.ended_tasks = node_.engine().chip_use(chip).ended_tasks;
  if (sample.asking && now_ns - sample.asked_ns > patience) {
    sign.silent_ns = now_ns - sample.asked_ns;
  } else if (now_ns - sample.taken_ns > patience) {
    // Too old to draw conclusions.
    sign.thread_free = false;
    sign.started_runs = sign.stopping_runs = 0;
  }
  return sign;
}

std::chrono::nanoseconds ChipMonitor::Watch() {
  ChipHealth& health = node_.health();
  bool has_come_back = false;
  for (uint32_t chip = 0; chip < usable_.size(); ++chip) {
    health.See(chip, SignOf(chip, node_.clock().NowNanos()));
    const bool usable = health.usable(chip);
    // A fault may have come and gone since the last check, and a lease may have been refused
    // because of it.
    const uint64_t faults = health.Look(chip).faults;
    has_come_back |= usable && faults != faults_[chip];
    if (usable) faults_[chip] = faults;
    if (usable == usable_[chip]) continue;
    usable_[chip] = usable;
    tell_(chip, usable);
  }
  if (has_come_back) stops_.Post([this] { node_.leases().LookAgain(); });
  if (health.usable_chips() < usable_.size()) {
    // Repeated, because a run may have been accepted meanwhile. One request at a time: it may hang.
    MutexLock lock(mutex_);
    if (!stop_posted_) stop_posted_ = stops_.Post([this] { StopRuns(); });
  }
  return absl::ToChronoNanoseconds(std::max(std::min(Interval(), health.UntilProbe()), kShortest));
}

void ChipMonitor::StopRuns() {
  {
    MutexLock lock(mutex_);
    stop_posted_ = false;
  }
  // Hanging chips come last: stopping their runs may block.
  std::vector<std::pair<int64_t, uint32_t>> faulted;
  for (const std::shared_ptr<engine::Chip>& chip : node_.engine().chips()) {
    const ChipHealth::View view = node_.health().Look(chip->index());
    if (!view.fault.ok()) faulted.emplace_back(view.sign.silent_ns, chip->index());
  }
  std::sort(faulted.begin(), faulted.end());
  for (const auto& [silent_ns, chip] : faulted) {
    const absl::Status fault = node_.health().Check({chip});
    if (fault.ok()) continue;
    const auto is_hit = [&, chip = chip](const engine::Run& run) {
      // The chip may have recovered meanwhile, and new runs may use it.
      return Node::UsesChip(run, chip) && !node_.health().usable(chip);
    };
    node_.engine().StopIf(is_hit, engine::RunState::kFailed, fault);
  }
}

}  // namespace pto::daemon
