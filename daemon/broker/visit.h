#pragma once

#include <cstdint>
#include <memory>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "daemon/auth/principal.h"
#include "daemon/session/session_manager.h"
#include "proto/broker/message.h"

namespace pto::daemon {

// A session's buffer that a client wants to map or has mapped. Keeps neither the session nor the
// buffer alive: deleting works even while clients have it mapped.
struct MappedBuffer {
  std::weak_ptr<Session> session;
  std::weak_ptr<SessionBuffer> buffer;
};

// One client's connection to the broker, without its socket: the session that it has proved to own,
// and its mapped buffers. For one thread.
class Visit {
 public:
  // The maximum number of mapped buffers of one client.
  static constexpr size_t kMaxRegions = 16'384;

  // `user` is the client's user id, from the kernel. Rights do not matter: only its own sessions
  // do.
  Visit(SessionManager& sessions, uint32_t user)
      : sessions_(sessions), user_(auth::UidName(user), auth::Rights()) {}

  bool attached() const { return attached_; }
  // Whether the attached session has ended.
  bool over() const;
  // Whether both are attached to the same session object, not just to the same id.
  bool IsOfSameSession(const Visit& other) const {
    return attached_ && other.attached_ && !session_.owner_before(other.session_) &&
           !other.session_.owner_before(session_);
  }

  // Attaching twice is denied.
  broker::Outcome Attach(const broker::Request& request);
  // Finds the buffer to map.
  broker::Outcome Find(const broker::Request& request, MappedBuffer* found) const;
  // Records that the buffer is mapped. `region` must be new.
  void Add(uint64_t region, MappedBuffer mapped) { regions_.emplace(region, std::move(mapped)); }
  // Whether the region may be used now. Extends the session's lease.
  broker::Outcome Check(uint64_t region) const;
  broker::Outcome Release(uint64_t region);

 private:
  SessionManager& sessions_;
  const auth::Principal user_;
  bool attached_ = false;
  std::weak_ptr<Session> session_;
  absl::flat_hash_map<uint64_t, MappedBuffer> regions_;
};

// Converts a session's error to an outcome for the client.
broker::Outcome ToOutcome(const absl::Status& status);

}  // namespace pto::daemon
