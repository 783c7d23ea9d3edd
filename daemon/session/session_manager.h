#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "daemon/model/limits.h"
#include "daemon/names/digest.h"
#include "daemon/session/session.h"
#include "runtime/base/clock.h"
#include "runtime/base/mutex.h"
#include "runtime/base/timer.h"

namespace pto::daemon {

// All sessions of the node. Ends those whose lease runs out. Thread-safe.
class SessionManager {
 public:
  struct Options {
    const Limits* limits = nullptr;
    SessionTimes times;
    engine::Engine* engine = nullptr;
    // For leases.
    TimerQueue* timers = nullptr;
    // For work that may take a while.
    TimerQueue* background = nullptr;
    const Clock* clock = nullptr;
    // To tell of sessions and runs; nullptr when nothing is to be remembered.
    Journal* journal = nullptr;
    // What former boots have left; nullptr when that is nothing.
    const FormerRuns* former = nullptr;
    // Told of runs that have failed; nullptr when nobody wants to know.
    FailedRuns* failed = nullptr;
    // As in Session::Options.
    const DrainGate* gate = nullptr;
    // Told when sessions end; nullptr when there are no leases of chips.
    ChipLeases* leases = nullptr;
  };

  struct Request {
    std::string id;
    Labels labels;
    absl::Duration ttl;  // 0 means the default
    uint32_t weight = 1;
    std::string attach_key;
    uint32_t api_version = 1;
    Digest digest;
    std::string client;  // whose quota it counts against
    std::string lease;   // id of the session whose leased chips it may use
  };

  explicit SessionManager(Options options) : options_(options), clients_(*options.limits) {}
  // Ends all sessions.
  ~SessionManager() { EndAll("the daemon stops"); }
  SessionManager(const SessionManager&) = delete;
  SessionManager& operator=(const SessionManager&) = delete;

  // The same id and digest return the session that exists. Errors: ID_CONFLICT, SESSION_ENDED,
  // SESSION_LIMIT, QUOTA_SESSIONS, QUOTA_EVENT_LOG, JOURNAL_UNWRITABLE.
  absl::StatusOr<std::shared_ptr<Session>> Create(Request request);

  // Errors: SESSION_UNKNOWN, SESSION_ENDED.
  absl::StatusOr<std::shared_ptr<Session>> Find(absl::string_view id) const;
  // The same, and extends the lease.
  absl::StatusOr<std::shared_ptr<Session>> Use(absl::string_view id) const;

  // In order of id, after `after`.
  std::vector<std::shared_ptr<Session>> List(absl::string_view after, size_t limit) const;

  // Returns the session that was ended; nullptr when it had ended before. Error:
  // SESSION_UNKNOWN.
  absl::StatusOr<std::shared_ptr<Session>> Delete(absl::string_view id, absl::string_view why);
  void EndAll(absl::string_view why);

  // Whether runs use the chip of sessions other than the holder and those that may use its lease.
  bool UsedByOthers(uint32_t chip, const std::string& holder) const;

  size_t size() const;
  // Runs of all sessions that are queued or running, also open ones that wait for their clients.
  // After the gate was closed none is missing, and none is added.
  uint64_t CountActiveRuns() const;
  // Since the daemon began: sessions that were created, and those whose lease ran out.
  uint64_t created() const { return created_.load(std::memory_order_relaxed); }
  uint64_t expired() const { return expired_.load(std::memory_order_relaxed); }

 private:
  // How a session ended, for those who still ask for it.
  struct Ended {
    std::string why;
    absl::Time time;
  };

  // Whether it has ended, in this boot or in a former one.
  bool HasEnded(absl::string_view id) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status NotHere(absl::string_view id) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ScheduleExpiry(const std::shared_ptr<Session>& session);
  void CheckExpiry(const std::shared_ptr<Session>& session);
  // Gives freed memory back to the machine soon.
  void ScheduleTrim();
  void Remember(const std::string& id, absl::string_view why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Options options_;
  ClientQuotas clients_;
  std::atomic<bool> trim_scheduled_{false};
  std::atomic<uint64_t> created_{0};
  std::atomic<uint64_t> expired_{0};
  mutable Mutex mutex_;
  std::map<std::string, std::shared_ptr<Session>, std::less<>> sessions_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<std::string, Ended> ended_ ABSL_GUARDED_BY(mutex_);
  std::deque<std::string> ended_order_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace pto::daemon
