#include "daemon/run/former_runs.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/journal/run_codec.h"
#include "daemon/names/names.h"
#include "runtime/base/error.h"

namespace pto::daemon {

FormerRun::FormerRun(Options&& options, engine::RunState state) : RunEntry(std::move(options)) {
  MutexLock lock(mutex_);
  MarkRecorded(state);
  MarkEnded();
}

FormerSession::FormerSession(std::string id, std::string boot_id, std::string owner)
    : id_(std::move(id)),
      boot_id_(std::move(boot_id)),
      owner_(std::move(owner)),
      name_(std::make_shared<const std::string>(names::Session(id_))) {}

void FormerSession::Add(const journal::v1::RunRecord& record) {
  RunEntry::Options options;
  options.record = FromJournal(record);
  options.record.session = name_;
  options.number = record.number();
  options.own_number = record.own_number();
  options.digest = DigestOfJournal(record);
  last_number_ = std::max(last_number_, record.number());
  last_own_number_ = std::max(last_own_number_, record.own_number());
  auto run = std::make_shared<FormerRun>(std::move(options),
                                         static_cast<engine::RunState>(record.state()));
  newest_first_.push_back(run);
  runs_[record.id()] = std::move(run);
}

void FormerSession::Sort() {
  std::sort(newest_first_.begin(), newest_first_.end(),
            [](const auto& left, const auto& right) { return left->number() > right->number(); });
}

std::shared_ptr<RunEntry> FormerSession::Find(absl::string_view run) const {
  const auto it = runs_.find(std::string(run));
  return it == runs_.end() ? nullptr : it->second;
}

absl::StatusOr<std::shared_ptr<RunEntry>> FormerSession::FindForStart(absl::string_view run,
                                                                      const Digest& digest) const {
  std::shared_ptr<RunEntry> found = Find(run);
  if (found == nullptr || found->digest() == digest) return found;
  if (const uint32_t version = found->digest().version; version != 0 && version != digest.version) {
    return Error(
               reason::kRunIdUsed,
               absl::StrCat("run '", run, "' was accepted by ",
                            version < digest.version ? "an earlier" : "a later",
                            " version of ptod; whether this request is the same cannot be checked"))
        .At("run_id")
        .With("run", run)
        .With("boot_id", boot_id_)
        .Hint("ask for the run by its name; to execute the request again, choose another id");
  }
  return Error(reason::kIdConflict, absl::StrCat("run '", run, "' exists with other contents"))
      .At("run_id")
      .With("run", run)
      .With("boot_id", boot_id_);
}

void FormerSession::List(uint64_t before, size_t limit,
                         std::vector<std::shared_ptr<RunEntry>>* runs) const {
  for (const std::shared_ptr<FormerRun>& run : newest_first_) {
    if (runs->size() >= limit) return;
    if (before == 0 || run->number() < before) runs->push_back(run);
  }
}

FormerRuns::FormerRuns(const JournalHistory& history) {
  absl::flat_hash_map<std::string, std::shared_ptr<FormerSession>> sessions;
  for (const journal::v1::SessionRecord& session : history.sessions) {
    sessions[session.id()] =
        std::make_shared<FormerSession>(session.id(), session.boot_id(), session.owner());
  }
  for (const journal::v1::RunRecord& run : history.runs) {
    const auto it = sessions.find(run.session());
    if (it != sessions.end()) it->second->Add(run);
  }
  for (auto& [id, session] : sessions) {
    session->Sort();
    sessions_.emplace(id, std::move(session));
  }
}

std::shared_ptr<const FormerSession> FormerRuns::FindAny(absl::string_view session) const {
  const auto it = sessions_.find(std::string(session));
  return it == sessions_.end() ? nullptr : it->second;
}

std::shared_ptr<const FormerSession> FormerRuns::Find(const auth::Principal& caller,
                                                      absl::string_view session,
                                                      auth::Right right) const {
  std::shared_ptr<const FormerSession> found = FindAny(session);
  if (found != nullptr && !auth::May(caller, found->owner(), right)) found.reset();
  return found;
}

absl::StatusOr<std::shared_ptr<RunEntry>> FormerRuns::FindForStart(const auth::Principal& caller,
                                                                   absl::string_view session,
                                                                   absl::string_view run,
                                                                   const Digest& digest) const {
  const std::shared_ptr<const FormerSession> found = Find(caller, session, auth::Right::kUse);
  if (found == nullptr) return nullptr;
  return found->FindForStart(run, digest);
}

std::shared_ptr<RunEntry> FormerRuns::FindRun(const auth::Principal& caller,
                                              absl::string_view session, absl::string_view run,
                                              auth::Right right) const {
  const std::shared_ptr<const FormerSession> found = Find(caller, session, right);
  return found == nullptr ? nullptr : found->Find(run);
}

}  // namespace pto::daemon
