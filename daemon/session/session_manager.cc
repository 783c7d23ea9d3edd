#include "daemon/session/session_manager.h"

#include <malloc.h>

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "daemon/journal/journal.h"
#include "daemon/names/names.h"
#include "runtime/base/error.h"
#include "runtime/base/log.h"
#include "runtime/base/status_macros.h"

namespace pto::daemon {
namespace {

// How many ended sessions are remembered. The id of one that is not can be used again, but not the
// ids of its runs.
constexpr size_t kMaxEnded = 10'000;

// Of this many sessions one is kept for operators, who can then see what takes all the others.
constexpr uint64_t kPerReserved = 16;

// What ended sessions leave behind in the allocator goes back to the machine after this time,
// together for all that end meanwhile.
constexpr absl::Duration kTrimDelay = absl::Seconds(1);

absl::Status SessionUnknown(absl::string_view id) {
  return Error(reason::kSessionUnknown, absl::StrCat("there is no session '", id, "'"))
      .With("session", id);
}

// The same for an id that the caller has used and for one that somebody else has: which of them it
// is would say what others do.
absl::Status SessionIdUsed(absl::string_view id) {
  return Error(reason::kSessionIdUsed, absl::StrCat("the id '", id, "' was used already"))
      .At("session_id")
      .With("session", id);
}

}  // namespace

absl::Status SessionManager::CheckRight(const auth::Principal& caller, const Session& session,
                                        auth::Right right) const {
  if (auth::May(caller, session.owner(), right)) return absl::OkStatus();
  if (!auth::May(caller, session.owner(), auth::Right::kLook)) return SessionUnknown(session.id());
  return Error(reason::kPermissionDenied,
               absl::StrCat(session.name(), " belongs to ", session.owner(), ", and ", caller.name,
                            caller.rights.operates ? " may only look at it, cancel and delete"
                                                   : " may only look at it"))
      .With("session", session.name())
      .With("owner", session.owner())
      .With("principal", caller.name);
}

absl::Status SessionManager::CheckId(const auth::Principal& owner, const std::string& id) const {
  if (ended_.contains(id)) return SessionIdUsed(id);
  if (options_.former == nullptr) return absl::OkStatus();
  // The session of a former boot would give its runs to the new owner.
  const std::shared_ptr<const FormerSession> former = options_.former->FindAny(id);
  if (former == nullptr || auth::May(owner, former->owner(), auth::Right::kUse)) {
    return absl::OkStatus();
  }
  return SessionIdUsed(id);
}

absl::Status SessionManager::CheckRoom(const auth::Principal& owner) const {
  const uint64_t all = options_.limits->max_sessions;
  const uint64_t limit = owner.rights.operates ? all : all - all / kPerReserved;
  if (sessions_.size() < limit) return absl::OkStatus();
  return Error(reason::kSessionLimit, absl::StrCat("the node has at most ", limit, " sessions",
                                                   limit == all ? "" : " of others than operators"))
      .Limit("max_sessions", limit, sessions_.size(), 1);
}

absl::StatusOr<std::shared_ptr<Session>> SessionManager::Create(const auth::Principal& owner,
                                                                Request request) {
  std::shared_ptr<Session> session;
  {
    MutexLock lock(mutex_);
    auto it = sessions_.find(request.id);
    if (it != sessions_.end()) {
      if (it->second->owner() != owner.name) return SessionIdUsed(request.id);
      if (it->second->options().digest == request.digest) {
        // Its client may have waited long for the first answer.
        it->second->Touch();
        return it->second;
      }
      return Error(reason::kIdConflict,
                   absl::StrCat("session '", request.id, "' exists with other contents"))
          .At("session_id")
          .With("session", request.id);
    }
    PTO_RETURN_IF_ERROR(CheckId(owner, request.id));
    PTO_RETURN_IF_ERROR(CheckRoom(owner));
    Session::Options options;
    options.id = request.id;
    options.labels = std::move(request.labels);
    options.digest = request.digest;
    options.api_version = request.api_version;
    options.ttl = request.ttl == absl::ZeroDuration()
                      ? options_.times.default_ttl
                      : std::clamp(request.ttl, options_.times.min_ttl, options_.times.max_ttl);
    options.weight = request.weight;
    options.attach_key = std::move(request.attach_key);
    options.limits = options_.limits;
    options.engine = options_.engine;
    options.timers = options_.timers;
    options.clock = options_.clock;
    options.run_ids = &run_ids_;
    options.failed = options_.failed;
    options.gate = options_.gate;
    options.owner = owner.name;
    options.client = request.client;
    options.leases = options_.leases;
    options.lease = request.lease;
    options.target = options_.target;
    options.hosts = options_.hosts;
    if (options_.usage != nullptr) options.usage = options_.usage->Of(owner.name);
    PTO_ASSIGN_OR_RETURN(options.quota, clients_.OpenSession(owner, request.id, options.usage));
    if (options_.former != nullptr) options.former = options_.former->FindAny(request.id);
    if (options_.journal != nullptr) {
      PTO_RETURN_IF_ERROR(options_.journal->AddSession(request.id, owner.name));
      options.journal = options_.journal;
    }
    session = std::make_shared<Session>(std::move(options));
    clients_.memory()->AddHolder(session->memory().get(), session);
    sessions_.emplace(session->id(), session);
  }
  created_.fetch_add(1, std::memory_order_relaxed);
  ScheduleExpiry(session, session->expire_ns());
  PTO_LOG(kInfo, "session created",
          {{"session", session->id()},
           {"owner", session->owner()},
           {"ttl", absl::FormatDuration(session->options().ttl)}});
  return session;
}

bool SessionManager::HasEnded(const auth::Principal& caller, absl::string_view id) const {
  const auto it = ended_.find(std::string(id));
  if (it != ended_.end()) return auth::May(caller, it->second.owner, auth::Right::kEnd);
  return options_.former != nullptr && options_.former->Find(caller, id) != nullptr;
}

absl::Status SessionManager::NotHere(const auth::Principal& caller, absl::string_view id) const {
  const auto it = ended_.find(std::string(id));
  if (it == ended_.end()) {
    if (options_.former != nullptr) {
      if (const std::shared_ptr<const FormerSession> former = options_.former->Find(caller, id)) {
        return Error(reason::kSessionEnded,
                     absl::StrCat("session '", id, "' ended: the daemon was restarted"))
            .With("session", id)
            .With("why", "the daemon was restarted")
            .With("boot_id", former->boot_id())
            .Hint("its runs can still be read by their names; for new ones create a session");
      }
    }
    return SessionUnknown(id);
  }
  if (!auth::May(caller, it->second.owner, auth::Right::kLook)) return SessionUnknown(id);
  return Error(reason::kSessionEnded,
               absl::StrCat("session '", id, "' ended at ", absl::FormatTime(it->second.time), ": ",
                            it->second.why))
      .With("session", id)
      .With("why", it->second.why);
}

absl::StatusOr<std::shared_ptr<Session>> SessionManager::Find(const auth::Principal& caller,
                                                              absl::string_view id,
                                                              auth::Right right) const {
  MutexLock lock(mutex_);
  return FindLocked(caller, id, right);
}

absl::StatusOr<std::shared_ptr<Session>> SessionManager::FindLocked(const auth::Principal& caller,
                                                                    absl::string_view id,
                                                                    auth::Right right) const {
  auto it = sessions_.find(std::string(id));
  if (it == sessions_.end()) return NotHere(caller, id);
  PTO_RETURN_IF_ERROR(CheckRight(caller, *it->second, right));
  return it->second;
}

absl::StatusOr<std::shared_ptr<Session>> SessionManager::Use(const auth::Principal& caller,
                                                             absl::string_view id,
                                                             auth::Right right) const {
  // In one step: a session that was found does not expire before it is touched.
  MutexLock lock(mutex_);
  absl::StatusOr<std::shared_ptr<Session>> session = FindLocked(caller, id, right);
  if (session.ok() && (*session)->owner() == caller.name) (*session)->Touch();
  return session;
}

std::vector<std::shared_ptr<Session>> SessionManager::List(const auth::Principal& caller,
                                                           absl::string_view after,
                                                           size_t limit) const {
  MutexLock lock(mutex_);
  std::vector<std::shared_ptr<Session>> result;
  for (auto it = sessions_.upper_bound(std::string(after));
       it != sessions_.end() && result.size() < limit; ++it) {
    if (auth::May(caller, it->second->owner(), auth::Right::kLook)) result.push_back(it->second);
  }
  return result;
}

absl::StatusOr<std::shared_ptr<Session>> SessionManager::Delete(const auth::Principal& caller,
                                                                absl::string_view id,
                                                                absl::string_view why) {
  std::shared_ptr<Session> session;
  {
    MutexLock lock(mutex_);
    auto it = sessions_.find(std::string(id));
    if (it == sessions_.end()) {
      if (HasEnded(caller, id)) return nullptr;
      return NotHere(caller, id);
    }
    PTO_RETURN_IF_ERROR(CheckRight(caller, *it->second, auth::Right::kEnd));
    session = Remove(it, why);
  }
  End(*session, why);
  return session;
}

std::shared_ptr<Session> SessionManager::Remove(SessionMap::iterator it, absl::string_view why) {
  std::shared_ptr<Session> session = std::move(it->second);
  sessions_.erase(it);
  Remember(*session, why);
  return session;
}

void SessionManager::End(Session& session, absl::string_view why) {
  const Session::Usage usage = session.usage();
  session.End(why);
  if (options_.leases != nullptr) options_.leases->Release(session.id());
  if (options_.journal != nullptr) options_.journal->EndSession(session.id());
  PTO_LOG(kInfo, "session ended",
          {{"session", session.id()},
           {"owner", session.owner()},
           {"client", session.options().client},
           {"why", why},
           {"buffers", usage.buffers},
           {"windows", usage.windows},
           {"device_bytes", usage.device_bytes},
           {"cancelled_runs", usage.active_runs}});
  ScheduleTrim();
}

void SessionManager::ScheduleTrim() {
  if (trim_scheduled_.exchange(true, std::memory_order_acq_rel)) return;
  options_.background->Schedule(options_.clock->NowNanos() + absl::ToInt64Nanoseconds(kTrimDelay),
                                [this] {
                                  trim_scheduled_.store(false, std::memory_order_release);
                                  malloc_trim(0);
                                });
}

void SessionManager::EndAll(absl::string_view why) {
  for (const std::shared_ptr<Session>& session : List(auth::Daemon(), "", size_t(-1))) {
    Delete(auth::Daemon(), session->id(), why).IgnoreError();
  }
}

bool SessionManager::UsedByOthers(uint32_t chip, const std::string& holder) const {
  absl::flat_hash_set<std::string> own = {names::Session(holder)};
  const absl::StatusOr<std::shared_ptr<Session>> holding =
      Find(auth::Daemon(), holder, auth::Right::kLook);
  for (const std::shared_ptr<Session>& session : List(auth::Daemon(), "", size_t(-1))) {
    if (session->options().lease != holder) continue;
    // Somebody else's session gains nothing by naming the lease.
    if (holding.ok() && session->owner() == (*holding)->owner()) own.insert(session->name());
  }
  return options_.engine->CountIf([&](const engine::Run& run) {
    const absl::Span<const uint32_t> chips = run.image().chips();
    return std::binary_search(chips.begin(), chips.end(), chip) &&
           (run.account() == nullptr || !own.contains(run.account()->name()));
  }) > 0;
}

size_t SessionManager::size() const {
  MutexLock lock(mutex_);
  return sessions_.size();
}

uint64_t SessionManager::CountActiveRuns() const {
  uint64_t count = 0;
  for (const std::shared_ptr<Session>& session : List(auth::Daemon(), "", size_t(-1))) {
    count += session->CountActiveRuns();
  }
  return count;
}

void SessionManager::ScheduleExpiry(const std::shared_ptr<Session>& session, int64_t due_ns) {
  options_.timers->Schedule(due_ns, [this, weak = std::weak_ptr<Session>(session), due_ns] {
    if (const std::shared_ptr<Session> due = weak.lock()) CheckExpiry(due, due_ns);
  });
}

int64_t SessionManager::ExpireNs(const Session& session, int64_t due_ns, int64_t now_ns) const {
  const int64_t expires = session.expire_ns();
  if (expires > now_ns || !options_.not_served) return expires;
  // What the client could not use of its lease is added to it.
  const int64_t lease = absl::ToInt64Nanoseconds(session.options().ttl);
  return expires + options_.not_served(expires - lease, due_ns, now_ns);
}

void SessionManager::CheckExpiry(const std::shared_ptr<Session>& session, int64_t due_ns) {
  constexpr absl::string_view kWhy = "its lease expired";
  const int64_t now = options_.clock->NowNanos();
  int64_t expires = 0;
  {
    // With the lock that Use takes: a call finds the session and extends its lease before this, or
    // does not find it.
    MutexLock lock(mutex_);
    const auto it = sessions_.find(session->id());
    if (it == sessions_.end() || it->second != session) return;
    expires = ExpireNs(*session, due_ns, now);
    if (expires <= now) Remove(it, kWhy);
  }
  if (expires > now) {
    ScheduleExpiry(session, expires);
    return;
  }
  expired_.fetch_add(1, std::memory_order_relaxed);
  End(*session, kWhy);
}

void SessionManager::Remember(const Session& session, absl::string_view why) {
  ended_[session.id()] = {std::string(why), options_.clock->WallTime(), session.owner()};
  ended_order_.push_back(session.id());
  if (ended_order_.size() > kMaxEnded) {
    ended_.erase(ended_order_.front());
    ended_order_.pop_front();
  }
}

}  // namespace pto::daemon
