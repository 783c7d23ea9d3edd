#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/internal/deadline.h"
#include "client/internal/session_state.h"
#include "pto/v1/session.pb.h"
#include "runtime/base/mutex.h"

namespace pto::internal {

// Renews the sessions of one client at a third of their time to live, on its own thread, which
// starts with the first session. Owned by Core. Thread-safe.
class Renewer {
 public:
  // Makes one renewal, and marks the session as lost if it is. Returns early if `stop` becomes
  // true.
  using Renew = std::function<absl::StatusOr<v1::Session>(
      SessionState& session, absl::Duration timeout, const std::atomic<bool>& stop)>;

  explicit Renewer(Renew renew) : renew_(std::move(renew)) {}
  // Abandons a pending renewal; does not wait for the daemon.
  ~Renewer();
  Renewer(const Renewer&) = delete;
  Renewer& operator=(const Renewer&) = delete;

  void Add(std::shared_ptr<SessionState> session);
  void Remove(const SessionState& session);

 private:
  struct Lease {
    std::shared_ptr<SessionState> session;
    absl::Duration ttl;
    Deadline next;
  };

  void Loop();
  // One renewal. Returns when the next one is due.
  absl::Duration RenewOnce(SessionState& session, absl::Duration& ttl);

  const Renew renew_;
  std::atomic<bool> stopping_{false};
  Mutex mutex_;
  CondVar changed_;
  std::vector<Lease> leases_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace pto::internal
