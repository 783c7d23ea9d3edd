#pragma once

#include <memory>
#include <utility>

#include "daemon/core/session.h"

namespace pto {

// Keeps a session from expiring: whoever serves a call that names the session has one from the
// moment it knows the session until the call has been answered or its client is gone. When the last
// one goes, the lease begins again with its full time to live. Does not keep DeleteSession from
// ending the session. May be empty, and can be moved. For one thread at a time.
class SessionHold {
 public:
  SessionHold() = default;
  // Of no session when that is nullptr.
  explicit SessionHold(std::shared_ptr<Session> session) : session_(std::move(session)) {
    if (session_ != nullptr) session_->AddHold();
  }
  SessionHold(SessionHold&& other) noexcept : session_(std::move(other.session_)) {}
  SessionHold& operator=(SessionHold&& other) noexcept {
    if (this == &other) return *this;
    Drop();
    session_ = std::move(other.session_);
    return *this;
  }
  ~SessionHold() { Drop(); }

  void Drop() {
    if (session_ != nullptr) std::exchange(session_, nullptr)->DropHold();
  }

  const std::shared_ptr<Session>& session() const { return session_; }
  Session* operator->() const { return session_.get(); }

 private:
  std::shared_ptr<Session> session_;
};

}  // namespace pto
