#include "runtime/engine/snapshot/blockage.h"

#include <algorithm>
#include <utility>

namespace pto::engine {
namespace {

using State = Situation::State;

// All combinations are tried for up to kMaxTimed tasks and kMaxDeadlines runs with deadlines, if
// that takes at most kMaxSteps steps, which is less than a second.
constexpr uint64_t kMaxSteps = 2'000'000;
constexpr size_t kMaxTimed = 8;
constexpr size_t kMaxDeadlines = 3;

constexpr uint64_t kNobody = ~uint64_t{0};

uint64_t Pack(const TaskPlace& place) { return uint64_t{place.run} << 32 | place.task; }
TaskPlace Unpack(uint64_t packed) {
  return {static_cast<size_t>(packed >> 32), static_cast<uint32_t>(packed)};
}

}  // namespace

Blockage::Blockage(const EngineNow& now)
    : now_(now),
      situation_(now),
      run_can_end_(now.runs.size()),
      run_can_pass_(now.runs.size()),
      run_can_begin_(now.runs.size()),
      can_end_(situation_.task_count()),
      can_be_ready_(situation_.task_count()),
      can_start_(situation_.task_count()),
      can_notify_(situation_.task_count()),
      can_hold_(situation_.waits().size()),
      blocker_(situation_.task_count(), kNobody) {
  Explore();
  FindBlockers();
}

void Blockage::Explore() {
  std::vector<size_t> timed;
  uint64_t size = 1;
  for (size_t r = 0; r < now_.runs.size(); ++r) {
    const GraphImage& image = now_.runs[r].image();
    size += image.task_count() + image.edge_count();
    // Most runs have no limits, so they have no such tasks.
    const bool may_be =
        now_.runs[r].run->task_timeout_ns() > 0 || now_.runs[r].run->wait_timeout_ns() > 0 ||
        (image.traits() & (kTaskTimed | kTaskControl)) != 0 || !now_.runs[r].waiting.empty();
    for (uint32_t task = 0; may_be && task < image.task_count(); ++task) {
      const TaskPlace place{r, task};
      const State state = situation_.state(place);
      if (state == State::kEnded || state == State::kUnknown || !situation_.timed(place)) continue;
      timed.push_back(situation_.IndexOf(place));
    }
  }
  const auto wholes = situation_.wholes();
  const auto deadlines = static_cast<size_t>(
      std::count_if(wholes.begin(), wholes.end(),
                    [](const Situation::Whole& whole) { return whole.has_deadline; }));
  const bool few = timed.size() <= kMaxTimed && deadlines <= kMaxDeadlines &&
                   size << timed.size() << 2 * deadlines < kMaxSteps;
  if (!few) {
    Continuation all(situation_, {.timed = &timed, .bits = 0, .all_may = true});
    for (size_t whole = 0; whole < wholes.size(); ++whole) {
      if (wholes[whole].has_deadline) all.Stop(whole, /*may=*/true);
    }
    all.Settle();
    Merge(all);
    return;
  }
  for (uint64_t bits = 0; bits < uint64_t{1} << timed.size(); ++bits) {
    Follow(Continuation(situation_, {.timed = &timed, .bits = bits, .all_may = false}));
  }
}

void Blockage::Follow(Continuation continuation) {
  continuation.Settle();
  Merge(continuation);
  for (size_t whole = 0; whole < situation_.wholes().size(); ++whole) {
    const Situation::Whole& known = situation_.wholes()[whole];
    if (!known.has_deadline) continue;
    if (std::all_of(known.runs.begin(), known.runs.end(),
                    [&](size_t run) { return continuation.ended(run); })) {
      continue;
    }
    Continuation next = continuation;
    next.Stop(whole, /*may=*/false);
    Follow(std::move(next));
  }
}

void Blockage::Merge(const Continuation& continuation) {
  for (size_t r = 0; r < now_.runs.size(); ++r) {
    if (continuation.ended(r) ||
        (now_.runs[r].linked && continuation.more_may_come(situation_.WholeOf(r)))) {
      run_can_end_[r] = true;
    }
    if (continuation.passed(r)) run_can_pass_[r] = true;
    if (continuation.begun(r)) run_can_begin_[r] = true;
  }
  for (size_t i = 0; i < can_end_.size(); ++i) {
    if (continuation.task_ended(i)) can_end_[i] = true;
    if (continuation.task_ready(i)) can_be_ready_[i] = true;
    if (continuation.task_started(i)) can_start_[i] = true;
    if (continuation.task_notified(i)) can_notify_[i] = true;
  }
  for (size_t i = 0; i < can_hold_.size(); ++i) {
    if (continuation.holds(i)) can_hold_[i] = true;
  }
}

// ---- dependencies between tasks

void Blockage::SpreadBlockers(std::vector<TaskPlace> seeds) {
  std::vector<TaskPlace> queue;
  const auto add = [&](const TaskPlace& place, uint64_t blocker) {
    uint64_t& known = blocker_[situation_.IndexOf(place)];
    if (known != kNobody) return;
    known = blocker;
    queue.push_back(place);
  };
  for (const TaskPlace& place : seeds) add(place, Pack(place));
  for (size_t i = 0; i < queue.size(); ++i) {
    const TaskPlace from = queue[i];
    const uint64_t blocker = blocker_[situation_.IndexOf(from)];
    for (const uint32_t next : now_.runs[from.run].image().successors(from.task)) {
      add({from.run, next}, blocker);
    }
    for (const TaskPlace& next : situation_.LinkedAfter(situation_.IndexOf(from))) {
      add(next, blocker);
    }
  }
}

void Blockage::FindBlockers() {
  std::vector<TaskPlace> stuck, stuck_ahead, others, ahead;
  for (size_t r = 0; r < now_.runs.size(); ++r) {
    if (!now_.runs[r].begun) continue;
    for (uint32_t task = 0; task < now_.runs[r].image().task_count(); ++task) {
      const TaskPlace place{r, task};
      const State state = situation_.state(place);
      if (state != State::kWaiting && state != State::kReady) continue;
      (CanEnd(place) ? others : stuck).push_back(place);
    }
  }
  for (const Situation::Waiter& waiter : situation_.waiters()) {
    if (waiter.now != nullptr || CanHold(waiter.first_wait) || !CanBeReady(waiter.place)) continue;
    (CanEnd(waiter.place) ? ahead : stuck_ahead).push_back(waiter.place);
  }
  // If several tasks are before a task, name one that cannot end.
  SpreadBlockers(std::move(stuck));
  SpreadBlockers(std::move(stuck_ahead));
  SpreadBlockers(std::move(others));
  SpreadBlockers(std::move(ahead));
}

absl::optional<TaskPlace> Blockage::WaitsFor(const TaskPlace& place) const {
  const uint64_t blocker = blocker_[situation_.IndexOf(place)];
  if (blocker == kNobody) return absl::nullopt;
  return Unpack(blocker);
}

absl::optional<TaskPlace> Blockage::KeepsCoresFrom(const TaskPlace& place) const {
  const GraphImage& image = now_.runs[place.run].image();
  const ImageDetail* const detail = image.detail(place.task);
  const uint32_t own_chip = image.tasks()[place.task].chip;
  const absl::Span<const uint32_t> chips =
      detail == nullptr ? absl::MakeConstSpan(&own_chip, 1) : image.members(*detail);
  absl::optional<TaskPlace> keeps;
  for (const Situation::Wait& wait : situation_.waits()) {
    if (wait.note == nullptr || wait.note->core < 0) continue;
    if (std::count(chips.begin(), chips.end(), wait.note->chip) == 0) continue;
    if (!CanEnd(wait.place)) return wait.place;
    if (!keeps.has_value()) keeps = wait.place;
  }
  return keeps;
}

absl::optional<HeldSender> Blockage::HeldUp(const TaskPlace& sender) const {
  HeldSender held;
  held.sender = sender;
  const State state = situation_.state(sender);
  if (state == State::kEnded || state == State::kUnknown) return absl::nullopt;
  const RunNow& run = now_.runs[sender.run];
  if (!run.begun) {
    held.why = HeldSender::Why::kTurn;
    for (const size_t before : run.behind) {
      if (CanPass(before)) continue;
      held.run = before;
      for (const WaitingTask& task : now_.runs[before].waiting) {
        if (!held.by.has_value() && !CanEnd({before, task.task})) {
          held.by = TaskPlace{before, task.task};
        }
      }
      return held;
    }
    if (run.behind.empty()) return absl::nullopt;
    held.run = run.behind[0];
    // The sender can begin, but a task before it waits for a value that never comes.
    if (const absl::optional<TaskPlace> before = WaitsFor(sender);
        before.has_value() && !(*before == sender)) {
      held.why = HeldSender::Why::kTasks;
      held.by = before;
    }
    return held;
  }
  const absl::optional<TaskPlace> before = WaitsFor(sender);
  if (!before.has_value()) return absl::nullopt;
  held.by = before;
  if (!(*before == sender)) return held;
  if (state == State::kWaiting) {
    held.why = HeldSender::Why::kItself;
    return held;
  }
  held.why = HeldSender::Why::kCores;
  held.by = KeepsCoresFrom(sender);
  return held;
}

std::vector<TaskPlace> Blockage::CycleFrom(const TaskPlace& place) const {
  constexpr size_t kLongest = 64;
  std::vector<TaskPlace> path = {place};
  while (path.size() < kLongest) {
    const uint32_t waiter = situation_.WaiterOf(situation_.IndexOf(path.back()));
    absl::optional<TaskPlace> next;
    if (waiter != Situation::kNone) {
      const Situation::Waiter& known = situation_.waiters()[waiter];
      for (uint32_t i = 0; i < known.wait_count && !next.has_value(); ++i) {
        const Situation::Wait& wait = situation_.waits()[known.first_wait + i];
        if (wait.word == Situation::kNone || CanHold(known.first_wait + i)) continue;
        const std::vector<Sender>& senders = situation_.words()[wait.word].senders;
        // If there are `notify` tasks for the word, kernels that might notify it are ignored.
        const bool exact = std::any_of(senders.begin(), senders.end(),
                                       [](const Sender& sender) { return sender.op != 0; });
        for (const Sender& sender : senders) {
          if (next.has_value() || (sender.op != 0) != exact) continue;
          const absl::optional<HeldSender> held = HeldUp(sender.place);
          if (held.has_value()) next = held->by;
        }
      }
    } else if (situation_.state(path.back()) == State::kReady) {
      next = KeepsCoresFrom(path.back());
    }
    if (!next.has_value()) return {};
    const auto seen = std::find(path.begin(), path.end(), *next);
    if (seen != path.end()) return {seen, path.end()};
    path.push_back(*next);
  }
  return {};
}

}  // namespace pto::engine
