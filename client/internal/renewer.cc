#include "client/internal/renewer.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/error.h"

namespace pto::internal {
namespace {

// For a daemon that does not report the length of its leases.
constexpr absl::Duration kUnknownTtl = absl::Seconds(30);

absl::Duration TtlOf(const v1::Session& session) {
  const absl::Duration ttl =
      absl::Seconds(session.ttl().seconds()) + absl::Nanoseconds(session.ttl().nanos());
  return ttl > absl::ZeroDuration() ? ttl : kUnknownTtl;
}

// After a failed renewal there is still time for several attempts before the lease ends.
absl::Duration RetryDelay(absl::Duration ttl) {
  return std::clamp(ttl / 10, absl::Milliseconds(20), absl::Seconds(1));
}

}  // namespace

Renewer::~Renewer() {
  std::thread thread;
  {
    MutexLock lock(mutex_);
    stopping_.store(true);
    thread = std::move(thread_);
    changed_.NotifyAll();
  }
  if (thread.joinable()) thread.join();
}

void Renewer::Add(std::shared_ptr<SessionState> session) {
  const absl::Duration ttl = TtlOf(session->info());
  MutexLock lock(mutex_);
  leases_.push_back({std::move(session), ttl, Deadline::After(ttl / 3)});
  if (!thread_.joinable()) thread_ = std::thread([this] { Loop(); });
  changed_.NotifyAll();
}

void Renewer::Remove(const SessionState& session) {
  MutexLock lock(mutex_);
  std::erase_if(leases_, [&](const Lease& lease) { return lease.session.get() == &session; });
}

void Renewer::Loop() {
  MutexLock lock(mutex_);
  while (!stopping_.load()) {
    auto lease = std::min_element(leases_.begin(), leases_.end(), [](const auto& a, const auto& b) {
      return a.next.Remaining() < b.next.Remaining();
    });
    if (lease == leases_.end()) {
      changed_.Wait(mutex_);
      continue;
    }
    if (!lease->next.Passed()) {
      changed_.WaitFor(mutex_, absl::ToChronoNanoseconds(lease->next.Remaining()));
      continue;
    }
    const std::shared_ptr<SessionState> session = lease->session;
    absl::Duration ttl = lease->ttl;
    mutex_.Unlock();
    const absl::Duration wait = RenewOnce(*session, ttl);
    mutex_.Lock();
    // The list may have changed meanwhile.
    lease = std::find_if(leases_.begin(), leases_.end(),
                         [&](const Lease& other) { return other.session == session; });
    if (lease == leases_.end()) continue;
    if (session->status().ok()) {
      lease->ttl = ttl;
      lease->next = Deadline::After(wait);
    } else {
      leases_.erase(lease);
    }
  }
}

absl::Duration Renewer::RenewOnce(SessionState& session, absl::Duration& ttl) {
  const absl::StatusOr<v1::Session> renewed = renew_(session, ttl / 3, stopping_);
  if (!renewed.ok()) return RetryDelay(ttl);
  ttl = TtlOf(*renewed);
  if (!renewed->boot_id().empty() && renewed->boot_id() != session.boot_id()) {
    session.Lose(Error(reason::kBootIdChanged,
                       absl::StrCat("the daemon was restarted; its session of the name ",
                                    session.name(), " is another one")));
  }
  return ttl / 3;
}

}  // namespace pto::internal
