#include "daemon/usage/usage_meter.h"

#include <pthread.h>

#include <chrono>
#include <map>
#include <utility>

#include "runtime/base/error.h"
#include "runtime/base/log.h"
#include "runtime/base/status_macros.h"
#include "runtime/base/ticks.h"

namespace pto::daemon {
namespace {

// The interval while somebody asks.
constexpr std::chrono::milliseconds kAskedInterval(50);

}  // namespace

UsageMeter::UsageMeter(Options options)
    : options_(std::move(options)), start_ns_(Clock::Real().NowNanos()), start_ticks_(Ticks()) {
  OpenStore();
  thread_ = std::thread([this] {
    pthread_setname_np(pthread_self(), "usage");
    Run();
  });
}

absl::Status UsageMeter::BeginBoot(UsageStore& store) const {
  PTO_ASSIGN_OR_RETURN(const UsageStore::Boot last, store.LastBoot());
  RunCounts lost;
  if (options_.accepted_by != nullptr && last.start != absl::InfiniteFuture()) {
    for (const auto& [principal, runs] : options_.accepted_by(last)) {
      const auto added = last.runs.find(principal);
      const uint64_t known = added == last.runs.end() ? 0 : added->second;
      if (runs > known) lost[principal] = runs - known;
    }
  }
  return store.BeginBoot(options_.clock->WallTime(), options_.boot_id, lost);
}

void UsageMeter::OpenStore() {
  for (const std::string& path : {options_.path, std::string()}) {
    absl::StatusOr<std::unique_ptr<UsageStore>> store = UsageStore::Open(path);
    const absl::Status status = store.ok() ? BeginBoot(**store) : store.status();
    if (status.ok()) {
      store_ = *std::move(store);
      in_memory_ = path != options_.path;
      return;
    }
    PTO_LOG(kError, "usage is recorded in memory only, until the next start",
            {{"error", status.ToString()}});
  }
}

std::shared_ptr<UsageCounter> UsageMeter::Of(const std::string& principal) {
  MutexLock lock(mutex_);
  std::shared_ptr<UsageCounter>& counter = counters_[principal];
  if (counter == nullptr) {
    counter = std::make_shared<UsageCounter>(*options_.clock);
    // It slept without an end while nothing was counted.
    if (counters_.size() == 1) changed_.NotifyOne();
  }
  return counter;
}

void UsageMeter::Find(UsageStore::Query query, Done done) {
  {
    MutexLock lock(mutex_);
    if (!stopping_) {
      requests_.push_back({std::move(query), std::move(done)});
      changed_.NotifyOne();
      return;
    }
  }
  done(Error(reason::kNodeDraining, "the daemon stops"));
}

void UsageMeter::Stop() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    changed_.NotifyOne();
  }
  if (thread_.joinable()) thread_.join();
}

double UsageMeter::NsPerTick() const {
  constexpr int64_t kEnough = 100'000'000;
  const int64_t ns = Clock::Real().NowNanos() - start_ns_;
  const uint64_t ticks = Ticks() - start_ticks_;
  if (ns < kEnough) return 1000 / TicksPerMicrosecond();
  return static_cast<double>(ns) / static_cast<double>(ticks);
}

void UsageMeter::CollectCounters() {
  if (options_.settle != nullptr) options_.settle();
  const double ns_per_tick = NsPerTick();
  const int64_t hour = UsageStore::HourOf(options_.clock->WallTime());
  MutexLock lock(mutex_);
  for (auto it = counters_.begin(); it != counters_.end();) {
    const auto counter = it++;
    // Who has it may still count.
    const bool unused = counter->second.use_count() == 1;
    const UsageAmount amount = counter->second->Take(ns_per_tick);
    if (!amount.empty()) pending_[{hour, counter->first}] += amount;
    if (unused && counter->second->idle()) counters_.erase(counter);
  }
}

void UsageMeter::Collect() {
  CollectCounters();
  collected_ = Steady::now();
  if (store_ == nullptr || pending_.empty()) return;
  const absl::Status added = store_->Add(pending_);
  if (added.ok()) pending_.clear();
  if (added.ok() != failing_.load(std::memory_order_relaxed)) return;
  failing_.store(!added.ok(), std::memory_order_relaxed);
  if (added.ok()) {
    PTO_LOG(kInfo, "usage is recorded again", {});
  } else {
    PTO_LOG(kError, "usage cannot be recorded; it is kept in memory and tried again",
            {{"error", added.ToString()}});
  }
}

bool UsageMeter::Await(std::vector<Request>* requests) {
  MutexLock lock(mutex_);
  while (!stopping_) {
    if (requests_.empty() && counters_.empty() && pending_.empty()) {
      changed_.Wait(mutex_);
      continue;
    }
    // However many ask, the disk is not asked more often than this.
    const auto left =
        collected_ + (requests_.empty() ? interval() : kAskedInterval) - Steady::now();
    if (left <= std::chrono::nanoseconds(0)) break;
    changed_.WaitFor(mutex_, left);
  }
  requests->swap(requests_);
  return !stopping_;
}

void UsageMeter::Answer(const Request& request) {
  if (store_ == nullptr) {
    request.done(Error(reason::kPathUnusable, "there is no record of usage"));
  } else {
    absl::StatusOr<std::vector<PrincipalUsage>> found = store_->Find(request.query);
    if (found.ok()) AddPending(request.query, &*found);
    request.done(std::move(found));
  }
}

void UsageMeter::AddPending(const UsageStore::Query& query,
                            std::vector<PrincipalUsage>* found) const {
  if (pending_.empty()) return;
  std::map<std::string, PrincipalUsage> all;
  for (PrincipalUsage& usage : *found) all.emplace(usage.principal, std::move(usage));
  const int64_t first = UsageStore::HourOf(query.begin);
  const int64_t last = UsageStore::HourOf(query.end);
  for (const auto& [key, amount] : pending_) {
    const auto& [hour, principal] = key;
    const bool wanted =
        query.principal.empty() ? principal > query.after : principal == query.principal;
    if (hour < first || hour > last || !wanted) continue;
    PrincipalUsage& usage = all[principal];
    usage.principal = principal;
    usage.core_seconds += static_cast<double>(amount.core_ns) / 1e9;
    usage.memory_byte_seconds += static_cast<double>(amount.memory_byte_seconds);
    usage.runs += amount.runs;
  }
  found->clear();
  for (auto& [principal, usage] : all) {
    // What is behind a full page is on the next one.
    if (found->size() == query.limit) break;
    found->push_back(std::move(usage));
  }
}

void UsageMeter::Run() {
  bool go_on = true;
  while (go_on) {
    std::vector<Request> requests;
    go_on = Await(&requests);
    Collect();
    for (const Request& request : requests) {
      // Answers may take long together.
      if (Steady::now() >= collected_ + interval()) Collect();
      Answer(request);
    }
  }
}

}  // namespace pto::daemon
