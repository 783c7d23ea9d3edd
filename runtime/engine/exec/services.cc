#include "runtime/engine/exec/services.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "runtime/base/log.h"

namespace pto::engine {

Services::Services(Scheduler& scheduler, TimerQueue* timers, LaneLimits lane_limits)
    : scheduler_(scheduler),
      timers_(timers),
      lane_limits_(std::move(lane_limits)),
      errands_(scheduler.parking()),
      lane_news_(scheduler.parking()),
      lane_limit_(timers, [this] { return CheckLaneLimit(); }) {}

Services::~Services() {
  for (const std::shared_ptr<LanePort>& lane : Lanes()) lane->Close();
  // Reports of death own their lanes.
  while (LaneNews* const news = lane_news_.Take()) {
    if (news->kind == LaneNews::Kind::kDeath) LanePort::Bury(static_cast<LaneDeath&>(*news));
  }
}

std::shared_ptr<LanePort> Services::AddLane(std::shared_ptr<Lane> lane) {
  PTO_CHECK(timers_ != nullptr, "an engine without timers cannot have lanes");
  LanePort::Setting setting;
  setting.news = &lane_news_;
  setting.clock = &clock();
  setting.timers = timers_;
  setting.calls = lane_calls_.get();
  setting.grace_ns = lane_limits_.grace_ns;
  if (lane_limits_.call_ns > 0) {
    setting.limit = &lane_limit_;
    setting.limit_ns = lane_limits_.call_ns;
  }
  // Each post has a core, or a part of a cluster.
  for (uint32_t chip = 0; chip < scheduler_.chip_count(); ++chip) {
    const uint32_t cores = scheduler_.queue(chip).core_count();
    setting.capacity += cores;
    constexpr uint32_t kClusterCores = 3;
    setting.clusters.push_back(cores / kClusterCores);
  }
  std::shared_ptr<LanePort> port = LanePort::Open(std::move(lane), setting);
  MutexLock lock(lanes_mutex_);
  lanes_.erase(std::remove_if(lanes_.begin(), lanes_.end(),
                              [](const std::weak_ptr<LanePort>& old) { return old.expired(); }),
               lanes_.end());
  lanes_.push_back(port);
  return port;
}

std::vector<std::shared_ptr<LanePort>> Services::Lanes() {
  std::vector<std::shared_ptr<LanePort>> lanes;
  MutexLock lock(lanes_mutex_);
  for (const std::weak_ptr<LanePort>& weak : lanes_) {
    if (std::shared_ptr<LanePort> lane = weak.lock()) lanes.push_back(std::move(lane));
  }
  return lanes;
}

void Services::ForEachLane(const Run& run, absl::FunctionRef<void(LanePort&)> use) {
  if (!run.image().has_lanes()) return;
  absl::flat_hash_set<LanePort*> lanes;
  for (const std::shared_ptr<const Kernel>& kernel : run.image().shared_kernels()) {
    LanePort* const lane = kernel->lane();
    if (lane != nullptr && lanes.insert(lane).second) use(*lane);
  }
}

void Services::CancelPosts(const Run& run, bool late_only) {
  ForEachLane(run, [&](LanePort& lane) { lane.Cancel(run, late_only); });
}

void Services::EndPosts(const Run& run) {
  ForEachLane(run, [&](LanePort& lane) { lane.EndRun(run); });
}

int64_t Services::CheckLaneLimit() {
  const int64_t now_ns = clock().NowNanos();
  std::vector<std::pair<std::shared_ptr<Run>, uint32_t>> late;
  int64_t next_ns = 0;
  for (const std::shared_ptr<LanePort>& lane : Lanes()) {
    const int64_t its_ns =
        lane->table().ForEachLong(now_ns, lane_limits_.call_ns, [&](const PostSlot& slot) {
          Run& run = *slot.ticket.run;
          const ImageDetail* const detail = run.image().detail(slot.ticket.task);
          const bool has_time =
              run.task_timeout_ns() > 0 || (detail != nullptr && detail->timeout_ns > 0);
          if (has_time || run.stop_requested()) return;
          late.emplace_back(run.shared_from_this(), slot.ticket.task);
        });
    if (next_ns == 0 || (its_ns != 0 && its_ns < next_ns)) next_ns = its_ns;
  }
  for (const auto& [run, task] : late) lane_limits_.end_call(*run, task);
  return next_ns;
}

void Services::LoseLanes(absl::string_view what) {
  for (const std::shared_ptr<LanePort>& lane : Lanes()) lane->Lose(what, 0);
}

LongTask& Services::BeginLong(Run& run, uint32_t task) {
  const auto fill = [&](LongTask& entry) {
    const GraphImage& image = run.image();
    const ImageDetail* const detail = image.detail(task);
    entry.start_ns = clock().NowNanos();
    entry.timeout_ns = detail != nullptr && detail->timeout_ns != 0 ? detail->timeout_ns
                                                                    : run.spec().task_timeout_ns;
    if ((image.tasks()[task].traits & kTaskGang) != 0) {
      const uint32_t members = detail == nullptr ? 1 : detail->member_count;
      const uint32_t calls = image.calls(task);
      entry.barriers.emplace_back(calls);
      for (uint32_t i = 0; i < members; ++i) entry.barriers.emplace_back(calls / members);
    }
    return DeadlineAfter(entry.start_ns, entry.timeout_ns);
  };
  return run.long_tasks().Begin(
      task, fill, [&](TimerQueue::Id id, int64_t at_ns) { return SetTimer(run, id, at_ns); });
}

std::unique_ptr<LongTask> Services::EndLong(Run& run, uint32_t task) {
  return run.long_tasks().End(task);
}

void Services::BeginWait(Run& run, TaskWaiterLink& waiter, LongTask* long_task, int64_t at_ns) {
  run.long_tasks().Add(waiter, long_task, at_ns,
                       [&](TimerQueue::Id id, int64_t at_ns) { return SetTimer(run, id, at_ns); });
}

void Services::CancelWaits(Run& run) {
  for (Waiter* const waiter : run.long_tasks().ClaimAll()) waits_.End(*waiter, WaitEnd::kCancelled);
}

int64_t Services::DeadlineAfter(int64_t start_ns, int64_t timeout_ns) const {
  // A time beyond the end of the clock never comes.
  if (timers_ == nullptr || timeout_ns <= 0 || timeout_ns >= INT64_MAX - start_ns) return 0;
  return start_ns + timeout_ns;
}

TimerQueue::Id Services::SetTimer(Run& run, TimerQueue::Id id, int64_t at_ns) {
  // If the former timer has just fired, its call of Expire sets the next one.
  if (id != 0 && !timers_->Cancel(id)) return id;
  const auto expire = [this, weak = run.weak_from_this()] {
    // The run, and the engine with it, stay until all is done.
    if (const std::shared_ptr<Run> late = weak.lock()) Expire(*late);
  };
  return timers_->Schedule(at_ns, expire, run.account().get());
}

void Services::Expire(Run& run) {
  // The run may end here, and must not do so before Drop.
  if (!run.life().Hold()) return;
  Completions completions;
  for (Waiter* const waiter : run.long_tasks().Expire(clock().NowNanos(), kExpireAtOnce)) {
    waits_.End(*waiter, WaitEnd::kTimedOut);
  }
  CancelPosts(run, true);
  run.long_tasks().EndExpiry(
      [&](TimerQueue::Id id, int64_t at_ns) { return SetTimer(run, id, at_ns); });
  Scheduler::Drop(run, completions);
}

}  // namespace pto::engine
