#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "daemon/auth/principal.h"
#include "daemon/journal/run_ids.h"
#include "daemon/model/limits.h"
#include "daemon/names/digest.h"
#include "daemon/session/session.h"
#include "daemon/usage/usage_meter.h"
#include "runtime/base/clock.h"
#include "runtime/base/mutex.h"
#include "runtime/base/timer.h"

namespace pto::daemon {

// All sessions of the node. Ends those whose lease runs out. Thread-safe.
//
// Whoever asks for a session says who they are. A session that the caller may not even look at is
// reported exactly as one that does not exist, and so is one that has ended. What the caller may
// see, but not change, is PERMISSION_DENIED.
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
    // How many ids of runs are remembered when their sessions do not, and for how long.
    RunIds::Options run_ids;
    // What former boots have left; nullptr when that is nothing.
    const FormerRuns* former = nullptr;
    // Told of runs that have failed; nullptr when nobody wants to know.
    FailedRuns* failed = nullptr;
    // As in Session::Options.
    const DrainGate* gate = nullptr;
    // For how long since `since_ns` clients could not renew their leases, as of `now_ns`, when a
    // timer that was due at `due_ns` runs. Empty: they always can.
    std::function<int64_t(int64_t since_ns, int64_t due_ns, int64_t now_ns)> not_served;
    // Told when sessions end; nullptr when there are no leases of chips.
    ChipLeases* leases = nullptr;
    // As in Session::Options.
    const engine::GraphTarget* target = nullptr;
    KernelHosts* hosts = nullptr;
    // Has the counters of what principals use; nullptr when nobody counts.
    UsageMeter* usage = nullptr;
  };

  struct Request {
    std::string id;
    Labels labels;
    absl::Duration ttl;  // 0 means the default
    uint32_t weight = 1;
    std::string attach_key;
    uint32_t api_version = 1;
    Digest digest;
    std::string client;  // a label
    std::string lease;   // id of the session whose leased chips it may use
  };

  explicit SessionManager(Options options)
      : options_(options), clients_(*options.limits), run_ids_(options.run_ids) {}
  // Ends all sessions.
  ~SessionManager() { EndAll("the daemon stops"); }
  SessionManager(const SessionManager&) = delete;
  SessionManager& operator=(const SessionManager&) = delete;

  // The session belongs to `owner`. The same id and digest return the owner's session that exists.
  // An id that somebody else has or had is SESSION_ID_USED, like one that the owner had. Errors:
  // ID_CONFLICT, SESSION_ID_USED, SESSION_LIMIT, QUOTA_SESSIONS, QUOTA_EVENT_LOG,
  // JOURNAL_UNWRITABLE.
  absl::StatusOr<std::shared_ptr<Session>> Create(const auth::Principal& owner, Request request);

  // Errors: SESSION_UNKNOWN, SESSION_ENDED, PERMISSION_DENIED.
  absl::StatusOr<std::shared_ptr<Session>> Find(const auth::Principal& caller, absl::string_view id,
                                                auth::Right right = auth::Right::kUse) const;
  // The same, and extends the lease if the caller owns the session.
  absl::StatusOr<std::shared_ptr<Session>> Use(const auth::Principal& caller, absl::string_view id,
                                               auth::Right right = auth::Right::kUse) const;

  // Those that the caller may look at, in order of id, after `after`.
  std::vector<std::shared_ptr<Session>> List(const auth::Principal& caller, absl::string_view after,
                                             size_t limit) const;

  // Returns the session that was ended; nullptr when it had ended before. Errors: SESSION_UNKNOWN,
  // PERMISSION_DENIED.
  absl::StatusOr<std::shared_ptr<Session>> Delete(const auth::Principal& caller,
                                                  absl::string_view id, absl::string_view why);
  void EndAll(absl::string_view why);

  // Whether runs use the chip of sessions other than the holder and those of its owner that may use
  // its lease.
  bool UsedByOthers(uint32_t chip, const std::string& holder) const;

  // Ids of runs that no session knows any more, and that must not be used again.
  RunIds& run_ids() { return run_ids_; }

  size_t size() const;
  // Runs of all sessions that are queued or running, also open ones that wait for their clients.
  // After the gate was closed none is missing, and none is added.
  uint64_t CountActiveRuns() const;
  // What clients hold of the machine's memory.
  MemoryBudget& memory() const { return *clients_.memory(); }
  // Since the daemon began: sessions that were created, and those whose lease ran out.
  uint64_t created() const { return created_.load(std::memory_order_relaxed); }
  uint64_t expired() const { return expired_.load(std::memory_order_relaxed); }

 private:
  using SessionMap = std::map<std::string, std::shared_ptr<Session>, std::less<>>;

  // How a session ended, for those who still ask for it.
  struct Ended {
    std::string why;
    absl::Time time;
    std::string owner;
  };

  // Whether it has ended, in this boot or in a former one, and the caller may know.
  bool HasEnded(const auth::Principal& caller, absl::string_view id) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status NotHere(const auth::Principal& caller, absl::string_view id) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckRight(const auth::Principal& caller, const Session& session,
                          auth::Right right) const;
  // That there is room for one more session of this owner: some are kept for operators.
  absl::Status CheckRoom(const auth::Principal& owner) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckId(const auth::Principal& owner, const std::string& id) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<std::shared_ptr<Session>> FindLocked(const auth::Principal& caller,
                                                      absl::string_view id, auth::Right right) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // From now on it is one that has ended. Afterwards, without the lock, End must be called.
  std::shared_ptr<Session> Remove(SessionMap::iterator it, absl::string_view why)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void End(Session& session, absl::string_view why);
  // When its lease ends, which a timer that was due at `due_ns` looks at now.
  int64_t ExpireNs(const Session& session, int64_t due_ns, int64_t now_ns) const;
  void ScheduleExpiry(const std::shared_ptr<Session>& session, int64_t due_ns);
  void CheckExpiry(const std::shared_ptr<Session>& session, int64_t due_ns);
  // Gives freed memory back to the machine soon.
  void ScheduleTrim();
  void Remember(const Session& session, absl::string_view why)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Options options_;
  ClientQuotas clients_;
  RunIds run_ids_;
  std::atomic<bool> trim_scheduled_{false};
  std::atomic<uint64_t> created_{0};
  std::atomic<uint64_t> expired_{0};
  mutable Mutex mutex_;
  SessionMap sessions_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<std::string, Ended> ended_ ABSL_GUARDED_BY(mutex_);
  std::deque<std::string> ended_order_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace pto::daemon
