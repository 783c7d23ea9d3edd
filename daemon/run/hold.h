#pragma once

#include <memory>
#include <utility>

namespace pto::daemon {

// Keeps a session from expiring. The handler of a call that can take long has one from the moment
// it knows the session until the call has been answered or its client is gone. When the last
// one goes, the lease begins again with its full time to live. Does not keep DeleteSession from
// ending the session. May be empty, and can be moved. For one thread at a time.
//
// `Held` is Session, or RunOwner for those who know no more of it.
template <typename Held>
class Hold {
 public:
  Hold() = default;
  // Of no session when that is nullptr.
  explicit Hold(std::shared_ptr<Held> session) : session_(std::move(session)) {
    if (session_ != nullptr) session_->AddHold();
  }
  Hold(Hold&& other) noexcept : session_(std::move(other.session_)) {}
  Hold& operator=(Hold&& other) noexcept {
    if (this == &other) return *this;
    Drop();
    session_ = std::move(other.session_);
    return *this;
  }
  ~Hold() { Drop(); }

  void Drop() {
    if (session_ != nullptr) std::exchange(session_, nullptr)->DropHold();
  }

  const std::shared_ptr<Held>& session() const { return session_; }
  Held* operator->() const { return session_.get(); }

 private:
  std::shared_ptr<Held> session_;
};

}  // namespace pto::daemon
