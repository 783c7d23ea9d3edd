#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/internal/deadline.h"
#include "client/internal/session_state.h"
#include "grpcpp/client_context.h"
#include "pto/v1/session.grpc.pb.h"
#include "runtime/base/mutex.h"

namespace pto::internal {

// Renews the sessions of one client at a third of their time to live, on a thread of its own
// that starts with the first session. Owned by Core. Thread-safe.
class Renewer {
 public:
  // Decides what a failed renewal means, and marks the session as lost when it is.
  using Examine = std::function<void(SessionState& session, const grpc::Status& error)>;

  Renewer(v1::SessionService::Stub& stub, Examine examine);
  // Gives up a renewal that is under way; does not wait for the daemon.
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
  absl::Duration Renew(SessionState& session, absl::Duration& ttl);

  v1::SessionService::Stub& stub_;
  const Examine examine_;
  Mutex mutex_;
  CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  // The renewal under way, to be cancelled.
  grpc::ClientContext* context_ ABSL_GUARDED_BY(mutex_) = nullptr;
  std::vector<Lease> leases_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace pto::internal
