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

// How many ended sessions are remembered.
constexpr size_t kMaxEnded = 10'000;

// What ended sessions leave behind in the allocator goes back to the machine after this time,
// together for all that end meanwhile.
constexpr absl::Duration kTrimDelay = absl::Seconds(1);

}  // namespace

absl::StatusOr<std::shared_ptr<Session>> SessionManager::Create(Request request) {
  std::shared_ptr<Session> session;
  {
    MutexLock lock(mutex_);
    auto it = sessions_.find(request.id);
    if (it != sessions_.end()) {
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
    if (ended_.contains(request.id)) {
      return Error(reason::kSessionIdUsed,
                   absl::StrCat("a session '", request.id, "' has been here already"))
          .At("session_id")
          .With("session", request.id);
    }
    if (sessions_.size() >= options_.limits->max_sessions) {
      return Error(reason::kSessionLimit, absl::StrCat("the node has at most ",
                                                       options_.limits->max_sessions, " sessions"))
          .Limit("max_sessions", options_.limits->max_sessions, sessions_.size(), 1);
    }
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
    options.failed = options_.failed;
    options.gate = options_.gate;
    options.client = request.client;
    options.leases = options_.leases;
    options.lease = request.lease;
    PTO_ASSIGN_OR_RETURN(options.quota, clients_.OpenSession(request.client, request.id));
    if (options_.former != nullptr) options.former = options_.former->Find(request.id);
    if (options_.journal != nullptr) {
      PTO_RETURN_IF_ERROR(options_.journal->AddSession(request.id));
      options.journal = options_.journal;
    }
    session = std::make_shared<Session>(std::move(options));
    sessions_.emplace(session->id(), session);
  }
  created_.fetch_add(1, std::memory_order_relaxed);
  ScheduleExpiry(session);
  PTO_LOG(kInfo, "session created",
          {{"session", session->id()}, {"ttl", absl::FormatDuration(session->options().ttl)}});
  return session;
}

bool SessionManager::HasEnded(absl::string_view id) const {
  return ended_.contains(std::string(id)) ||
         (options_.former != nullptr && options_.former->Find(id) != nullptr);
}

absl::Status SessionManager::NotHere(absl::string_view id) const {
  auto it = ended_.find(std::string(id));
  if (it == ended_.end()) {
    if (options_.former != nullptr) {
      if (const std::shared_ptr<const FormerSession> former = options_.former->Find(id)) {
        return Error(reason::kSessionEnded,
                     absl::StrCat("session '", id, "' ended: the daemon was restarted"))
            .With("session", id)
            .With("why", "the daemon was restarted")
            .With("boot_id", former->boot_id())
            .Hint("its runs can still be read by their names; for new ones create a session");
      }
    }
    return Error(reason::kSessionUnknown, absl::StrCat("there is no session '", id, "'"))
        .With("session", id);
  }
  return Error(reason::kSessionEnded,
               absl::StrCat("session '", id, "' ended at ", absl::FormatTime(it->second.time), ": ",
                            it->second.why))
      .With("session", id)
      .With("why", it->second.why);
}

absl::StatusOr<std::shared_ptr<Session>> SessionManager::Find(absl::string_view id) const {
  MutexLock lock(mutex_);
  auto it = sessions_.find(std::string(id));
  if (it == sessions_.end()) return NotHere(id);
  return it->second;
}

absl::StatusOr<std::shared_ptr<Session>> SessionManager::Use(absl::string_view id) const {
  absl::StatusOr<std::shared_ptr<Session>> session = Find(id);
  if (session.ok()) (*session)->Touch();
  return session;
}

std::vector<std::shared_ptr<Session>> SessionManager::List(absl::string_view after,
                                                           size_t limit) const {
  MutexLock lock(mutex_);
  std::vector<std::shared_ptr<Session>> result;
  for (auto it = sessions_.upper_bound(std::string(after));
       it != sessions_.end() && result.size() < limit; ++it) {
    result.push_back(it->second);
  }
  return result;
}

absl::StatusOr<std::shared_ptr<Session>> SessionManager::Delete(absl::string_view id,
                                                                absl::string_view why) {
  std::shared_ptr<Session> session;
  {
    MutexLock lock(mutex_);
    auto it = sessions_.find(std::string(id));
    if (it == sessions_.end()) {
      if (HasEnded(id)) return nullptr;
      return NotHere(id);
    }
    session = std::move(it->second);
    sessions_.erase(it);
    Remember(session->id(), why);
  }
  const Session::Usage usage = session->usage();
  session->End(why);
  if (options_.leases != nullptr) options_.leases->Release(session->id());
  if (options_.journal != nullptr) options_.journal->EndSession(session->id());
  PTO_LOG(kInfo, "session ended",
          {{"session", session->id()},
           {"client", session->options().client},
           {"why", why},
           {"buffers", usage.buffers},
           {"windows", usage.windows},
           {"device_bytes", usage.device_bytes},
           {"cancelled_runs", usage.active_runs}});
  ScheduleTrim();
  return session;
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
  for (const std::shared_ptr<Session>& session : List("", size_t(-1))) {
    Delete(session->id(), why).IgnoreError();
  }
}

bool SessionManager::UsedByOthers(uint32_t chip, const std::string& holder) const {
  absl::flat_hash_set<std::string> own = {names::Session(holder)};
  for (const std::shared_ptr<Session>& session : List("", size_t(-1))) {
    if (session->options().lease == holder) own.insert(session->name());
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
  for (const std::shared_ptr<Session>& session : List("", size_t(-1))) {
    count += session->CountActiveRuns();
  }
  return count;
}

void SessionManager::ScheduleExpiry(const std::shared_ptr<Session>& session) {
  options_.timers->Schedule(session->expire_ns(), [this, weak = std::weak_ptr<Session>(session)] {
    if (const std::shared_ptr<Session> due = weak.lock()) CheckExpiry(due);
  });
}

void SessionManager::CheckExpiry(const std::shared_ptr<Session>& session) {
  if (session->ended()) return;
  if (session->expire_ns() > options_.clock->NowNanos()) {
    ScheduleExpiry(session);
    return;
  }
  expired_.fetch_add(1, std::memory_order_relaxed);
  Delete(session->id(), "its lease expired").IgnoreError();
}

void SessionManager::Remember(const std::string& id, absl::string_view why) {
  ended_[id] = {std::string(why), options_.clock->WallTime()};
  ended_order_.push_back(id);
  if (ended_order_.size() > kMaxEnded) {
    ended_.erase(ended_order_.front());
    ended_order_.pop_front();
  }
}

}  // namespace pto::daemon
