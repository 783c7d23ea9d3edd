#include "daemon/explain/explainer.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/core/image_run.h"
#include "daemon/explain/describe.h"
#include "daemon/graph/names.h"
#include "runtime/base/error.h"
#include "runtime/base/log.h"
#include "runtime/base/status_macros.h"

namespace pto {
namespace {

// How often the engine is looked at while there are runs, at most and at least.
constexpr absl::Duration kOften = absl::Milliseconds(10);
constexpr absl::Duration kSeldom = absl::Seconds(1);
// While there are none, at least.
constexpr absl::Duration kIdle = absl::Seconds(5);

// Dumps that nobody asked for are no more frequent than this.
constexpr int64_t kDumpNs = 10'000'000'000;

// Of each run in a dump.
constexpr size_t kDumpTasks = 8;

absl::Status StoppingError() { return Error(reason::kNodeDraining, "the daemon stops"); }

// Says for each run that has not begun which ones go first.
void FindRunsBefore(EngineNow* now) {
  // By session and number.
  std::map<std::pair<const void*, uint64_t>, size_t> places;
  const auto entry_of = [&](size_t i) {
    return dynamic_cast<const ImageRun*>(now->runs[i].observer.get());
  };
  for (size_t i = 0; i < now->runs.size(); ++i) {
    if (const ImageRun* const entry = entry_of(i)) {
      places.emplace(std::make_pair(entry->record().session.get(), entry->number()), i);
    }
  }
  for (size_t i = 0; i < now->runs.size(); ++i) {
    const ImageRun* const entry = entry_of(i);
    if (entry == nullptr || now->runs[i].begun) continue;
    for (size_t k = 0; k < RunTurn::kShownBefore; ++k) {
      const auto found =
          places.find(std::make_pair(entry->record().session.get(), entry->shown_before(k)));
      if (found != places.end() && found->second != i) now->runs[i].behind.push_back(found->second);
    }
  }
}

}  // namespace

Explainer::Explainer(Node& node, Options options)
    : node_(node),
      options_(std::move(options)),
      dump_(options_.state_dir),
      failed_runs_(node.engine().failed_runs()),
      reports_(std::make_unique<SerialThread>("reports")),
      explains_(std::make_unique<SerialThread>("explains", [this] { return Tick(); })) {}

Explainer::~Explainer() { Stop(); }

void Explainer::Stop() {
  explains_->Stop();
  reports_->Stop();
}

int64_t Explainer::stall_ns() const {
  return options_.stall_after == absl::ZeroDuration()
             ? std::numeric_limits<int64_t>::max()
             : absl::ToInt64Nanoseconds(options_.stall_after);
}

EngineNow Explainer::Look() {
  EngineNow now = node_.engine().Look();
  FindRunsBefore(&now);
  progress_.See(now);
  return now;
}

std::vector<std::vector<size_t>> Explainer::Parts(const EngineNow& now) {
  std::vector<std::vector<size_t>> parts;
  std::map<std::string, size_t> open;
  for (size_t i = 0; i < now.runs.size(); ++i) {
    if (now.runs[i].observer == nullptr) continue;
    if (now.runs[i].linked) {
      const auto [found, is_new] = open.try_emplace(now.runs[i].observer->name(), parts.size());
      if (!is_new) {
        parts[found->second].push_back(i);
        continue;
      }
    }
    parts.push_back({i});
  }
  return parts;
}

v1::ExplainRunResponse Explainer::Describe(const EngineNow& now, const Diagnosis& diagnosis,
                                           const std::vector<size_t>& parts,
                                           size_t max_tasks) const {
  std::vector<int64_t> idle;
  for (const size_t part : parts) idle.push_back(progress_.IdleNanos(now.runs[part].run.get()));
  return Describer(now, diagnosis).Describe(parts, idle, stall_ns(), max_tasks);
}

// ---- those who ask

void Explainer::Explain(std::string session, std::string id, size_t max_tasks, Done done) {
  const auto shared = std::make_shared<Done>(std::move(done));
  const bool posted = explains_->Post([this, session, id, max_tasks, shared] {
    v1::ExplainRunResponse response;
    if (ExplainLive(names::ChildName(session, "runs", id), max_tasks, &response)) {
      (*shared)(std::move(response));
      // As any call, this one extends the lease.
      reports_->Post([this, session] { (void)node_.sessions().Use(session); });
      return;
    }
    const bool handed_on =
        reports_->Post([this, session, id, shared] { (*shared)(ExplainIdle(session, id)); });
    if (!handed_on) (*shared)(StoppingError());
  });
  if (!posted) (*shared)(StoppingError());
}

bool Explainer::ExplainLive(const std::string& name, size_t max_tasks,
                            v1::ExplainRunResponse* response) {
  const EngineNow now = Look();
  for (const std::vector<size_t>& parts : Parts(now)) {
    if (now.runs[parts[0]].observer->name() != name) continue;
    *response = Describe(now, Diagnosis(now), parts, max_tasks);
    return true;
  }
  return false;
}

absl::StatusOr<v1::ExplainRunResponse> Explainer::ExplainIdle(const std::string& session,
                                                              const std::string& id) const {
  PTO_ASSIGN_OR_RETURN(const std::shared_ptr<Session> owner, node_.sessions().Use(session));
  PTO_ASSIGN_OR_RETURN(const std::shared_ptr<RunEntry> entry, owner->FindRun(id));
  const RunStatus status = entry->Status();
  return DescribeIdle(entry->record().name(), static_cast<v1::Run::State>(status.state),
                      status.tasks_total, status.counts.done);
}

// ---- by itself

std::chrono::nanoseconds Explainer::Tick() {
  const uint64_t failed = node_.engine().failed_runs();
  const bool has_failed = failed != failed_runs_;
  if (node_.engine().active_runs() == 0 && !has_failed) {
    progress_ = {};
    return absl::ToChronoNanoseconds(std::clamp(options_.stall_after, kSeldom, kIdle));
  }
  const EngineNow now = Look();
  bool has_stalled = false;
  for (const RunNow& run : now.runs) {
    has_stalled |= run.begun && progress_.IdleNanos(run.run.get()) >= stall_ns();
  }
  if (has_stalled || has_failed) {
    const Diagnosis diagnosis(now);
    if (has_stalled) ReportStalls(now, diagnosis);
    // Only where it is kept: the log has the errors already.
    if (has_failed && dump_.to_files() && now.now_ns - last_dump_ns_ >= kDumpNs) {
      WriteDump(absl::StrCat(failed - failed_runs_, " runs have failed"), now, diagnosis);
    }
  }
  failed_runs_ = failed;
  const absl::Duration next = options_.stall_after == absl::ZeroDuration()
                                  ? kSeldom
                                  : std::clamp(options_.stall_after / 4, kOften, kSeldom);
  return absl::ToChronoNanoseconds(next);
}

void Explainer::ReportStalls(const EngineNow& now, const Diagnosis& diagnosis) {
  bool is_news = false;
  for (const std::vector<size_t>& parts : Parts(now)) {
    // One part of a run that moves is enough.
    const bool stalled = std::all_of(parts.begin(), parts.end(), [&](size_t part) {
      return now.runs[part].begun && progress_.IdleNanos(now.runs[part].run.get()) >= stall_ns();
    });
    if (!stalled || !progress_.TakeNews(now.runs[parts[0]].run.get())) continue;
    is_news = true;
    v1::ExplainRunResponse response = Describe(now, diagnosis, parts, 1);
    PTO_LOG(kWarning, "run stalled",
            {{"run", response.run()},
             {"verdict", v1::ExplainRunResponse::Verdict_Name(response.verdict())},
             {"summary", response.summary()}});
    reports_->Post([this, response = std::move(response)] { TellStall(response); });
  }
  if (is_news && now.now_ns - last_dump_ns_ >= kDumpNs) {
    WriteDump("a run has stalled", now, diagnosis);
  }
}

void Explainer::TellStall(const v1::ExplainRunResponse& stalled) const {
  const absl::StatusOr<names::Child> name = names::ParseChild(stalled.run(), "runs", "run");
  if (!name.ok()) return;
  const absl::StatusOr<std::shared_ptr<Session>> session = node_.sessions().Find(name->session);
  if (!session.ok()) return;
  const absl::StatusOr<std::shared_ptr<RunEntry>> entry = (*session)->FindRun(name->id);
  if (!entry.ok() || (*entry)->ended()) return;
  // What it has done so far comes first.
  (*entry)->Tell();
  LogEntry event;
  event.time = node_.clock().WallTime();
  event.event =
      RunStall{std::shared_ptr<const RunRecord>(*entry, &(*entry)->record()), stalled.verdict(),
               absl::Seconds(stalled.since_last_progress().seconds()) +
                   absl::Nanoseconds(stalled.since_last_progress().nanos()),
               stalled.summary()};
  (*session)->log().Append(absl::MakeSpan(&event, 1));
}

// ---- dumps

void Explainer::Dump(std::string why) {
  explains_->Post([this, why = std::move(why)] {
    const EngineNow now = Look();
    WriteDump(why, now, Diagnosis(now));
  });
}

void Explainer::WriteDump(const std::string& why, const EngineNow& now,
                          const Diagnosis& diagnosis) {
  last_dump_ns_ = now.now_ns;
  std::vector<v1::ExplainRunResponse> runs;
  for (const std::vector<size_t>& parts : Parts(now)) {
    runs.push_back(Describe(now, diagnosis, parts, kDumpTasks));
  }
  std::vector<std::string> lines =
      StateDump::Lines(why, node_.boot_id(), node_.clock().WallTime(), now, runs);
  reports_->Post([this, lines = std::move(lines)]() mutable {
    const absl::StatusOr<std::string> place = dump_.Write(lines, node_.clock().WallTime());
    if (!place.ok()) {
      PTO_LOG(kError, "the state was not dumped", {{"error", place.status().ToString()}});
      return;
    }
    PTO_LOG(kWarning, "state dumped", {{"to", *place}, {"lines", lines.size()}});
    // These need locks that may be held for ever, so they come last.
    std::vector<std::string> sessions;
    for (const std::shared_ptr<Session>& session : node_.sessions().List("", size_t(-1))) {
      sessions.push_back(StateDump::SessionLine(*session, node_.clock()));
    }
    dump_.Append(*place, sessions);
  });
}

}  // namespace pto
