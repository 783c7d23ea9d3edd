#include "runtime/engine/snapshot/continuation.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "runtime/engine/run/task_data.h"
#include "runtime/engine/signal/foreign_memory.h"
#include "runtime/engine/signal/signal_word.h"

namespace pto::engine {
namespace {

using State = Situation::State;

constexpr uint32_t kNever = 0xffffffff;
// The maximum number of values that are tracked for a word when its exact value matters.
constexpr size_t kMaxValues = 4096;

}  // namespace

Continuation::Continuation(const Situation& situation, Fails fails)
    : situation_(situation),
      now_(situation.now()),
      fails_(fails),
      flags_(situation.task_count()),
      left_done_(situation.task_count()),
      left_end_(situation.task_count()),
      run_begun_(now_.runs.size()),
      run_ended_(now_.runs.size()),
      run_passed_(now_.runs.size()),
      run_stopped_(now_.runs.size()),
      run_left_(now_.runs.size()),
      run_behind_(now_.runs.size()),
      behind_run_(now_.runs.size()),
      next_behind_(situation.wholes().size()),
      wholes_behind_run_(now_.runs.size()),
      next_begun_(situation.wholes().size()),
      sent_(situation.words().size()),
      waits_for_word_(situation.words().size()),
      holds_(situation.waits().size()),
      left_(situation.waiters().size()) {
  for (const ChipNow& chip : now_.chips) kept_.emplace_back(3 * size_t{chip.clusters});
  available_.resize(now_.chips.size());
  for (const Situation::Wait& wait : situation_.waits()) {
    if (wait.note == nullptr || wait.note->core < 0 || wait.note->chip >= kept_.size()) continue;
    std::vector<uint32_t>& cores = kept_[wait.note->chip];
    const auto core = static_cast<size_t>(wait.note->core);
    if (core < cores.size()) ++cores[core];
  }
  for (uint32_t chip = 0; chip < kept_.size(); ++chip) CountCores(chip);
  // The state before anything happens.
  for (size_t r = 0; r < now_.runs.size(); ++r) {
    const RunNow& run = now_.runs[r];
    run_begun_[r] = run.begun;
    for (uint32_t task = 0; task < run.image().task_count(); ++task) {
      const size_t index = situation_.IndexOf({r, task});
      const State state = situation_.state({r, task});
      if (state == State::kEnded) {
        flags_[index] = kEnded | kDone | kStarted;
        continue;
      }
      ++run_left_[r];
      left_done_[index] = left_end_[index] = situation_.left_before(index);
      if (state == State::kBehind && situation_.poisoned({r, task})) {
        flags_[index] |= kFailedBefore;
        left_done_[index] = kNever;
      }
    }
    if (run.begun) continue;
    for (const size_t before : run.behind) {
      // A segment of an open run may have passed already, while other segments have not.
      std::vector<size_t>& behind = behind_run_[before];
      if (now_.runs[before].linked || std::count(behind.begin(), behind.end(), r) > 0) continue;
      behind.push_back(r);
      ++run_behind_[r];
    }
  }
  for (size_t w = 0; w < situation_.wholes().size(); ++w) {
    for (const size_t before : situation_.wholes()[w].next_behind) {
      wholes_behind_run_[before].push_back(w);
      ++next_behind_[w];
    }
  }
  for (size_t r = 0; r < now_.runs.size(); ++r) {
    const RunNow& run = now_.runs[r];
    if (!run.begun && run_behind_[r] == 0) BeginRun(r);
    if (!run.begun) continue;
    for (uint32_t task = 0; task < run.image().task_count(); ++task) {
      const State state = situation_.state({r, task});
      if (state == State::kReady) steps_.push_back({Step::kStart, {r, task}});
      if (state != State::kUnknown) continue;
      Notify({r, task});
      steps_.push_back({Step::kDone, {r, task}});
    }
    if (run_left_[r] == 0) {
      run_ended_[r] = true;
      PassIfEnded(r);
    }
  }
  for (uint32_t i = 0; i < situation_.waiters().size(); ++i) {
    if (situation_.waiters()[i].now != nullptr) BeginWaiter(i);
  }
  for (size_t w = 0; w < situation_.wholes().size(); ++w) {
    if (situation_.wholes()[w].next_waits && next_behind_[w] == 0) NextMayBegin(w);
  }
}

void Continuation::Settle() {
  while (!steps_.empty() || cores_came_) {
    if (steps_.empty()) {
      RetryCores();
      continue;
    }
    const Step step = steps_.back();
    steps_.pop_back();
    switch (step.kind) {
      case Step::kStart:
        Start(step.place);
        break;
      case Step::kDone:
        Done(step.place);
        break;
      case Step::kFail:
        Fail(step.place);
        break;
    }
  }
}

Continuation::Failing Continuation::FailingOf(const TaskPlace& place) const {
  if (!situation_.timed(place)) return Failing::kNo;
  if (fails_.all_may) return Failing::kMay;
  const size_t index = situation_.IndexOf(place);
  const auto found = std::lower_bound(fails_.timed->begin(), fails_.timed->end(), index);
  if (found == fails_.timed->end() || *found != index) return Failing::kNo;
  return (fails_.bits >> (found - fails_.timed->begin()) & 1) != 0 ? Failing::kYes : Failing::kNo;
}

// ---- runs

void Continuation::BeginRun(size_t r) {
  if (run_begun_[r]) return;
  run_begun_[r] = true;
  if (run_stopped_[r]) return;
  const GraphImage& image = now_.runs[r].image();
  for (const uint32_t root : image.roots()) {
    if (left_done_[situation_.IndexOf({r, root})] == 0) steps_.push_back({Step::kStart, {r, root}});
  }
}

void Continuation::PassIfEnded(size_t r) {
  // A run that is stopped while it waits for its turn keeps its place.
  if (!run_ended_[r] || run_passed_[r] || (!now_.runs[r].begun && run_behind_[r] > 0)) return;
  run_passed_[r] = true;
  for (const size_t next : behind_run_[r]) {
    if (--run_behind_[next] > 0) continue;
    BeginRun(next);
    PassIfEnded(next);
  }
  for (const size_t whole : wholes_behind_run_[r]) {
    if (--next_behind_[whole] == 0 && situation_.wholes()[whole].next_waits) NextMayBegin(whole);
  }
}

void Continuation::NextMayBegin(size_t whole) {
  if (next_begun_[whole]) return;
  next_begun_[whole] = true;
  // What these tasks do is unknown, but they can use the memory of their session.
  const Account* const account = now_.runs[situation_.wholes()[whole].runs[0]].run->account().get();
  any_sent_for_.push_back(account);
  for (uint32_t i = 0; i < situation_.waits().size(); ++i) {
    const Situation::Wait& wait = situation_.waits()[i];
    if (now_.runs[wait.place.run].run->account().get() != account) continue;
    const uint32_t waiter = situation_.WaiterOf(situation_.IndexOf(wait.place));
    if (left_[waiter].started && wait.word != Situation::kNone) Hold(i);
  }
}

bool Continuation::more_may_come(size_t w) const {
  const Situation::Whole& whole = situation_.wholes()[w];
  if (!whole.open) return false;
  if (whole.next_waits) return next_begun_[w];
  if (!whole.held_back) return true;
  // There is room once runs of the session have ended.
  const auto account = now_.runs[whole.runs[0]].run->account();
  for (size_t r = 0; r < now_.runs.size(); ++r) {
    if (run_ended_[r] && now_.runs[r].run->account() == account) return true;
  }
  return false;
}

void Continuation::Stop(size_t whole, bool may) {
  for (const size_t r : situation_.wholes()[whole].runs) {
    if (run_ended_[r]) continue;
    run_stopped_[r] = !may;
    for (uint32_t task = 0; task < now_.runs[r].image().task_count(); ++task) {
      if (!task_ended(situation_.IndexOf({r, task}))) steps_.push_back({Step::kFail, {r, task}});
    }
  }
}

// ---- tasks

void Continuation::Start(const TaskPlace& place) {
  uint8_t& flags = flags_[situation_.IndexOf(place)];
  if ((flags & (kStarted | kDone)) != 0 || run_stopped_[place.run]) return;
  flags |= kWasReady;
  const ImageTask& task = now_.runs[place.run].image().tasks()[place.task];
  if ((task.traits & kTaskPredicated) != 0) {
    // Its predicate may or may not hold.
    flags |= kStarted;
    Notify(place);
    Done(place);
  } else if ((task.traits & kTaskControl) != 0) {
    flags |= kStarted;
    StartControl(place);
  } else if (HasCores(place)) {
    flags |= kStarted;
    RunKernel(place);
  } else {
    want_cores_.push_back(place);
  }
}

void Continuation::StartControl(const TaskPlace& place) {
  switch (now_.runs[place.run].image().kernel(place.task).control) {
    case PTO_CONTROL_NOTIFY:
      Notify(place);
      break;
    case PTO_CONTROL_WAIT: {
      const uint32_t waiter = situation_.WaiterOf(situation_.IndexOf(place));
      if (waiter == Situation::kNone) break;
      BeginWaiter(waiter);
      return;
    }
    case PTO_CONTROL_COPY: {
      const Failing failing = FailingOf(place);
      if (failing != Failing::kNo) Fail(place);
      if (failing == Failing::kYes) return;
      break;
    }
    default:
      break;
  }
  Done(place);
}

void Continuation::RunKernel(const TaskPlace& place) {
  const ImageTask& task = now_.runs[place.run].image().tasks()[place.task];
  // Its first blocks may have failed already, unless all blocks start together.
  const bool failed = situation_.state(place) == State::kReady && situation_.poisoned(place) &&
                      (task.traits & kTaskGang) == 0;
  const Failing failing = failed ? Failing::kYes : FailingOf(place);
  Notify(place);
  if (failing != Failing::kNo) Fail(place);
  if (failing != Failing::kYes) Done(place);
}

void Continuation::Done(const TaskPlace& place) {
  uint8_t& flags = flags_[situation_.IndexOf(place)];
  if ((flags & kDone) != 0) return;
  flags |= kDone | kStarted;
  ForAfter(place, [&](const TaskPlace& next) {
    uint32_t& left = left_done_[situation_.IndexOf(next)];
    if (left != kNever && --left == 0 && run_begun_[next.run]) {
      steps_.push_back({Step::kStart, next});
    }
  });
  End(place);
}

void Continuation::Fail(const TaskPlace& place) {
  const size_t index = situation_.IndexOf(place);
  if (task_ended(index)) return;
  ForAfter(place,
           [&](const TaskPlace& next) { flags_[situation_.IndexOf(next)] |= kFailedBefore; });
  End(place);
}

void Continuation::End(const TaskPlace& place) {
  const size_t index = situation_.IndexOf(place);
  if (task_ended(index)) return;
  flags_[index] |= kEnded;
  // Cores that its waiting blocks still hold.
  if (const uint32_t waiter = situation_.WaiterOf(index); waiter != Situation::kNone) {
    const Situation::Waiter& known = situation_.waiters()[waiter];
    for (uint32_t i = 0; i < known.wait_count; ++i) {
      const uint32_t wait = known.first_wait + i;
      if (!holds_[wait] && situation_.waits()[wait].note != nullptr) {
        ReleaseCore(*situation_.waits()[wait].note);
      }
    }
  }
  ForAfter(place, [&](const TaskPlace& next) {
    const size_t after = situation_.IndexOf(next);
    // A task behind a failed one is skipped as soon as all tasks before it have ended.
    if (--left_end_[after] == 0 && (flags_[after] & kFailedBefore) != 0) {
      steps_.push_back({Step::kFail, next});
    }
  });
  if (--run_left_[place.run] > 0) return;
  run_ended_[place.run] = true;
  PassIfEnded(place.run);
}

template <typename Use>
void Continuation::ForAfter(const TaskPlace& place, Use use) {
  for (const uint32_t next : now_.runs[place.run].image().successors(place.task)) {
    use({place.run, next});
  }
  for (const TaskPlace& next : situation_.LinkedAfter(situation_.IndexOf(place))) use(next);
}

// ---- waits

void Continuation::BeginWaiter(uint32_t number) {
  const Situation::Waiter& waiter = situation_.waiters()[number];
  const TaskPlace place = waiter.place;
  const RunNow& run = now_.runs[place.run];
  Left& left = left_[number];
  left.started = true;
  // The parts of the snapshot may be from different moments, or the task is being stopped.
  if (waiter.now != nullptr && situation_.state(place) != State::kWaiting) {
    for (uint32_t i = 0; i < waiter.wait_count; ++i) Hold(waiter.first_wait + i);
    return;
  }
  Failing failing = FailingOf(place);
  const bool all_end = situation_.task_timed(place);
  std::vector<uint32_t> hold;
  bool waits = false;
  for (uint32_t i = 0; i < waiter.wait_count; ++i) {
    const uint32_t number_of_wait = waiter.first_wait + i;
    const Situation::Wait& wait = situation_.waits()[number_of_wait];
    if (wait.barrier) continue;
    waits = true;
    if (wait.word != Situation::kNone) waits_for_word_[wait.word].push_back(number_of_wait);
    if (wait.word == Situation::kNone || CanHold(wait)) hold.push_back(number_of_wait);
    // A wait that always holds cannot time out.
    if (waiter.now == nullptr && AlwaysHolds(wait)) failing = Failing::kNo;
    ++left.done;
    if (failing == Failing::kNo || !(wait.timed || all_end)) ++left.end;
  }
  // Blocks that have not started, if no waiting block of the task gives them a core.
  const bool keeps_core =
      waiter.now != nullptr && std::any_of(waiter.now->waits.begin(), waiter.now->waits.end(),
                                           [](const WaitNote& note) { return note.core >= 0; });
  const bool rest = waiter.now != nullptr && !waiter.now->whole;
  if (rest && (run.moves || HasCores(place))) {
    Notify(place);
  } else if (rest) {
    want_cores_.push_back(place);
    if (!keeps_core) {
      ++left.done;
      if (failing == Failing::kNo) ++left.end;
    }
  }
  // All blocks meet at a barrier, and no more blocks arrive.
  if (!waits && !rest && failing == Failing::kNo) left.end = kNever;
  if (failing == Failing::kYes || (waiter.now != nullptr && waiter.now->failed) ||
      (!waits && !rest)) {
    left.done = kNever;
  }
  // Only when everything is counted. Tasks that run out of time do so before their waits hold.
  if (failing != Failing::kNo && left.end == 0) Check(number);
  for (const uint32_t wait : hold) Hold(wait);
  if (!waits) Check(number);
}

void Continuation::Hold(uint32_t number) {
  if (holds_[number]) return;
  const Situation::Wait& wait = situation_.waits()[number];
  const uint32_t waiter = situation_.WaiterOf(situation_.IndexOf(wait.place));
  const bool ended = task_ended(situation_.IndexOf(wait.place));
  holds_[number] = true;
  if (wait.note != nullptr && !ended) ReleaseCore(*wait.note);
  if (wait.barrier) return;
  Left& left = left_[waiter];
  const bool counted = FailingOf(wait.place) == Failing::kNo ||
                       !(wait.timed || situation_.task_timed(wait.place)) ||
                       (situation_.waiters()[waiter].now == nullptr && AlwaysHolds(wait));
  if (left.done != kNever && left.done > 0) --left.done;
  if (counted && left.end != kNever && left.end > 0) --left.end;
  Check(waiter);
}

void Continuation::Check(uint32_t number) {
  const Left& left = left_[number];
  const Situation::Waiter& waiter = situation_.waiters()[number];
  if (run_stopped_[waiter.place.run]) return;
  if (left.done == 0) {
    // A kernel that waited continues, and may notify then.
    const bool returned =
        waiter.now == nullptr ||
        (waiter.now->whole &&
         std::all_of(waiter.now->waits.begin(), waiter.now->waits.end(),
                     [](const WaitNote& note) { return note.kind == WaitNote::Kind::kDeferred; }));
    if (!returned) Notify(waiter.place);
    steps_.push_back({Step::kDone, waiter.place});
  } else if (left.end == 0) {
    steps_.push_back({Step::kFail, waiter.place});
  }
}

// ---- signals

void Continuation::Notify(const TaskPlace& place) {
  const size_t index = situation_.IndexOf(place);
  if ((flags_[index] & kNotified) != 0) return;
  flags_[index] |= kNotified;
  for (const Situation::Notice& notice : situation_.NoticesOf(index)) {
    Sent& sent = sent_[notice.word];
    if (notice.op == 0) {
      sent.anything = true;
    } else if (notice.op == PTO_SET) {
      sent.least_set = sent.has_set ? std::min(sent.least_set, notice.value) : notice.value;
      sent.most_set = sent.has_set ? std::max(sent.most_set, notice.value) : notice.value;
      sent.has_set = true;
    } else if (notice.op == PTO_ADD) {
      (notice.value < 0 ? sent.less : sent.more) += notice.value;
    } else {
      continue;  // invalid notification: the task fails
    }
    sent.notices.push_back(notice);
    // A copy, because waits that hold now may start other waits.
    const std::vector<uint32_t> waits = waits_for_word_[notice.word];
    for (const uint32_t wait : waits) {
      if (!holds_[wait] && CanHold(situation_.waits()[wait])) Hold(wait);
    }
  }
}

bool Continuation::AlwaysHolds(const Situation::Wait& wait) const {
  const Situation::Word& word = situation_.words()[wait.word];
  const auto compare = static_cast<pto_compare>(wait.compare);
  if (!now_.runs[wait.place.run].begun || !Compares(compare, word.have, wait.value)) return false;
  return std::all_of(word.senders.begin(), word.senders.end(), [&](const Sender& sender) {
    if (situation_.state(sender.place) == State::kEnded) return true;
    if (sender.op == PTO_SET) return Compares(compare, sender.value, wait.value);
    if (sender.op != PTO_ADD) return false;
    if (compare == PTO_GE || compare == PTO_GT) return sender.value >= 0;
    if (compare == PTO_LE || compare == PTO_LT) return sender.value <= 0;
    return sender.value == 0;
  });
}

bool Continuation::CanHold(const Situation::Wait& wait) const {
  const Situation::Word& word = situation_.words()[wait.word];
  // Code on lanes changes words in its memory, and nobody knows which.
  if (ForeignMemory::OfProcess().Contains(word.address)) {
    if (situation_.HasLaneTaskBeside(wait.place)) return true;
  } else if (word.dtype == PTO_U32 || word.dtype == PTO_U64) {
    return true;
  }
  const Sent& sent = sent_[wait.word];
  if (sent.anything) return true;
  const Account* const account = now_.runs[wait.place.run].run->account().get();
  if (std::count(any_sent_for_.begin(), any_sent_for_.end(), account) > 0) return true;
  // The signals of a domain are zero when a run that uses them begins.
  std::vector<int64_t> bases = {word.have};
  if (!now_.runs[wait.place.run].begun) bases.push_back(0);
  const __int128 low_end = word.dtype == PTO_I32 ? std::numeric_limits<int32_t>::min()
                                                 : std::numeric_limits<int64_t>::min();
  const __int128 high_end = word.dtype == PTO_I32 ? std::numeric_limits<int32_t>::max()
                                                  : std::numeric_limits<int64_t>::max();
  for (const int64_t base : bases) {
    const __int128 least =
        std::min<__int128>(base, sent.has_set ? sent.least_set : base) + sent.less;
    const __int128 most = std::max<__int128>(base, sent.has_set ? sent.most_set : base) + sent.more;
    // Additions wrap around.
    if (least < low_end || most > high_end) return true;
    const __int128 value = wait.value;
    bool can = false;
    switch (static_cast<pto_compare>(wait.compare)) {
      case PTO_GE:
        can = most >= value;
        break;
      case PTO_GT:
        can = most > value;
        break;
      case PTO_LE:
        can = least <= value;
        break;
      case PTO_LT:
        can = least < value;
        break;
      case PTO_NE:
        can = least != value || most != value;
        break;
      case PTO_EQ:
        can = least <= value && value <= most && CanBeEqual(sent, base, wait.value);
        break;
    }
    if (can) return true;
  }
  return false;
}

bool Continuation::CanBeEqual(const Sent& sent, int64_t base, int64_t value) {
  std::vector<int64_t> values = {base};
  for (const Situation::Notice& notice : sent.notices) {
    if (notice.op == PTO_SET) values.push_back(notice.value);
  }
  for (const Situation::Notice& notice : sent.notices) {
    if (notice.op != PTO_ADD) continue;
    const size_t before = values.size();
    for (size_t i = 0; i < before; ++i) values.push_back(values[i] + notice.value);
    std::sort(values.begin(), values.end());
    values.erase(std::unique(values.begin(), values.end()), values.end());
    if (values.size() > kMaxValues) return true;
  }
  return std::find(values.begin(), values.end(), value) != values.end();
}

// ---- cores

void Continuation::ReleaseCore(const WaitNote& note) {
  if (note.core < 0 || note.chip >= kept_.size()) return;
  std::vector<uint32_t>& cores = kept_[note.chip];
  const auto core = static_cast<size_t>(note.core);
  if (core >= cores.size() || cores[core] == 0) return;
  --cores[core];
  CountCores(note.chip);
  cores_came_ = true;
}

void Continuation::CountCores(uint32_t chip) {
  available_[chip] = {};
  const size_t n = now_.chips[chip].clusters;
  // A block on a cluster holds all of it, whichever of its lanes waits.
  std::vector<bool> whole(n);
  for (const CoreNow& core : now_.chips[chip].cores) {
    if (core.kind == PTO_MIX && core.core < n) whole[core.core] = true;
  }
  for (size_t cluster = 0; cluster < n; ++cluster) {
    bool aic = kept_[chip][cluster] > 0;
    bool first = kept_[chip][n + 2 * cluster] > 0, second = kept_[chip][n + 2 * cluster + 1] > 0;
    if (whole[cluster] && (aic || first || second)) aic = first = second = true;
    available_[chip][PTO_AIC] += aic ? 0 : 1;
    available_[chip][PTO_AIV] += (first ? 0 : 1) + (second ? 0 : 1);
    available_[chip][PTO_MIX] += aic || first || second ? 0 : 1;
  }
}

bool Continuation::HasCores(const TaskPlace& place) const {
  const GraphImage& image = now_.runs[place.run].image();
  const ImageTask& task = image.tasks()[place.task];
  const uint32_t need = (task.traits & kTaskGang) != 0 ? task.block_num : 1;
  const ImageDetail* const detail = image.detail(place.task);
  const uint32_t own_chip = task.chip;
  const absl::Span<const uint32_t> chips =
      detail == nullptr ? absl::MakeConstSpan(&own_chip, 1) : image.members(*detail);
  return std::all_of(chips.begin(), chips.end(),
                     [&](uint32_t chip) { return available_[chip][task.core] >= need; });
}

void Continuation::RetryCores() {
  cores_came_ = false;
  std::vector<TaskPlace> want = std::move(want_cores_);
  want_cores_.clear();
  for (const TaskPlace& place : want) {
    const size_t index = situation_.IndexOf(place);
    const uint32_t waiter = situation_.WaiterOf(index);
    if (waiter == Situation::kNone || situation_.waiters()[waiter].now == nullptr) {
      steps_.push_back({Step::kStart, place});
    } else if (run_stopped_[place.run]) {
      continue;
    } else if (!HasCores(place)) {
      want_cores_.push_back(place);
    } else {
      // Blocks that have not started, of a task with waiting blocks.
      Notify(place);
      const Situation::Waiter& known = situation_.waiters()[waiter];
      const bool keeps_core = std::any_of(known.now->waits.begin(), known.now->waits.end(),
                                          [](const WaitNote& note) { return note.core >= 0; });
      if (keeps_core) continue;
      Left& left = left_[waiter];
      if (left.done != kNever && left.done > 0) --left.done;
      if (FailingOf(place) == Failing::kNo && left.end != kNever && left.end > 0) --left.end;
      Check(waiter);
    }
  }
}

}  // namespace pto::engine
