#include "daemon/journal/history.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "daemon/journal/clock_check.h"
#include "daemon/journal/run_ids.h"
#include "daemon/journal/segment.h"
#include "proto/status/status_proto.h"
#include "runtime/base/error.h"
#include "runtime/base/log.h"
#include "runtime/base/status_macros.h"
#include "runtime/engine/run/run.h"

namespace pto::daemon {
namespace {

using journal::v1::Record;
using journal::v1::RunRecord;
using journal::v1::SessionRecord;

// The maximum number of remembered sessions without runs.
constexpr size_t kMaxSessions = 10'000;

// Combines records in order, oldest first.
class HistoryBuilder {
 public:
  void Take(absl::string_view bytes) {
    Record record;
    // The checksum was correct, so a later release of the same format added this kind of record.
    if (!record.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return;
    switch (record.record_case()) {
      case Record::kBoot:
        TakeBoot(record.boot());
        break;
      case Record::kSession:
        sessions_[record.session().id()] = {next_++, record.session().boot_id(),
                                            record.session().owner()};
        break;
      case Record::kRun: {
        RunRecord& run = *record.mutable_run();
        // The session's own record may have been removed with an older file.
        sessions_.try_emplace(run.session(), Session{next_++, boot_id_, run.owner()});
        Run& known = runs_[absl::StrCat(run.session(), "/", run.id())];
        // A record that was written once more does not undo the end of its run.
        if (run.state() == 0 && known.record.state() != 0 &&
            known.record.create_ns() == run.create_ns() && known.record.number() == run.number()) {
          break;
        }
        if (!has_times_) newest_ = std::max(newest_, EndTime(run));
        known = {next_++, boot_id_, std::move(run)};
        break;
      }
      case Record::kRemoved:
        removed_through_ = std::max(removed_through_, record.removed().through());
        break;
      case Record::kRewritten:
        rewritten_[record.rewritten().file()] = record.rewritten().offset();
        break;
      case Record::kClockSeen:
        newest_ = absl::FromUnixNanos(record.clock_seen().time_ns());
        break;
      case Record::kUsedIds:
      case Record::RECORD_NOT_SET:
        break;
    }
  }

  // The newest time that can be believed.
  absl::Time newest() const { return newest_; }
  // The last of the files that are not needed any more; 0 when that is not known.
  uint64_t removed_through() const { return removed_through_; }
  // Where the records begin that another file has, too; the end when there are none.
  uint64_t RewrittenFrom(uint64_t file) const {
    const auto it = rewritten_.find(file);
    return it == rewritten_.end() ? std::numeric_limits<uint64_t>::max() : it->second;
  }

  // `expire`: whether to forget runs because they are too old.
  JournalHistory Finish(const JournalRetention& retention, absl::Time now, bool expire) {
    JournalHistory history;
    absl::flat_hash_set<std::string> in_use;
    history.forgotten.newest = absl::InfinitePast();
    std::vector<RunRecord> restarted;
    for (Run& run : Ordered(runs_)) {
      if (run.record.state() == 0) {
        Fail(run, now);
        restarted.push_back(std::move(run.record));
        continue;
      }
      if (expire && now - EndTime(run.record) > retention.max_age) continue;
      history.runs.push_back(std::move(run.record));
    }
    // Limits only runs that had ended before: clients have not seen the end of the restarted ones.
    const size_t ended = history.runs.size();
    const size_t runs = ended + restarted.size();
    if (runs > retention.max_runs) {
      const size_t dropped = std::min<size_t>(runs - retention.max_runs, ended);
      for (size_t i = 0; i < dropped; ++i) Forget(history.runs[i], &history.forgotten);
      history.runs.erase(history.runs.begin(),
                         history.runs.begin() + static_cast<ptrdiff_t>(dropped));
    }
    history.restarted = restarted.size();
    std::move(restarted.begin(), restarted.end(), std::back_inserter(history.runs));
    for (const RunRecord& run : history.runs) in_use.insert(run.session());
    std::vector<std::pair<std::string, Session>> sessions(sessions_.begin(), sessions_.end());
    std::sort(sessions.begin(), sessions.end(), [](const auto& left, const auto& right) {
      return left.second.order < right.second.order;
    });
    for (size_t i = 0; i < sessions.size(); ++i) {
      if (sessions.size() - i > kMaxSessions && !in_use.contains(sessions[i].first)) continue;
      SessionRecord& out = history.sessions.emplace_back();
      out.set_id(sessions[i].first);
      out.set_boot_id(sessions[i].second.boot_id);
      out.set_owner(sessions[i].second.owner);
    }
    return history;
  }

 private:
  struct Session {
    uint64_t order = 0;
    std::string boot_id;
    std::string owner;
  };
  struct Run {
    uint64_t order = 0;
    std::string boot_id;
    RunRecord record;
  };

  static std::vector<Run> Ordered(absl::flat_hash_map<std::string, Run>& runs) {
    std::vector<Run> ordered;
    ordered.reserve(runs.size());
    for (auto& [key, run] : runs) ordered.push_back(std::move(run));
    runs.clear();
    std::sort(ordered.begin(), ordered.end(),
              [](const Run& left, const Run& right) { return left.order < right.order; });
    return ordered;
  }

  void TakeBoot(const journal::v1::Boot& boot) {
    boot_id_ = boot.boot_id();
    if (boot.time_ns() == 0) return;
    // From here on only what was believed counts, not the times of runs.
    has_times_ = true;
    if (!boot.clock_doubtful()) {
      newest_ = absl::FromUnixNanos(boot.time_ns());
    } else if (boot.believed_ns() != 0) {
      newest_ = absl::FromUnixNanos(boot.believed_ns());
    }
  }

  static void Forget(const RunRecord& run, UsedRunIds* ids) {
    const uint64_t hash = HashOfRun(run);
    if (hash == 0) return;
    ids->hashes.push_back(hash);
    ids->newest = std::max(ids->newest, EndTime(run));
  }

  // The run was accepted, and the journal has no record of its end.
  static void Fail(Run& run, absl::Time now) {
    RunRecord& record = run.record;
    record.set_state(static_cast<uint32_t>(engine::RunState::kFailed));
    record.set_total_ns(std::max<int64_t>(absl::ToUnixNanos(now) - record.create_ns(), 0));
    *record.add_errors() = StatusToProto(
        Error(reason::kDaemonRestarted, "the daemon was restarted before the run had ended")
            .With("session", absl::StrCat("sessions/", record.session()))
            .With("run", record.id())
            .With("boot_id", run.boot_id));
  }

  uint64_t next_ = 0;
  std::string boot_id_;
  bool has_times_ = false;
  absl::Time newest_ = absl::InfinitePast();
  uint64_t removed_through_ = 0;
  absl::flat_hash_map<uint64_t, uint64_t> rewritten_;
  absl::flat_hash_map<std::string, Session> sessions_;
  absl::flat_hash_map<std::string, Run> runs_;
};

// Sorts damage from what a crash leaves, tells of both, and returns what is damage.
class Inspector {
 public:
  Inspector(Storage& storage, const HistoryBuilder& builder, JournalHistory* history)
      : storage_(storage), builder_(builder), history_(*history) {}

  void Look(uint64_t number, const SegmentContents& contents, bool is_last) {
    const std::string path = storage_.Path(SegmentName(kJournalFiles, number));
    const uint64_t rewritten = builder_.RewrittenFrom(number);
    std::vector<SegmentContents::Damage> damages = contents.damages;
    if (contents.torn.has_value() && !is_last) damages.push_back(*contents.torn);
    uint64_t skipped = 0;
    size_t count = 0;
    for (const SegmentContents::Damage& damage : damages) {
      // The disk had not written it, which was noticed.
      if (damage.offset >= rewritten) continue;
      if (count++ == 0) first_ = damage.offset;
      skipped += damage.bytes;
    }
    if (count > 0) {
      PTO_LOG(kError, "a file of the journal is damaged: what is not intact in it is not known",
              {{"path", path},
               {"offset", first_},
               {"places", count},
               {"skipped_bytes", skipped},
               {"intact_records", contents.records},
               {"of_these_behind", contents.records_behind}});
      history_.damaged.push_back(number);
      ++history_.damage.files;
      history_.damage.skipped_bytes += skipped;
    } else if (contents.torn.has_value()) {
      PTO_LOG(kInfo, "the journal ends with an incomplete write, which was not acknowledged",
              {{"path", path}, {"offset", contents.torn->offset}, {"bytes", contents.torn->bytes}});
      history_.torn.push_back(number);
    }
  }

  // The numbers of files have no gaps.
  void LookForMissing() {
    const std::vector<uint64_t>& found = history_.segments;
    if (found.empty()) return;
    uint64_t number = builder_.removed_through() + 1;
    if (number == 1) number = found.front();
    for (; number < found.back(); ++number) {
      if (std::binary_search(found.begin(), found.end(), number)) continue;
      if (builder_.RewrittenFrom(number) == 0) continue;
      PTO_LOG(kError, "a file of the journal is missing: what was in it is not known",
              {{"path", storage_.Path(SegmentName(kJournalFiles, number))}});
      ++history_.damage.files;
    }
  }

 private:
  Storage& storage_;
  const HistoryBuilder& builder_;
  JournalHistory& history_;
  uint64_t first_ = 0;
};

}  // namespace

uint64_t HashOfRun(const RunRecord& run) {
  return run.own_number() != 0 ? 0 : HashOfRunId(run.session(), run.id());
}

absl::Time EndTime(const RunRecord& run) {
  return absl::FromUnixNanos(run.create_ns() + run.total_ns());
}

absl::StatusOr<JournalHistory> LoadHistory(Storage& storage, const std::vector<std::string>& names,
                                           const JournalRetention& retention, const Clock& clock) {
  const std::vector<uint64_t> segments = SegmentNumbers(names, kJournalFiles);
  HistoryBuilder builder;
  std::vector<SegmentContents> contents;
  for (const uint64_t number : segments) {
    PTO_ASSIGN_OR_RETURN(SegmentContents found,
                         ReadSegment(storage, SegmentName(kJournalFiles, number),
                                     [&](absl::string_view record) { builder.Take(record); }));
    contents.push_back(std::move(found));
  }
  const absl::Time now = clock.WallTime();
  const bool believe = ClockCheck(&clock, builder.newest()).Believe();
  if (!believe) {
    PTO_LOG(kWarning,
            "the clock is more than a day from the newest record of the journal: nothing is "
            "forgotten because of its age",
            {{"clock", absl::FormatTime(now)}, {"newest", absl::FormatTime(builder.newest())}});
  }
  JournalHistory history = builder.Finish(retention, now, believe);
  history.newest = builder.newest();
  history.clock_doubtful = !believe;
  history.segments = segments;
  Inspector inspector(storage, builder, &history);
  for (size_t i = 0; i < segments.size(); ++i) {
    history.segment_bytes.push_back(contents[i].size);
    inspector.Look(segments[i], contents[i], i + 1 == segments.size());
  }
  inspector.LookForMissing();
  return history;
}

}  // namespace pto::daemon
