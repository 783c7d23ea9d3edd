#include "daemon/journal/history.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
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

// The maximum size of a partial write. A longer rest means that the file is corrupt.
constexpr uint64_t kTornBytes = 64 << 10;

// Combines records in order, oldest first.
class HistoryBuilder {
 public:
  void Take(absl::string_view bytes) {
    Record record;
    // The checksum was correct, so a later release of the same format added this kind of record.
    if (!record.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return;
    switch (record.record_case()) {
      case Record::kBoot:
        boot_id_ = record.boot().boot_id();
        break;
      case Record::kSession:
        sessions_[record.session().id()] = {next_++, record.session().boot_id()};
        break;
      case Record::kRun: {
        RunRecord& run = *record.mutable_run();
        // The session's own record may have been removed with an older file.
        sessions_.try_emplace(run.session(), Session{next_++, boot_id_});
        const std::string key = absl::StrCat(run.session(), "/", run.id());
        runs_[key] = {next_++, boot_id_, std::move(run)};
        break;
      }
      case Record::RECORD_NOT_SET:
        break;
    }
  }

  JournalHistory Finish(const JournalRetention& retention, absl::Time now) {
    JournalHistory history;
    absl::flat_hash_set<std::string> in_use;
    std::vector<RunRecord> restarted;
    for (Run& run : Ordered(runs_)) {
      if (run.record.state() == 0) {
        Fail(run, now);
        restarted.push_back(std::move(run.record));
        continue;
      }
      const int64_t end_ns = run.record.create_ns() + run.record.total_ns();
      if (now - absl::FromUnixNanos(end_ns) > retention.max_age) continue;
      history.runs.push_back(std::move(run.record));
    }
    // Limits only runs that had ended before: clients have not seen the end of the restarted ones.
    const size_t ended = history.runs.size();
    const size_t runs = ended + restarted.size();
    if (runs > retention.max_runs) {
      const size_t dropped = std::min<size_t>(runs - retention.max_runs, ended);
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
    }
    return history;
  }

 private:
  struct Session {
    uint64_t order = 0;
    std::string boot_id;
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
  absl::flat_hash_map<std::string, Session> sessions_;
  absl::flat_hash_map<std::string, Run> runs_;
};

}  // namespace

absl::StatusOr<JournalHistory> LoadHistory(const std::string& directory,
                                           const JournalRetention& retention, absl::Time now) {
  PTO_ASSIGN_OR_RETURN(std::vector<uint64_t> segments, ListSegments(directory));
  HistoryBuilder builder;
  std::vector<uint64_t> broken;
  for (const uint64_t number : segments) {
    const std::string path = SegmentPath(directory, number);
    PTO_ASSIGN_OR_RETURN(
        const SegmentContents contents,
        ReadSegment(path, [&](absl::string_view record) { builder.Take(record); }));
    if (contents.rest == 0) continue;
    // The daemon or the machine stopped during this write.
    if (number == segments.back() && contents.rest <= kTornBytes) {
      PTO_LOG(kInfo, "the journal ends with an incomplete record, which was never acknowledged",
              {{"path", path}, {"bytes", contents.rest}});
      continue;
    }
    PTO_LOG(kWarning,
            "a file of the journal is broken: runs behind this place are not known any more",
            {{"path", path}, {"good_bytes", contents.bytes}, {"broken_bytes", contents.rest}});
    broken.push_back(number);
  }
  JournalHistory history = builder.Finish(retention, now);
  history.segments = std::move(segments);
  history.broken = std::move(broken);
  return history;
}

}  // namespace pto::daemon
