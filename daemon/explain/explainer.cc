#include "daemon/explain/explainer.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/explain/describe.h"
#include "daemon/kernels/session_kernels.h"
#include "daemon/names/names.h"
#include "daemon/run/streamed_run.h"
#include "daemon/wire/convert.h"
#include "runtime/base/error.h"
#include "runtime/base/log.h"
#include "runtime/base/status_macros.h"

namespace pto::daemon {
namespace {

// The minimum and maximum intervals between snapshots of the engine while there are runs.
constexpr absl::Duration kOften = absl::Milliseconds(10);
constexpr absl::Duration kSeldom = absl::Seconds(1);
// The maximum interval while there are none.
constexpr absl::Duration kIdle = absl::Seconds(5);

// The minimum interval between unsolicited dumps.
constexpr int64_t kDumpNs = 10'000'000'000;

// Tasks of each run in a dump.
constexpr size_t kDumpTasks = 8;
// Stalled runs since the last dump.
constexpr uint64_t kDumpStalls = 16;

std::string CountOf(uint64_t runs, absl::string_view what) {
  return runs == 1 ? absl::StrCat("a run has ", what) : absl::StrCat(runs, " runs have ", what);
}

absl::Status StoppingError() { return Error(reason::kNodeDraining, "the daemon stops"); }

// For each run that has not begun, or has a part that has not: finds the runs that go first.
void FindRunsBefore(engine::EngineNow* now) {
  const auto waits = [](const engine::RunNow& run) {
    return run.observer != nullptr && (!run.begun || run.linked) &&
           run.observer->order_number() != 0;
  };
  if (std::none_of(now->runs.begin(), now->runs.end(), waits)) return;
  // By account and number. The parts of an open run have the same number.
  std::map<std::pair<const engine::Account*, uint64_t>, std::vector<size_t>> places;
  for (size_t i = 0; i < now->runs.size(); ++i) {
    const engine::RunNow& run = now->runs[i];
    const uint64_t number = run.observer == nullptr ? 0 : run.observer->order_number();
    if (number != 0) places[{run.run->account().get(), number}].push_back(i);
  }
  for (engine::RunNow& run : now->runs) {
    if (!waits(run)) continue;
    for (size_t k = 0; k < engine::RunObserver::kShownBefore; ++k) {
      const uint64_t number = run.observer->goes_after(k);
      const auto found = places.find({run.run->account().get(), number});
      // A part behind another part of the same run would be behind itself.
      if (number == 0 || number == run.observer->order_number() || found == places.end()) continue;
      run.behind.insert(run.behind.end(), found->second.begin(), found->second.end());
    }
  }
}

}  // namespace

Explainer::Explainer(Node& node, Options options)
    : node_(node),
      options_(std::move(options)),
      dump_(options_.state_dir),
      reports_(std::make_unique<SerialThread>("reports")),
      explains_(std::make_unique<SerialThread>("explains", [this] { return Tick(); })) {
  node_.failed_runs().OnFirst([this] { explains_->Wake(); });
}

Explainer::~Explainer() { Stop(); }

void Explainer::Stop() {
  node_.failed_runs().OnFirst(nullptr);
  explains_->Post([this] { DumpNews(); });
  explains_->Stop();
  reports_->Stop();
}

int64_t Explainer::stall_ns() const {
  return options_.stall_after == absl::ZeroDuration()
             ? std::numeric_limits<int64_t>::max()
             : absl::ToInt64Nanoseconds(options_.stall_after);
}

engine::EngineNow Explainer::Look() {
  engine::EngineNow now = node_.engine().Look();
  FindRunsBefore(&now);
  progress_.See(now);
  return now;
}

std::vector<std::vector<size_t>> Explainer::Parts(const engine::EngineNow& now) {
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

v1::ExplainRunResponse Explainer::Describe(const engine::EngineNow& now,
                                           const engine::Diagnosis& diagnosis,
                                           const std::vector<size_t>& parts, size_t max_tasks,
                                           const auth::Principal* viewer) const {
  std::vector<int64_t> idle;
  for (const size_t part : parts) idle.push_back(progress_.IdleNanos(now.runs[part].run.get()));
  return Describer(now, diagnosis, viewer).Describe(parts, idle, stall_ns(), max_tasks);
}

// ---- requests

void Explainer::Explain(auth::Caller caller, std::string session, std::string id, size_t max_tasks,
                        Done done) {
  const auto shared = std::make_shared<Done>(std::move(done));
  const bool posted = explains_->Post([this, caller, session, id, max_tasks, shared] {
    v1::ExplainRunResponse response;
    if (ExplainLive(*caller, names::ChildName(session, "runs", id), max_tasks, &response)) {
      (*shared)(std::move(response));
      // Like any call, this one extends the lease.
      reports_->Post([this, caller, session] {
        (void)node_.sessions().Use(*caller, session, auth::Right::kLook);
      });
      return;
    }
    const bool handed_on = reports_->Post(
        [this, caller, session, id, shared] { (*shared)(ExplainIdle(*caller, session, id)); });
    if (!handed_on) (*shared)(StoppingError());
  });
  if (!posted) (*shared)(StoppingError());
}

bool Explainer::ExplainLive(const auth::Principal& caller, const std::string& name,
                            size_t max_tasks, v1::ExplainRunResponse* response) {
  const engine::EngineNow now = Look();
  for (const std::vector<size_t>& parts : Parts(now)) {
    if (now.runs[parts[0]].observer->name() != name) continue;
    const engine::Account* const account = now.runs[parts[0]].run->account().get();
    // ExplainIdle says that it is not there.
    if (account == nullptr || !auth::May(caller, account->owner(), auth::Right::kLook)) continue;
    *response = Describe(now, engine::Diagnosis(now), parts, max_tasks, &caller);
    return true;
  }
  return false;
}

absl::StatusOr<v1::ExplainRunResponse> Explainer::ExplainIdle(const auth::Principal& caller,
                                                              const std::string& session,
                                                              const std::string& id) const {
  const absl::StatusOr<std::shared_ptr<Session>> owner =
      node_.sessions().Use(caller, session, auth::Right::kLook);
  if (!owner.ok()) {
    // The run may belong to a former boot.
    const std::shared_ptr<RunEntry> former = node_.former().FindRun(caller, session, id);
    if (former == nullptr) return owner.status();
    return DescribeIdle(*former, {});
  }
  PTO_ASSIGN_OR_RETURN(const std::shared_ptr<RunEntry> entry, (*owner)->FindRun(id));
  std::vector<std::string> before;
  if (const auto* const open = dynamic_cast<const StreamedRun*>(entry.get())) {
    for (const std::shared_ptr<RunEntry>& other :
         (*owner)->ListRuns(0, size_t(-1), /*active_only=*/true)) {
      bool goes_first = false;
      for (size_t k = 0; k < RunTurn::kShownBefore; ++k) {
        goes_first |= open->goes_after(k) == other->number();
      }
      if (goes_first) before.push_back(absl::StrCat("runs/", other->record().id));
    }
  }
  return DescribeIdle(*entry, before);
}

// ---- unsolicited reports

std::chrono::nanoseconds Explainer::Tick() {
  const bool active = node_.engine().active_runs() > 0;
  if (!active) progress_ = {};
  if (!active && !HasNews()) {
    return absl::ToChronoNanoseconds(std::clamp(options_.stall_after, kSeldom, kIdle));
  }
  if (active || node_.clock().NowNanos() >= next_dump_ns_) {
    const engine::EngineNow now = Look();
    bool has_stalled = false;
    for (const engine::RunNow& run : now.runs) {
      has_stalled |= run.begun && progress_.IdleNanos(run.run.get()) >= stall_ns();
    }
    if (has_stalled) ReportStalls(now, engine::Diagnosis(now));
    // If the last dump was too recent, a later one reports this.
    if (HasNews() && now.now_ns >= next_dump_ns_) WriteDump("", now, engine::Diagnosis(now));
  }
  absl::Duration next = options_.stall_after == absl::ZeroDuration()
                            ? kSeldom
                            : std::clamp(options_.stall_after / 4, kOften, kSeldom);
  if (HasNews()) {
    const absl::Duration until = absl::Nanoseconds(next_dump_ns_ - node_.clock().NowNanos());
    next = std::clamp(until, kOften, next);
  }
  return absl::ToChronoNanoseconds(next);
}

void Explainer::ReportStalls(const engine::EngineNow& now, const engine::Diagnosis& diagnosis) {
  for (const std::vector<size_t>& parts : Parts(now)) {
    // A run is stalled only if all its parts are.
    const bool stalled = std::all_of(parts.begin(), parts.end(), [&](size_t part) {
      return now.runs[part].begun && progress_.IdleNanos(now.runs[part].run.get()) >= stall_ns();
    });
    if (!stalled || !progress_.TakeNews(now.runs[parts[0]].run.get())) continue;
    const v1::ExplainRunResponse response = Describe(now, diagnosis, parts, 1, &auth::Daemon());
    // The run may have continued before a dump reports it.
    if (++stalls_ <= kDumpStalls) stall_lines_.push_back(StateDump::StallLine(response));
    PTO_LOG(kWarning, "run stalled",
            {{"run", response.run()},
             {"verdict", v1::ExplainRunResponse::Verdict_Name(response.verdict())},
             {"summary", response.summary()}});
    // Its owner need not know of the runs of others.
    reports_->Post([this, told = Describe(now, diagnosis, parts, 1, nullptr)] { TellStall(told); });
  }
}

void Explainer::TellStall(const v1::ExplainRunResponse& stalled) const {
  const absl::StatusOr<names::Child> name = names::ParseChild(stalled.run(), "runs", "run");
  if (!name.ok()) return;
  const absl::StatusOr<std::shared_ptr<Session>> session =
      node_.sessions().Find(auth::Daemon(), name->session, auth::Right::kLook);
  if (!session.ok()) return;
  const absl::StatusOr<std::shared_ptr<RunEntry>> entry = (*session)->FindRun(name->id);
  if (!entry.ok()) return;
  RunStall stall;
  stall.verdict = stalled.verdict();
  stall.idle = absl::Seconds(stalled.since_last_progress().seconds()) +
               absl::Nanoseconds(stalled.since_last_progress().nanos());
  stall.summary = stalled.summary();
  (*entry)->TellStall(std::move(stall), node_.clock().WallTime());
}

// ---- dumps

void Explainer::Dump(std::string why) {
  explains_->Post([this, why = std::move(why)] {
    const engine::EngineNow now = Look();
    WriteDump(why, now, engine::Diagnosis(now));
  });
}

void Explainer::DumpNews() {
  if (!HasNews()) return;
  const engine::EngineNow now = Look();
  WriteDump("", now, engine::Diagnosis(now));
}

std::vector<std::string> Explainer::FailureLines(const FailedRuns::News& failed) {
  std::vector<std::string> lines;
  for (auto entry = failed.newest.rbegin(); entry != failed.newest.rend(); ++entry) {
    v1::Run run;
    ToProto((*entry)->Status(), &run);
    lines.push_back(StateDump::FailureLine(run));
  }
  return lines;
}

std::vector<std::string> Explainer::HolderLines() const {
  std::vector<std::string> lines;
  for (const std::shared_ptr<engine::Chip>& chip : node_.engine().chips()) {
    const std::string holder = node_.leases().HolderOf(chip->index()).session;
    if (!holder.empty()) lines.push_back(StateDump::LeaseLine(chip->index(), holder));
  }
  for (const std::shared_ptr<Session>& session :
       node_.sessions().List(auth::Daemon(), "", size_t(-1))) {
    lines.push_back(StateDump::SessionLine(*session, node_.clock()));
    const absl::optional<host::HostStatus> host = session->kernels().host();
    if (host.has_value()) lines.push_back(StateDump::HostLine(session->name(), *host));
  }
  return lines;
}

void Explainer::WriteDump(const std::string& asked, const engine::EngineNow& now,
                          const engine::Diagnosis& diagnosis) {
  next_dump_ns_ = now.now_ns + kDumpNs;
  // Shared, because posted functions are copied.
  const auto failed = std::make_shared<const FailedRuns::News>(node_.failed_runs().Take());
  std::vector<std::string> why;
  if (!asked.empty()) why.push_back(asked);
  if (stalls_ > 0) why.push_back(CountOf(stalls_, "stalled"));
  if (failed->count > 0) why.push_back(CountOf(failed->count, "failed"));
  std::vector<v1::ExplainRunResponse> runs;
  for (const std::vector<size_t>& parts : Parts(now)) {
    runs.push_back(Describe(now, diagnosis, parts, kDumpTasks, &auth::Daemon()));
  }
  std::vector<std::string> lines = StateDump::Lines(absl::StrJoin(why, ", "), node_.boot_id(),
                                                    node_.clock().WallTime(), now, runs);
  // After the first line, which has the reason: a truncated log then loses only healthy runs.
  lines.insert(lines.begin() + 1, stall_lines_.begin(), stall_lines_.end());
  stalls_ = 0;
  stall_lines_.clear();
  reports_->Post([this, lines = std::move(lines), failed] {
    const absl::StatusOr<std::string> place = dump_.Write(lines, node_.clock().WallTime());
    if (!place.ok()) {
      PTO_LOG(kError, "the state dump failed", {{"error", place.status().ToString()}});
      return;
    }
    PTO_LOG(kWarning, "state dumped", {{"to", *place}, {"lines", lines.size()}});
    // These need locks that may be stuck, so they come last.
    dump_.Append(*place, FailureLines(*failed));
    dump_.Append(*place, HolderLines());
  });
}

}  // namespace pto::daemon
