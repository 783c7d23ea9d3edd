#include "runtime/engine/snapshot/diagnosis.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "kernels/dtype.h"
#include "runtime/engine/lane/lane_port.h"

namespace pto::engine {
namespace {

// The maximum number of tasks that are named.
constexpr size_t kFew = 3;

// A thread takes a ready task that has a core within this time, unless all threads are busy.
constexpr int64_t kThreadNs = 1'000'000'000;

// The name of the first lane that runs kernels of the task; empty if there is none.
std::string LaneOf(const GraphImage& image, uint32_t task) {
  const uint32_t lanes = image.cluster_lanes(task);
  for (uint32_t i = 0; i < 3; ++i) {
    if ((lanes >> i & 1) == 0) continue;
    if (const LanePort* const lane = image.lane(image.kernel_index(task, i))) return lane->name();
  }
  return "";
}

}  // namespace

uint32_t Diagnosis::FreeCores(uint32_t chip, pto_core kind) const {
  const uint32_t n = now_.chips[chip].clusters;
  std::vector<bool> taken(3 * size_t{n});
  for (const CoreNow& core : now_.chips[chip].cores) {
    taken[core.core] = true;
    if (core.kind != PTO_MIX) continue;
    taken[n + 2 * core.core] = taken[n + 2 * core.core + 1] = true;
  }
  uint32_t free = 0;
  for (uint32_t cluster = 0; cluster < n; ++cluster) {
    const uint32_t vectors =
        (taken[n + 2 * cluster] ? 0 : 1) + (taken[n + 2 * cluster + 1] ? 0 : 1);
    if (kind == PTO_AIC) free += taken[cluster] ? 0 : 1;
    if (kind == PTO_AIV) free += vectors;
    if (kind == PTO_MIX) free += !taken[cluster] && vectors == 2 ? 1 : 0;
  }
  return free;
}

bool Diagnosis::ThreadsAreBusy() const {
  // Each core with a block that neither waits nor runs on a lane occupies a thread.
  size_t busy = 0;
  for (const ChipNow& chip : now_.chips) {
    busy += static_cast<size_t>(std::count_if(chip.cores.begin(), chip.cores.end(),
                                              [](const CoreNow& core) { return !core.posted; }));
  }
  for (const RunNow& run : now_.runs) {
    for (const WaitingTask& task : run.waiting) {
      for (const WaitNote& note : task.waits) busy -= note.core >= 0 && busy > 0 ? 1 : 0;
    }
  }
  return busy > 0 && busy >= now_.executors;
}

void Diagnosis::AddReserved(Obstacle* obstacle) const {
  const ChipNow& chip = now_.chips[obstacle->chip];
  const auto run = std::find_if(now_.runs.begin(), now_.runs.end(), [&](const RunNow& other) {
    return other.run.get() == chip.gang_run;
  });
  if (run == now_.runs.end() || chip.gang_task >= run->image().task_count()) return;
  const auto gang_kind = static_cast<pto_core>(run->image().tasks()[chip.gang_task].core);
  uint32_t reserved = 0;
  if (gang_kind == obstacle->core_kind) {
    reserved = chip.gang_have;
  } else if (gang_kind == PTO_MIX) {
    reserved = chip.gang_have * (obstacle->core_kind == PTO_AIV ? 2 : 1);
  } else if (obstacle->core_kind == PTO_MIX) {
    // The number of clusters of these cores is unknown; this is the minimum.
    reserved = (chip.gang_have + (gang_kind == PTO_AIV ? 1 : 0)) / (gang_kind == PTO_AIV ? 2 : 1);
  }
  // The two numbers may be from different moments.
  obstacle->reserved = std::min<uint32_t>(reserved, static_cast<uint32_t>(obstacle->have));
  if (obstacle->reserved == 0) return;
  obstacle->reserved_for = TaskPlace{static_cast<size_t>(run - now_.runs.begin()), chip.gang_task};
}

Obstacle Diagnosis::OfBarrier(const Situation::Wait& wait, Obstacle obstacle) const {
  const RunNow& run = now_.runs[wait.place.run];
  const Situation& situation = blockage_.situation();
  const uint32_t waiter = situation.WaiterOf(situation.IndexOf(wait.place));
  const std::vector<WaitNote>& waits = situation.waiters()[waiter].now->waits;
  obstacle.kind = Obstacle::Kind::kBarrier;
  obstacle.has_have = true;
  obstacle.have = std::count_if(waits.begin(), waits.end(), [&](const WaitNote& other) {
    return other.address == wait.note->address;
  });
  obstacle.want = run.image().calls(wait.place.task);
  obstacle.can_end = blockage_.CanEnd(wait.place);
  return obstacle;
}

Obstacle Diagnosis::OfWait(uint32_t number) const {
  const Situation::Wait& wait = blockage_.situation().waits()[number];
  const RunNow& run = now_.runs[wait.place.run];
  const WaitNote* const note = wait.note;
  Obstacle obstacle;
  obstacle.wait = number;
  obstacle.task = wait.place.task;
  obstacle.ahead = note == nullptr;
  obstacle.chip = note == nullptr ? run.image().tasks()[wait.place.task].chip : note->chip;
  if (note != nullptr) {
    obstacle.block = note->block;
    obstacle.deferred = note->kind == WaitNote::Kind::kDeferred;
    obstacle.core = note->core;
    obstacle.since_ns = note->since_ns;
    obstacle.until_ns = note->until_ns;
    if (note->copy_bytes >= 0) {
      obstacle.kind = Obstacle::Kind::kCopy;
      obstacle.want = note->copy_bytes;
      return obstacle;
    }
  }
  obstacle.compare = wait.compare;
  obstacle.want = wait.value;
  if (wait.barrier) return OfBarrier(wait, std::move(obstacle));
  if (wait.word == Situation::kNone) return obstacle;
  const Situation::Word& word = blockage_.situation().words()[wait.word];
  const SlotNow* const slot = blockage_.situation().SlotOf(wait.place.run, word.address);
  if (slot == nullptr) return obstacle;
  obstacle.slot = slot->slot;
  obstacle.slot_name = slot->name;
  obstacle.has_have = true;
  obstacle.have = word.have;
  obstacle.element =
      static_cast<uint64_t>(static_cast<const std::byte*>(word.address) - slot->begin) /
      std::max<uint64_t>(kernels::DtypeSize(word.dtype), 1);
  for (const Sender& sender : word.senders) {
    if (obstacle.peers.size() < kFew && !(sender.place == wait.place) &&
        blockage_.CanNotify(sender.place)) {
      obstacle.peers.push_back(sender.place);
    }
  }
  obstacle.can_end = blockage_.CanHold(number);
  // Without a possible end, the senders do not explain the wait.
  if (!obstacle.can_end) obstacle.peers.clear();
  return obstacle;
}

void Diagnosis::Blame(size_t r, Obstacle* obstacle) const {
  if (obstacle->kind != Obstacle::Kind::kSignal || obstacle->can_end) return;
  const TaskPlace own{r, obstacle->task};
  obstacle->cycle = blockage_.CycleFrom(own);
  const Situation::Wait& wait = blockage_.situation().waits()[*obstacle->wait];
  const std::vector<Sender>& senders = blockage_.situation().words()[wait.word].senders;
  // If there are `notify` tasks for the word, kernels that might notify it are not named.
  const bool exact = std::any_of(senders.begin(), senders.end(),
                                 [](const Sender& sender) { return sender.op != 0; });
  for (const Sender& sender : senders) {
    if ((sender.op != 0) != exact || sender.place == own) continue;
    if (blockage_.situation().state(sender.place) == Situation::State::kEnded) {
      if (obstacle->ended.size() < kFew) obstacle->ended.push_back(sender.place);
      continue;
    }
    const absl::optional<HeldSender> held = blockage_.HeldUp(sender.place);
    if (held.has_value() && !blockage_.CanNotify(sender.place) && obstacle->held.size() < kFew) {
      obstacle->held.push_back(*held);
    }
  }
}

void Diagnosis::AddWaits(size_t r, std::vector<Obstacle>* obstacles) const {
  const Situation& situation = blockage_.situation();
  for (const Situation::Waiter& waiter : situation.waiters()) {
    if (waiter.place.run != r || waiter.now == nullptr) continue;
    const auto first = static_cast<ptrdiff_t>(obstacles->size());
    for (uint32_t i = 0; i < waiter.wait_count; ++i) {
      Obstacle obstacle = OfWait(waiter.first_wait + i);
      // Merges blocks of one task that wait for the same.
      const auto same =
          std::find_if(obstacles->begin() + first, obstacles->end(), [&](const Obstacle& o) {
            return o.kind == obstacle.kind && o.slot == obstacle.slot &&
                   o.element == obstacle.element && o.compare == obstacle.compare &&
                   o.want == obstacle.want && o.deferred == obstacle.deferred;
          });
      if (same == obstacles->end() || obstacle.kind == Obstacle::Kind::kCopy) {
        obstacles->push_back(std::move(obstacle));
      } else {
        same->since_ns = std::min(same->since_ns, obstacle.since_ns);
      }
    }
  }
}

void Diagnosis::AddAhead(size_t r, std::vector<Obstacle>* obstacles) const {
  const Situation& situation = blockage_.situation();
  const GraphImage& image = now_.runs[r].image();
  size_t added = 0;
  for (uint32_t task = 0; task < image.task_count() && added < kFew; ++task) {
    const TaskPlace place{r, task};
    if (situation.state(place) != Situation::State::kBehind || blockage_.CanEnd(place) ||
        !blockage_.CanBeReady(place)) {
      continue;
    }
    ++added;
    const uint32_t waiter = situation.WaiterOf(situation.IndexOf(place));
    if (waiter != Situation::kNone) {
      obstacles->push_back(OfWait(situation.waiters()[waiter].first_wait));
      continue;
    }
    Obstacle obstacle;
    obstacle.kind = Obstacle::Kind::kCores;
    obstacle.ahead = true;
    obstacle.can_end = false;
    obstacle.task = task;
    obstacle.chip = image.tasks()[task].chip;
    obstacle.core_kind = static_cast<pto_core>(image.tasks()[task].core);
    obstacle.has_have = true;
    obstacle.have = FreeCores(obstacle.chip, obstacle.core_kind);
    obstacle.want =
        (image.tasks()[task].traits & kTaskGang) != 0 ? image.tasks()[task].block_num : 1;
    AddHolders(&obstacle);
    obstacles->push_back(std::move(obstacle));
  }
}

void Diagnosis::AddHolders(Obstacle* obstacle) const {
  for (const CoreNow& core : now_.chips[obstacle->chip].cores) {
    const auto holder = std::find_if(now_.runs.begin(), now_.runs.end(),
                                     [&](const RunNow& run) { return run.run.get() == core.run; });
    if (holder == now_.runs.end() || core.task >= holder->image().task_count()) continue;
    const TaskPlace place{static_cast<size_t>(holder - now_.runs.begin()), core.task};
    if (obstacle->peers.size() < kFew &&
        std::find(obstacle->peers.begin(), obstacle->peers.end(), place) == obstacle->peers.end()) {
      obstacle->peers.push_back(place);
    }
  }
}

void Diagnosis::AddReady(size_t r, int64_t idle_ns, std::vector<Obstacle>* obstacles) const {
  for (const ReadyNow& ready : now_.runs[r].ready) {
    Obstacle obstacle;
    obstacle.kind = Obstacle::Kind::kCores;
    obstacle.task = ready.first;
    obstacle.chip = ready.chip;
    obstacle.core_kind = ready.kind;
    obstacle.count = ready.count;
    obstacle.has_have = true;
    obstacle.have = FreeCores(ready.chip, ready.kind);
    obstacle.want = 1;
    const TaskPlace first{r, ready.first};
    obstacle.can_end = blockage_.situation().state(first) == Situation::State::kReady
                           ? blockage_.CanStart(first)
                           : blockage_.CanEnd(first);
    AddReserved(&obstacle);
    const bool idle_core = obstacle.have > obstacle.reserved;
    if (idle_core && idle_ns >= kThreadNs && !ThreadsAreBusy()) {
      obstacle.kind = Obstacle::Kind::kThread;
    }
    AddHolders(&obstacle);
    obstacles->push_back(std::move(obstacle));
  }
}

void Diagnosis::AddFollowers(size_t r, std::vector<Obstacle>* obstacles) const {
  const RunNow& run = now_.runs[r];
  const uint32_t tasks = run.image().task_count();
  for (uint32_t chip = 0; chip < now_.chips.size(); ++chip) {
    for (const CoreNow& core : now_.chips[chip].cores) {
      if (core.run != run.run.get() || core.followers == 0 || core.next_follower >= tasks) continue;
      Obstacle obstacle;
      obstacle.kind = Obstacle::Kind::kCores;
      obstacle.follows = true;
      obstacle.task = core.next_follower;
      obstacle.chip = chip;
      obstacle.core_kind = core.kind;
      obstacle.count = core.followers;
      obstacle.want = run.image().tasks()[core.next_follower].block_num;
      if (core.task < tasks) obstacle.peers.push_back({r, core.task});
      obstacles->push_back(std::move(obstacle));
    }
  }
}

uint32_t Diagnosis::ScarcestChip(const GraphImage& image, uint32_t gang) const {
  const ImageTask& spec = image.tasks()[gang];
  const ImageDetail* const detail = image.detail(gang);
  if (detail == nullptr) return spec.chip;
  const absl::Span<const uint32_t> chips = image.members(*detail);
  const auto kind = static_cast<pto_core>(spec.core);
  return *std::min_element(chips.begin(), chips.end(), [&](uint32_t a, uint32_t b) {
    return FreeCores(a, kind) < FreeCores(b, kind);
  });
}

void Diagnosis::AddGangs(size_t r, std::vector<Obstacle>* obstacles) const {
  const RunNow& run = now_.runs[r];
  uint32_t shown = 0;
  for (uint32_t chip = 0; chip < now_.chips.size(); ++chip) {
    const ChipNow& here = now_.chips[chip];
    if (here.gang_run != run.run.get() || here.gang_task >= run.image().task_count()) continue;
    const bool known = std::any_of(obstacles->begin(), obstacles->end(), [&](const Obstacle& o) {
      return o.kind == Obstacle::Kind::kReservation && o.task == here.gang_task;
    });
    // For a gang on several chips, choose one where it lacks cores.
    if (here.gang_have >= here.gang_want || known) continue;
    Obstacle obstacle;
    obstacle.kind = Obstacle::Kind::kReservation;
    obstacle.task = here.gang_task;
    obstacle.chip = chip;
    obstacle.core_kind = static_cast<pto_core>(run.image().tasks()[here.gang_task].core);
    obstacle.has_have = true;
    obstacle.have = FreeCores(chip, obstacle.core_kind);
    obstacle.want = here.gang_want;
    obstacle.can_end = blockage_.CanStart({r, here.gang_task});
    obstacles->push_back(std::move(obstacle));
    ++shown;
  }
  if (run.gangs_waiting <= shown) return;
  if (shown > 0) {
    obstacles->back().count += run.gangs_waiting - shown;
    return;
  }
  // None of its gangs has the turn: other gangs are before them, or long holds block them. Which of
  // its tasks these are is unknown.
  for (uint32_t task = 0; task < run.image().task_count(); ++task) {
    const ImageTask& spec = run.image().tasks()[task];
    const Situation::State state = blockage_.situation().state({r, task});
    if ((spec.traits & kTaskGang) == 0 ||
        (state != Situation::State::kReady && state != Situation::State::kUnknown)) {
      continue;
    }
    Obstacle obstacle;
    obstacle.kind = Obstacle::Kind::kReservation;
    obstacle.task = task;
    obstacle.core_kind = static_cast<pto_core>(spec.core);
    obstacle.chip = ScarcestChip(run.image(), task);
    obstacle.count = run.gangs_waiting;
    obstacle.has_have = true;
    obstacle.have = FreeCores(obstacle.chip, obstacle.core_kind);
    obstacle.want = spec.block_num;
    obstacle.can_end = blockage_.CanStart({r, task});
    obstacles->push_back(std::move(obstacle));
    return;
  }
}

void Diagnosis::AddRunning(size_t r, std::vector<Obstacle>* obstacles) const {
  const RunNow& run = now_.runs[r];
  for (uint32_t chip = 0; chip < now_.chips.size(); ++chip) {
    for (const CoreNow& core : now_.chips[chip].cores) {
      if (core.run != run.run.get() || core.task >= run.image().task_count()) continue;
      const bool known = std::any_of(obstacles->begin(), obstacles->end(),
                                     [&](const Obstacle& o) { return o.task == core.task; });
      if (known) continue;
      Obstacle obstacle;
      obstacle.kind = Obstacle::Kind::kKernel;
      obstacle.task = core.task;
      obstacle.chip = chip;
      obstacle.core_kind = core.kind;
      obstacle.core = static_cast<int32_t>(core.core);
      if (core.posted) obstacle.lane = LaneOf(run.image(), core.task);
      obstacles->push_back(std::move(obstacle));
    }
  }
}

uint64_t Diagnosis::AddPredecessors(size_t r, size_t room, std::vector<Obstacle>* obstacles) const {
  const RunNow& run = now_.runs[r];
  if (run.waiting.empty() && blockage_.CanEnd(r)) return 0;
  uint64_t found = 0;
  for (uint32_t task = 0; task < run.image().task_count(); ++task) {
    const absl::optional<TaskPlace> before = blockage_.WaitsFor({r, task});
    if (!before.has_value() || *before == TaskPlace{r, task}) continue;
    // Tasks that only wait for cores, or have not started, are reported as such.
    const bool can_end = blockage_.CanEnd(*before);
    const Situation::State state = blockage_.situation().state(*before);
    if (state == Situation::State::kBehind && before->run == r) continue;
    if (can_end && state != Situation::State::kWaiting) continue;
    if (++found > room) continue;
    Obstacle obstacle;
    obstacle.kind = Obstacle::Kind::kPredecessors;
    obstacle.task = task;
    obstacle.chip = run.image().tasks()[task].chip;
    obstacle.peers = {*before};
    obstacle.can_end = can_end;
    obstacles->push_back(std::move(obstacle));
  }
  return found;
}

Verdict Diagnosis::VerdictOf(size_t r, int64_t idle_ns, int64_t stall_ns,
                             const std::vector<Obstacle>& obstacles) const {
  const RunNow& run = now_.runs[r];
  const auto any = [&](auto... kinds) {
    return std::any_of(obstacles.begin(), obstacles.end(),
                       [&](const Obstacle& o) { return ((o.kind == kinds) || ...); });
  };
  using Kind = Obstacle::Kind;
  if (IsFinal(run.state)) return Verdict::kEnded;
  if (!blockage_.CanEnd(r)) return Verdict::kDeadlocked;
  if (!run.begun) return Verdict::kWaitingForTurn;
  if (any(Kind::kThread)) return Verdict::kStalled;
  if (run.moves) return idle_ns >= stall_ns ? Verdict::kStalled : Verdict::kProgressing;
  if (any(Kind::kCores, Kind::kReservation)) return Verdict::kWaitingForCapacity;
  if (any(Kind::kSignal, Kind::kBarrier)) return Verdict::kWaitingForNotification;
  return idle_ns >= stall_ns ? Verdict::kStalled : Verdict::kProgressing;
}

RunDiagnosis Diagnosis::Explain(size_t r, int64_t idle_ns, int64_t stall_ns,
                                size_t max_obstacles) const {
  const RunNow& run = now_.runs[r];
  RunDiagnosis diagnosis;
  std::vector<Obstacle>& obstacles = diagnosis.obstacles;
  if (!run.begun) {
    Obstacle obstacle;
    obstacle.kind = Obstacle::Kind::kTurn;
    obstacle.since_ns = run.run->accepted_ns();
    obstacle.count = run.image().task_count();
    obstacle.runs = run.behind;
    obstacle.can_end = blockage_.CanBegin(r);
    obstacles.push_back(std::move(obstacle));
  } else {
    AddWaits(r, &obstacles);
    std::sort(obstacles.begin(), obstacles.end(), [](const Obstacle& a, const Obstacle& b) {
      return std::make_tuple(a.can_end, a.since_ns, a.task, a.block) <
             std::make_tuple(b.can_end, b.since_ns, b.task, b.block);
    });
    AddGangs(r, &obstacles);
    AddFollowers(r, &obstacles);
    AddReady(r, idle_ns, &obstacles);
  }
  diagnosis.verdict = VerdictOf(r, idle_ns, stall_ns, obstacles);
  if (diagnosis.verdict == Verdict::kDeadlocked) AddAhead(r, &obstacles);
  if (diagnosis.verdict == Verdict::kStalled) AddRunning(r, &obstacles);
  uint64_t all = obstacles.size();
  if (run.begun) {
    const size_t room = max_obstacles - std::min<size_t>(max_obstacles, obstacles.size());
    all += AddPredecessors(r, room, &obstacles);
  }
  if (obstacles.size() > max_obstacles) obstacles.resize(max_obstacles);
  for (Obstacle& obstacle : obstacles) Blame(r, &obstacle);
  diagnosis.more = all - obstacles.size();
  return diagnosis;
}

}  // namespace pto::engine
