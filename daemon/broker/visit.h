#pragma once

#include <cstdint>
#include <memory>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "daemon/session/session_manager.h"
#include "proto/broker/message.h"

namespace pto {

// A session's buffer that a client wants to map or has mapped. It keeps neither of them: what is
// deleted goes, whoever has it mapped.
struct MappedBuffer {
  std::weak_ptr<Session> session;
  std::weak_ptr<SessionBuffer> buffer;
};

// One client's connection to the broker, without its socket: which session it has proved to own,
// and what it has mapped. For one thread.
class Visit {
 public:
  // Buffers that one client has mapped at once.
  static constexpr size_t kMaxRegions = 16'384;

  // `user` is the client's user id, from the kernel.
  Visit(SessionManager& sessions, uint32_t user) : sessions_(sessions), user_(user) {}

  bool attached() const { return attached_; }
  // Whether the session to which it was attached has ended.
  bool over() const;
  // Whether both were attached to one session, not only to sessions of the same id.
  bool IsOfSameSession(const Visit& other) const {
    return attached_ && other.attached_ && !session_.owner_before(other.session_) &&
           !other.session_.owner_before(session_);
  }

  // A second one is denied.
  broker::Outcome Attach(const broker::Request& request);
  // Finds the buffer to map.
  broker::Outcome Find(const broker::Request& request, MappedBuffer* found) const;
  // Notes that the buffer is mapped. `region` was never used before.
  void Add(uint64_t region, MappedBuffer mapped) { regions_.emplace(region, std::move(mapped)); }
  // Whether the region may be used now. Extends the session's lease.
  broker::Outcome Check(uint64_t region) const;
  broker::Outcome Release(uint64_t region);

 private:
  SessionManager& sessions_;
  const uint32_t user_;
  bool attached_ = false;
  std::weak_ptr<Session> session_;
  absl::flat_hash_map<uint64_t, MappedBuffer> regions_;
};

// What an error of a session means to a client of the broker.
broker::Outcome ToOutcome(const absl::Status& status);

}  // namespace pto
