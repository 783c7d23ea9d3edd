#include "daemon/chip/chip_health.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/names/names.h"
#include "runtime/base/error.h"
#include "runtime/base/log.h"

namespace pto::daemon {
namespace {

// How long to wait before a faulted chip is probed again: doubles each time. The maximum is short
// enough to report a recovery within two seconds.
constexpr int64_t kFirstWaitNs = 100'000'000;
constexpr int64_t kLongestWaitNs = 1'000'000'000;

}  // namespace

ChipHealth::Entry::Entry(const Options& options)
    : since(options.clock->WallTime()),
      stall(absl::ToInt64Nanoseconds(options.stall_after),
            absl::ToInt64Nanoseconds(options.look_every)) {}

ChipHealth::ChipHealth(Options options)
    : options_(std::move(options)), entries_(options_.chips, Entry(options_)) {}

absl::Status ChipHealth::CheckAll(absl::Span<const uint32_t> chips) const {
  MutexLock lock(mutex_);
  for (const uint32_t chip : chips) {
    if (!entries_[chip].fault.ok()) return entries_[chip].fault;
  }
  return absl::OkStatus();
}

ChipHealth::View ChipHealth::Look(uint32_t chip) const {
  MutexLock lock(mutex_);
  const Entry& entry = entries_[chip];
  View view;
  view.state = entry.resetting    ? State::kResetting
               : entry.fault.ok() ? State::kActive
                                  : State::kFaulted;
  view.since = entry.since;
  view.fault = entry.fault;
  view.last_fault = entry.last_fault;
  view.faults = entry.faults;
  view.last_progress = entry.last_progress;
  view.sign = entry.sign;
  return view;
}

void ChipHealth::See(uint32_t chip, const ChipSign& sign) {
  std::string wrong;
  uint64_t resets = 0;
  {
    MutexLock lock(mutex_);
    Entry& entry = entries_[chip];
    resets = entry.resets;
    const int64_t now = options_.clock->NowNanos();
    if (sign.ended_tasks != entry.sign.ended_tasks) {
      entry.last_progress = options_.clock->WallTime();
    }
    entry.sign = sign;
    // Called each time, because it depends on regular signs.
    wrong = entry.stall.See(sign, now);
    if (!entry.fault.ok() && now < entry.probe_at_ns) return;
  }
  if (wrong.empty()) wrong = options_.probe(chip);
  MutexLock lock(mutex_);
  // A fault observed before a reset says nothing about the chip after it.
  if (entries_[chip].resets == resets) Judge(chip, wrong);
}

void ChipHealth::Reset(uint32_t chip, const std::function<void()>& stop_work) {
  {
    MutexLock lock(mutex_);
    entries_[chip].resetting = true;
    ++entries_[chip].resets;
    entries_[chip].since = options_.clock->WallTime();
  }
  stop_work();
  const std::string wrong = options_.probe(chip);
  MutexLock lock(mutex_);
  Entry& entry = entries_[chip];
  entry.stall.Forget();
  entry.resetting = false;
  entry.since = options_.clock->WallTime();
  Judge(chip, wrong);
}

void ChipHealth::Judge(uint32_t chip, const std::string& wrong) {
  Entry& entry = entries_[chip];
  const bool was_well = entry.fault.ok();
  const std::string name = names::Chip(chip);
  if (wrong.empty()) {
    if (was_well) return;
    entry.fault = absl::OkStatus();
    entry.since = options_.clock->WallTime();
    faulted_.fetch_sub(1, std::memory_order_acq_rel);
    PTO_LOG(kInfo, "chip is active again", {{"chip", name}});
    return;
  }
  entry.fault = Error(reason::kChipUnavailable, absl::StrCat(name, " is FAULTED: ", wrong))
                    .With("chip", name)
                    .With("fault", wrong);
  entry.last_fault = entry.fault;
  entry.wait_ns = was_well ? kFirstWaitNs : std::min(2 * entry.wait_ns, kLongestWaitNs);
  entry.probe_at_ns = options_.clock->NowNanos() + entry.wait_ns;
  if (!was_well) return;
  ++entry.faults;
  entry.since = options_.clock->WallTime();
  faulted_.fetch_add(1, std::memory_order_acq_rel);
  PTO_LOG(kError, "chip is faulted", {{"chip", name}, {"fault", wrong}});
}

absl::Duration ChipHealth::UntilProbe() const {
  if (faulted_.load(std::memory_order_acquire) == 0) return absl::InfiniteDuration();
  MutexLock lock(mutex_);
  int64_t wait = kLongestWaitNs;
  const int64_t now = options_.clock->NowNanos();
  for (const Entry& entry : entries_) {
    if (!entry.fault.ok()) wait = std::min(wait, std::max<int64_t>(entry.probe_at_ns - now, 0));
  }
  return absl::Nanoseconds(wait);
}

}  // namespace pto::daemon
