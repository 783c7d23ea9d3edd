#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "daemon/auth/principal.h"
#include "daemon/journal/history.h"
#include "daemon/run/run_entry.h"
#include "runtime/engine/run/completions.h"

namespace pto::daemon {

// A run of a former boot, as the journal tells it: it has ended. Thread-safe.
class FormerRun final : public RunEntry {
 public:
  FormerRun(Options&& options, engine::RunState state);

  RunStatus Status() const override { return FinalStatus(); }
  void Stop(engine::RunState, const absl::Status&, engine::Completions&) override {}
  void Tell() override {}
  void TellStall(RunStall, absl::Time) override {}

 protected:
  void OnTurn(engine::Completions&) override {}
  void OnPassedLate() override {}
};

// What is left of a session of a former boot. A session of the same id may be there again: the
// former one's runs are then its own, and their ids stay used. Never changes, so thread-safe.
class FormerSession {
 public:
  FormerSession(std::string id, std::string boot_id, std::string owner);

  const std::string& id() const { return id_; }
  // The principal that it belonged to; empty when the release that had it did not record that.
  const std::string& owner() const { return owner_; }
  // Of the last boot that had it.
  const std::string& boot_id() const { return boot_id_; }
  // The greatest that its runs had.
  uint64_t last_number() const { return last_number_; }
  uint64_t last_own_number() const { return last_own_number_; }

  // nullptr when there is none.
  std::shared_ptr<RunEntry> Find(absl::string_view run) const;
  // The run that the same request started, or nullptr; ID_CONFLICT when it was another request,
  // RUN_ID_USED when another version of the daemon made its digest, so that nobody can tell.
  absl::StatusOr<std::shared_ptr<RunEntry>> FindForStart(absl::string_view run,
                                                         const Digest& digest) const;
  // Appends runs older than number `before` (0: all), newest first, until there are `limit`.
  void List(uint64_t before, size_t limit, std::vector<std::shared_ptr<RunEntry>>* runs) const;

 private:
  friend class FormerRuns;
  void Add(const journal::v1::RunRecord& record);
  void Sort();

  const std::string id_;
  const std::string boot_id_;
  const std::string owner_;
  const std::shared_ptr<const std::string> name_;
  uint64_t last_number_ = 0;
  uint64_t last_own_number_ = 0;
  absl::flat_hash_map<std::string, std::shared_ptr<FormerRun>> runs_;
  std::vector<std::shared_ptr<FormerRun>> newest_first_;
};

// All that is known of former boots. Never changes, so thread-safe.
class FormerRuns {
 public:
  FormerRuns() = default;
  explicit FormerRuns(const JournalHistory& history);

  // nullptr when there is none.
  std::shared_ptr<const FormerSession> FindAny(absl::string_view session) const;
  // The same when the caller may not even look at it.
  std::shared_ptr<const FormerSession> Find(const auth::Principal& caller,
                                            absl::string_view session,
                                            auth::Right right = auth::Right::kLook) const;
  std::shared_ptr<RunEntry> FindRun(const auth::Principal& caller, absl::string_view session,
                                    absl::string_view run,
                                    auth::Right right = auth::Right::kLook) const;
  // As FormerSession::FindForStart, of a session that is not there any more and was the caller's.
  absl::StatusOr<std::shared_ptr<RunEntry>> FindForStart(const auth::Principal& caller,
                                                         absl::string_view session,
                                                         absl::string_view run,
                                                         const Digest& digest) const;

 private:
  absl::flat_hash_map<std::string, std::shared_ptr<const FormerSession>> sessions_;
};

}  // namespace pto::daemon
