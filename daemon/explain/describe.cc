#include "daemon/explain/describe.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "daemon/names/names.h"
#include "daemon/names/window_name.h"
#include "daemon/wire/request.h"
#include "runtime/engine/run/account.h"
#include "runtime/engine/signal/signal_word.h"

namespace pto::daemon {
namespace {

using Response = v1::ExplainRunResponse;
using Kind = engine::Obstacle::Kind;

static_assert(static_cast<int>(engine::Verdict::kWaitingForTasks) == Response::WAITING_FOR_TASKS);
static_assert(static_cast<int>(engine::Verdict::kDeadlocked) == Response::DEADLOCKED);
static_assert(static_cast<int>(Kind::kTurn) == Response::BlockedTask::TURN);
static_assert(static_cast<int>(Kind::kReservation) == Response::BlockedTask::RESERVATION);

absl::string_view KindName(pto_core kind) {
  return kind == PTO_AIC ? "AIC" : kind == PTO_AIV ? "AIV" : "MIX";
}

std::string CoreName(pto_core kind, int64_t count) {
  return kind == PTO_MIX ? (count == 1 ? "cluster" : "clusters")
                         : absl::StrCat(KindName(kind), count == 1 ? " core" : " cores");
}

// Instead of the name of a run, and of its tasks, that the reader may not know.
constexpr absl::string_view kAnotherRun = "another client's run";

// For example `sessions/s1` for `sessions/s1/runs/r1`.
absl::string_view SessionOf(absl::string_view run) { return run.substr(0, run.find("/runs/")); }

std::string TimeText(absl::Duration time) {
  return absl::FormatDuration(absl::Trunc(time, absl::Milliseconds(1)));
}

// The verdict of a run is the most important one of its parts.
int Weight(engine::Verdict verdict) {
  switch (verdict) {
    case engine::Verdict::kDeadlocked:
      return 7;
    case engine::Verdict::kStalled:
      return 6;
    case engine::Verdict::kProgressing:
      return 5;
    case engine::Verdict::kWaitingForCapacity:
      return 4;
    case engine::Verdict::kWaitingForNotification:
      return 3;
    case engine::Verdict::kWaitingForTurn:
      return 2;
    default:
      return 1;
  }
}

std::string Headline(engine::Verdict verdict) {
  switch (verdict) {
    case engine::Verdict::kProgressing:
      return "Tasks are running";
    case engine::Verdict::kWaitingForCapacity:
      return "Tasks wait for cores";
    case engine::Verdict::kWaitingForNotification:
      return "Tasks wait for signals";
    case engine::Verdict::kStalled:
      return "Nothing has ended for a while";
    case engine::Verdict::kDeadlocked:
      return "No queued or running work can continue it";
    case engine::Verdict::kEnded:
      return "The run has ended";
    case engine::Verdict::kWaitingForTurn:
      return "Earlier runs go first";
    case engine::Verdict::kWaitingForTasks:
      return "All tasks that have arrived have ended; the run is still open";
  }
  return "";
}

}  // namespace

std::string Describer::NameOf(size_t run) const {
  const engine::RunNow& seen = now_.runs[run];
  return seen.observer == nullptr ? "a run" : seen.observer->name();
}

bool Describer::Visible(size_t from, size_t run) const {
  const auto owner_of = [this](size_t index) -> absl::string_view {
    const engine::Account* const account = now_.runs[index].run->account().get();
    return account == nullptr ? absl::string_view() : account->owner();
  };
  const absl::string_view owner = owner_of(run);
  if (owner == owner_of(from)) return true;
  return viewer_ != nullptr && auth::May(*viewer_, owner, auth::Right::kLook);
}

std::string Describer::ShortName(size_t from, size_t run) const {
  if (!Visible(from, run)) return std::string(kAnotherRun);
  const std::string name = NameOf(run), own = NameOf(from);
  const absl::string_view session = SessionOf(own);
  if (SessionOf(name) != session || name.size() <= session.size()) return name;
  return name.substr(session.size() + 1);
}

std::string Describer::TaskText(size_t from, const engine::TaskPlace& place) const {
  if (!Visible(from, place.run)) return std::string(kAnotherRun);
  const engine::RunNow& run = now_.runs[place.run];
  const uint32_t first = run.observer == nullptr ? 0 : run.observer->first_task();
  std::string text = absl::StrCat(ShortName(from, place.run), " task ", first + place.task);
  const absl::string_view name = run.image().task_name(place.task);
  if (!name.empty()) absl::StrAppend(&text, " '", name, "'");
  return text;
}

std::string Describer::TaskTexts(size_t from, absl::Span<const engine::TaskPlace> places) const {
  return absl::StrJoin(places, ", ", [&](std::string* out, const engine::TaskPlace& place) {
    absl::StrAppend(out, TaskText(from, place));
  });
}

std::string Describer::HeldText(size_t run, const engine::HeldSender& held) const {
  const std::string by = held.by.has_value() ? TaskText(run, *held.by) : "";
  switch (held.why) {
    case engine::HeldSender::Why::kItself:
      return "is itself waiting";
    case engine::HeldSender::Why::kTasks:
      return absl::StrCat("comes after ", by);
    case engine::HeldSender::Why::kTurn:
      return absl::StrCat("belongs to a run that has to wait for ", ShortName(run, held.run));
    case engine::HeldSender::Why::kCores:
      return by.empty()
                 ? "gets no core"
                 : absl::StrCat("gets no core, because ", by, " does not release the cores it has");
  }
  return "";
}

std::string Describer::WhyStuck(size_t run, const engine::Obstacle& obstacle) const {
  std::string text;
  if (!obstacle.held.empty()) {
    absl::StrAppend(
        &text, "; nothing can notify it now: ",
        absl::StrJoin(obstacle.held, ", ", [&](std::string* out, const engine::HeldSender& held) {
          absl::StrAppend(out, TaskText(run, held.sender), " would, but ", HeldText(run, held));
        }));
  }
  if (!obstacle.cycle.empty()) {
    absl::StrAppend(&text, "; these wait for each other: ", TaskTexts(run, obstacle.cycle));
  } else if (!obstacle.ended.empty() && obstacle.held.empty()) {
    absl::StrAppend(
        &text, "; nothing that is queued or running notifies it: ", TaskTexts(run, obstacle.ended),
        " could have, but ", obstacle.ended.size() == 1 ? "has" : "have", " ended");
  } else if (obstacle.held.empty()) {
    absl::StrAppend(&text, "; no task that is queued or running notifies it");
  }
  return text;
}

void Describer::FillSignal(size_t run, const engine::Obstacle& obstacle, Blocked* out) const {
  const engine::RunNow& seen = now_.runs[run];
  const std::string name = NameOf(run);
  std::string where = "a signal outside the task's memory";
  // Notify reaches only signals of domains. A task that notifies has to wait for its turn there,
  // behind the stuck run.
  absl::string_view help = "; a client may still submit a task that notifies it";
  if (obstacle.slot.has_value()) {
    absl::string_view buffer = obstacle.slot_name;
    if (buffer.empty()) {
      buffer = seen.image().text(seen.image().slots()[*obstacle.slot].name);
    }
    const absl::string_view session = SessionOf(name);
    out->set_buffer(absl::StartsWith(session, "sessions/")
                        ? names::AnyBufferName(absl::StripPrefix(session, "sessions/"), buffer)
                        : std::string(buffer));
    out->set_signal(obstacle.element);
    where = absl::StrCat("signal ", obstacle.element, " of buffer '", buffer, "'");
    if (names::IsWindow(buffer)) {
      if (const auto window = names::ParseWindow(buffer, ""); window.ok()) {
        out->set_domain(absl::StrCat(session, "/domains/", window->domain));
        out->set_rank(window->rank);
        if (window->signals()) help = "; a client may still call Notify";
        where = window->signals() ? absl::StrCat("signal ", obstacle.element, " of rank ",
                                                 window->rank, " of domains/", window->domain)
                                  : absl::StrCat("word ", obstacle.element, " of ", buffer);
      }
    }
  }
  out->set_comparison(static_cast<v1::Comparison>(obstacle.compare));
  std::string text = absl::StrCat(
      obstacle.ahead ? "has not started, and will wait for " : "waits for ", where, ": have ",
      obstacle.has_have ? absl::StrCat(obstacle.have) : "unknown", ", want ",
      CompareText(static_cast<pto_compare>(obstacle.compare)), " ", obstacle.want);
  if (obstacle.has_have &&
      Compares(static_cast<pto_compare>(obstacle.compare), obstacle.have, obstacle.want)) {
    absl::StrAppend(&text,
                    "; the value already matches: it has just changed, or it was written "
                    "without a notification");
  } else if (!obstacle.can_end) {
    absl::StrAppend(&text, WhyStuck(run, obstacle), help);
  } else if (!obstacle.peers.empty()) {
    absl::StrAppend(&text, "; can be notified by ", TaskTexts(run, obstacle.peers));
  }
  out->set_reason(std::move(text));
}

std::string Describer::RunTexts(size_t from, absl::Span<const size_t> runs) const {
  std::vector<std::string> names;
  for (const size_t other : runs) {
    std::string name = ShortName(from, other);
    // Parts of one open run have the same name.
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      names.push_back(std::move(name));
    }
  }
  return absl::StrJoin(names, ", ");
}

void Describer::FillNextTurn(size_t run, Blocked* out) const {
  std::string peers = RunTexts(run, now_.runs[run].behind);
  std::string why = absl::StrCat(peers, ", with which they share memory");
  const engine::Situation& situation = diagnosis_.blockage().situation();
  const size_t whole = situation.WholeOf(run);
  if (const uint32_t task = now_.runs[run].observer->next_waits_for();
      task != engine::RunObserver::kNoTask) {
    const std::string own = absl::StrCat("this run's tasks from number ", task, " on");
    why = absl::StrCat(peers.empty() ? "" : absl::StrCat(why, ", and for "), own,
                       ", which use signals of the same domain");
    if (peers.empty()) peers = NameOf(run).substr(SessionOf(NameOf(run)).size() + 1);
  }
  const std::vector<size_t>& behind = situation.wholes()[whole].next_behind;
  out->set_kind(Blocked::TURN);
  out->set_can_be_satisfied(std::all_of(behind.begin(), behind.end(), [&](size_t before) {
    return diagnosis_.blockage().CanPass(before);
  }));
  out->set_reason(absl::StrCat("the latest tasks have not begun: they wait for ", why));
  out->set_peer(std::move(peers));
}

std::string Describer::CoresText(size_t run, const engine::Obstacle& obstacle) const {
  const std::string chip = names::Chip(obstacle.chip);
  if (obstacle.follows) {
    return absl::StrCat("is ready and gets the cores of ",
                        obstacle.peers.empty() ? "another task" : TaskTexts(run, obstacle.peers),
                        " when that has ended");
  }
  if (obstacle.kind == Kind::kReservation) {
    const std::string have = obstacle.has_have ? absl::StrCat("has ", obstacle.have, " of ")
                                               : std::string("waits behind others for ");
    return absl::StrCat("starts on all its cores at once: ", have, "the ", obstacle.want, " ",
                        CoreName(obstacle.core_kind, obstacle.want), " that it needs on ", chip);
  }
  if (obstacle.kind == Kind::kThread) {
    return absl::StrCat(
        "is ready, and ", obstacle.have, " ", CoreName(obstacle.core_kind, obstacle.have), " of ",
        chip, obstacle.have == 1 ? " is" : " are",
        " free, but no thread of the daemon takes it: ", now_.sleeping_executors, " of ",
        now_.executors, " executors sleep",
        now_.held_executors == 0 ? ""
                                 : absl::StrCat(", kernels hold ", now_.held_executors,
                                                " threads for "
                                                "long, ",
                                                now_.spare_executors, " of them spare ones"));
  }
  std::string text = absl::StrCat(
      obstacle.ahead ? "has not started, and will wait for " : "is ready and waits for ",
      obstacle.want > 1 ? absl::StrCat(obstacle.want, " of the ") : "one of the ",
      CoreName(obstacle.core_kind, 2), " of ", chip, ": ", obstacle.have, " free");
  if (obstacle.reserved_for.has_value()) {
    absl::StrAppend(&text, ", ", obstacle.reserved == obstacle.have ? "all" : "",
                    obstacle.reserved == obstacle.have ? "" : absl::StrCat(obstacle.reserved),
                    " of them reserved for ", TaskText(run, *obstacle.reserved_for),
                    ", which starts on all its cores at once");
  }
  if (obstacle.have > obstacle.reserved && !obstacle.ahead && obstacle.can_end) {
    absl::StrAppend(&text, "; a thread will take it soon");
  }
  return text;
}

void Describer::Fill(size_t run, const engine::Obstacle& obstacle, Blocked* out) const {
  const engine::RunNow& seen = now_.runs[run];
  const uint32_t first = seen.observer == nullptr ? 0 : seen.observer->first_task();
  out->set_task(uint64_t{first} + obstacle.task);
  out->set_kind(static_cast<Blocked::Kind>(obstacle.kind));
  out->set_task_name(std::string(seen.image().task_name(obstacle.task)));
  out->set_kernel(seen.image().kernel(obstacle.task).name);
  out->set_chip(names::Chip(obstacle.chip));
  out->set_has_have(obstacle.has_have);
  out->set_have(static_cast<uint64_t>(obstacle.have));
  out->set_want(static_cast<uint64_t>(obstacle.want));
  out->set_can_be_satisfied(obstacle.can_end);
  out->set_task_count(obstacle.count);
  out->set_deferred(obstacle.deferred);
  out->set_peer(TaskTexts(run, obstacle.peers));
  if (!obstacle.held.empty()) {
    std::vector<engine::TaskPlace> held;
    for (const engine::HeldSender& sender : obstacle.held) held.push_back(sender.sender);
    out->set_peer(TaskTexts(run, held));
  }
  for (const engine::TaskPlace& place : obstacle.cycle) out->add_cycle(TaskText(run, place));
  for (const engine::TaskPlace& place : obstacle.ended)
    out->add_ended_senders(TaskText(run, place));
  if (obstacle.since_ns != 0) {
    SetDuration(absl::Nanoseconds(std::max<int64_t>(now_.now_ns - obstacle.since_ns, 0)),
                out->mutable_age());
  }
  if (obstacle.until_ns != 0) {
    SetDuration(absl::Nanoseconds(std::max<int64_t>(obstacle.until_ns - now_.now_ns, 0)),
                out->mutable_fails_in());
  }
  switch (obstacle.kind) {
    case Kind::kSignal:
      FillSignal(run, obstacle, out);
      break;
    case Kind::kCopy:
      out->set_reason(absl::StrCat("waits for a copy of ", obstacle.want, " bytes"));
      break;
    case Kind::kBarrier:
      out->set_reason(absl::StrCat("waits at a barrier that ", obstacle.have, " of ", obstacle.want,
                                   " blocks have reached"));
      break;
    case Kind::kCores:
    case Kind::kReservation:
    case Kind::kThread:
      out->set_reason(
          absl::StrCat(CoresText(run, obstacle),
                       obstacle.can_end ? "" : "; the others are held by tasks that wait forever"));
      break;
    case Kind::kPredecessors:
      out->set_reason(absl::StrCat("waits for ", TaskTexts(run, obstacle.peers), ", which waits"));
      break;
    case Kind::kKernel:
      out->set_reason(absl::StrCat("its kernel runs on ", names::Chip(obstacle.chip), " core ",
                                   obstacle.core, obstacle.lane.empty() ? "" : ", on lane ",
                                   obstacle.lane, " and has not returned"));
      break;
    case Kind::kTurn: {
      std::string peers = RunTexts(run, obstacle.runs);
      out->set_reason(absl::StrCat("the run has not begun: it waits for ",
                                   peers.empty() ? "earlier runs" : peers,
                                   " with which it shares memory or a domain's signals"));
      out->set_peer(std::move(peers));
      break;
    }
  }
}

v1::ExplainRunResponse Describer::Describe(absl::Span<const size_t> parts,
                                           absl::Span<const int64_t> idle_ns, int64_t stall_ns,
                                           size_t max_tasks) const {
  Response response;
  response.set_run(NameOf(parts[0]));
  response.set_state(static_cast<v1::Run::State>(now_.runs[parts[0]].state));
  const int64_t idle = *std::min_element(idle_ns.begin(), idle_ns.end());
  SetDuration(absl::Nanoseconds(idle), response.mutable_since_last_progress());
  engine::Verdict verdict = engine::Verdict::kEnded;
  uint64_t more = 0;
  // Hopeless obstacles come first, whatever part they are in.
  for (const bool hopeless : {true, false}) {
    for (const size_t part : parts) {
      const engine::RunNow& run = now_.runs[part];
      const engine::RunDiagnosis found = diagnosis_.Explain(part, idle, stall_ns, max_tasks);
      if (hopeless) {
        if (Weight(found.verdict) > Weight(verdict)) verdict = found.verdict;
        if (run.state != engine::RunState::kQueued) {
          response.set_state(static_cast<v1::Run::State>(run.state));
        }
        response.set_tasks_total(response.tasks_total() + run.image().task_count());
        response.set_tasks_done(response.tasks_done() + run.counts.done);
        if (!run.steady) response.set_inconsistent(true);
        more += found.more;
      }
      for (const engine::Obstacle& obstacle : found.obstacles) {
        if (obstacle.can_end == hopeless) continue;
        if (response.blocked_size() < static_cast<int>(max_tasks)) {
          Fill(part, obstacle, response.add_blocked());
        } else {
          ++more;
        }
      }
    }
  }
  // All parts of an open run agree on this.
  const engine::RunNow& one = now_.runs[parts[0]];
  if (one.linked &&
      (!one.behind.empty() || (one.observer != nullptr && one.observer->next_waits() &&
                               one.observer->next_waits_for() != engine::RunObserver::kNoTask))) {
    FillNextTurn(parts[0], response.add_blocked());
  }
  response.set_more_blocked(more);
  response.set_verdict(static_cast<Response::Verdict>(verdict));
  std::string summary = Headline(verdict);
  if (response.state() == v1::Run::CANCELLING) {
    summary = "The run was stopped; some kernels have not returned yet";
  }
  const engine::RunObserver* const observer = now_.runs[parts[0]].observer.get();
  if (observer != nullptr && observer->held_back()) {
    absl::StrAppend(&summary, "; its client is held back, because the session has reached ",
                    "max_session_live_tasks, or the client max_client_tasks");
  }
  if (response.blocked_size() > 0) {
    const Blocked& first = response.blocked(0);
    const std::string name =
        first.task_name().empty() ? "" : absl::StrCat(" '", first.task_name(), "'");
    absl::StrAppend(
        &summary, ": ",
        first.kind() == Blocked::TURN ? "" : absl::StrCat("task ", first.task(), name, " "),
        first.reason());
    if (first.has_age()) {
      absl::StrAppend(
          &summary, " (for ",
          TimeText(absl::Seconds(first.age().seconds()) + absl::Nanoseconds(first.age().nanos())),
          ")");
    }
  }
  response.set_summary(std::move(summary));
  return response;
}

v1::ExplainRunResponse DescribeIdle(const RunEntry& run, absl::Span<const std::string> before) {
  const RunStatus status = run.Status();
  const auto state = static_cast<v1::Run::State>(status.state);
  Response response;
  response.set_run(run.record().name());
  response.set_state(state);
  response.set_tasks_total(status.tasks_total);
  response.set_tasks_done(status.counts.done);
  engine::Verdict verdict = engine::Verdict::kWaitingForTasks;
  if (engine::IsFinal(status.state)) {
    verdict = engine::Verdict::kEnded;
    response.set_summary(absl::StrCat(Headline(verdict), " as ", v1::Run::State_Name(state)));
  } else if (!before.empty()) {
    verdict = engine::Verdict::kWaitingForTurn;
    Response::BlockedTask* const blocked = response.add_blocked();
    blocked->set_kind(Response::BlockedTask::TURN);
    blocked->set_can_be_satisfied(true);
    blocked->set_peer(absl::StrJoin(before, ", "));
    blocked->set_reason(absl::StrCat("the tasks that have arrived wait for ", blocked->peer(),
                                     ", with which they share memory"));
    response.set_summary(absl::StrCat(Headline(verdict), ": ", blocked->reason()));
  } else {
    // A run that is not open is about to begin, or has ended and is notifying its waiters.
    if (!run.record().open) verdict = engine::Verdict::kProgressing;
    response.set_summary(Headline(verdict));
  }
  response.set_verdict(static_cast<Response::Verdict>(verdict));
  return response;
}

}  // namespace pto::daemon
