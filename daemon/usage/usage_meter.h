#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/usage/usage_counter.h"
#include "daemon/usage/usage_store.h"
#include "runtime/base/clock.h"
#include "runtime/base/mutex.h"

namespace pto::daemon {

// What each principal uses: counters, and a thread that adds them to the store every `interval`. So
// when the daemon is killed, the core time and memory of the last interval are missing; runs are
// not, if the journal knows them. Thread-safe.
class UsageMeter {
 public:
  using RunCounts = UsageStore::RunCounts;
  struct Options {
    // As UsageStore::Open. What cannot be used is reported in the log, and memory is used instead.
    std::string path;
    absl::Duration interval = absl::Seconds(1);
    const Clock* clock = &Clock::Real();
    // Counts what is being used, up to now: Engine::SettleCoreTime. Called by the thread.
    std::function<void()> settle;
    // Of this boot.
    std::string boot_id;
    // How many runs the journal has of each principal that the boot before has accepted: that may
    // not have added them all. Empty: none.
    std::function<RunCounts(const UsageStore::Boot& boot)> accepted_by;
  };
  using Done = std::function<void(absl::StatusOr<std::vector<PrincipalUsage>>)>;

  explicit UsageMeter(Options options);
  ~UsageMeter() { Stop(); }
  UsageMeter(const UsageMeter&) = delete;
  UsageMeter& operator=(const UsageMeter&) = delete;

  // The counter of a principal: one at a time.
  std::shared_ptr<UsageCounter> Of(const std::string& principal);
  // Calls `done` on the thread, with what was used until then, recorded or not. After Stop it is an
  // error at once: NODE_DRAINING.
  void Find(UsageStore::Query query, Done done);
  // Adds what was used until now a last time and ends the thread.
  void Stop();

  // Whether usage is lost when the daemon ends: the last attempt to add it to the store has failed,
  // or the file that should have it cannot be used.
  bool failing() const { return failing_.load(std::memory_order_relaxed) || in_memory_; }

 private:
  using Steady = std::chrono::steady_clock;
  struct Request {
    UsageStore::Query query;
    Done done;
  };

  void Run();
  // Waits until it is time to collect, and takes the requests. Returns false when it was the last
  // time.
  bool Await(std::vector<Request>* requests);
  void Answer(const Request& request);
  // Adds what is not in the store yet to an answer of it.
  void AddPending(const UsageStore::Query& query, std::vector<PrincipalUsage>* found) const;
  std::chrono::nanoseconds interval() const { return absl::ToChronoNanoseconds(options_.interval); }
  void OpenStore();
  // Has a boot begin, with what the boot before has not added.
  absl::Status BeginBoot(UsageStore& store) const;
  // Adds what the counters have to `pending_` and that to the store.
  void Collect();
  void CollectCounters();
  // By the time between its ends, which becomes exact with it.
  double NsPerTick() const;

  const Options options_;
  const int64_t start_ns_;  // of the real clock, as ticks are
  const uint64_t start_ticks_;
  std::unique_ptr<UsageStore> store_;  // of the thread, once it runs
  UsageStore::Amounts pending_;        // of the thread: what is not in the store yet
  Steady::time_point collected_;       // of the thread: when it has collected last
  std::atomic<bool> failing_{false};
  bool in_memory_ = false;  // although there is a path; not changed any more

  Mutex mutex_;
  CondVar changed_;
  absl::flat_hash_map<std::string, std::shared_ptr<UsageCounter>> counters_ ABSL_GUARDED_BY(mutex_);
  std::vector<Request> requests_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;

  std::thread thread_;  // last, so that it begins when all is there
};

}  // namespace pto::daemon
