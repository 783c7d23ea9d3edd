#include "runtime/engine/diagnosis.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "kernels/dtype.h"

namespace pto {
namespace {

// Of many that could be named.
constexpr size_t kFew = 3;

// A task that is ready and has a core waits no longer than this for a thread, unless there is
// none.
constexpr int64_t kThreadNs = 1'000'000'000;

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
  // Cores with blocks that do not wait: each has a thread.
  size_t busy = 0;
  for (const ChipNow& chip : now_.chips) busy += chip.cores.size();
  for (const RunNow& run : now_.runs) {
    for (const WaitingTask& task : run.waiting) {
      for (const WaitNote& note : task.waits) busy -= note.core >= 0 && busy > 0 ? 1 : 0;
    }
  }
  return busy > 0 && busy >= now_.executors;
}

Obstacle Diagnosis::OfNote(size_t r, const WaitingTask& task, const WaitNote& note) const {
  const RunNow& run = now_.runs[r];
  Obstacle obstacle;
  obstacle.note = &note;
  obstacle.task = task.task;
  obstacle.block = note.block;
  obstacle.deferred = note.kind == WaitNote::Kind::kDeferred;
  obstacle.chip = note.chip;
  obstacle.core = note.core;
  obstacle.since_ns = note.since_ns;
  obstacle.until_ns = note.until_ns;
  if (note.copy_bytes >= 0) {
    obstacle.kind = Obstacle::Kind::kCopy;
    obstacle.want = note.copy_bytes;
    return obstacle;
  }
  const SlotNow* const slot = blockage_.SlotOf(r, note);
  obstacle.compare = note.compare;
  obstacle.want = note.value;
  const TaskPlace place{r, task.task};
  const bool stuck = blockage_.IsStuck(place);
  if (slot == nullptr) {
    if ((run.image().tasks()[task.task].traits & kTaskGang) == 0) return obstacle;
    obstacle.kind = Obstacle::Kind::kBarrier;
    obstacle.has_have = true;
    obstacle.have = std::count_if(task.waits.begin(), task.waits.end(), [&](const WaitNote& other) {
      return other.address == note.address;
    });
    obstacle.want = run.image().calls(task.task);
    obstacle.can_end = !stuck;
    return obstacle;
  }
  obstacle.slot = slot->slot;
  obstacle.slot_name = slot->name;
  obstacle.has_have = note.has_have;
  obstacle.have = note.have;
  obstacle.element =
      static_cast<uint64_t>(static_cast<const std::byte*>(note.address) - slot->begin) /
      std::max<uint64_t>(kernels::DtypeSize(note.dtype), 1);
  const std::vector<TaskPlace>& senders = blockage_.Senders(note);
  for (const TaskPlace& sender : senders) {
    if (obstacle.peers.size() < kFew && !(sender == place) && blockage_.CanAct(sender)) {
      obstacle.peers.push_back(sender);
    }
  }
  // Of a task with several waits only those are to blame that nobody ends.
  obstacle.can_end = !stuck || !obstacle.peers.empty();
  return obstacle;
}

void Diagnosis::Blame(size_t r, Obstacle* obstacle) const {
  if (obstacle->kind != Obstacle::Kind::kSignal || obstacle->can_end) return;
  obstacle->cycle = blockage_.CycleFrom({r, obstacle->task});
  const std::vector<TaskPlace>& senders = blockage_.Senders(*obstacle->note);
  const bool exact = std::any_of(senders.begin(), senders.end(),
                                 [](const TaskPlace& sender) { return sender.exact; });
  for (const TaskPlace& sender : senders) {
    if (sender.exact != exact) continue;
    const RunNow& other = now_.runs[sender.run];
    const bool has_ended = other.begun && other.steady && !other.linked && !other.moves &&
                           !blockage_.WaitsFor(sender.run, sender.task).has_value();
    if (has_ended && other.ready.empty() && other.gangs_waiting == 0 &&
        obstacle->ended.size() < kFew) {
      obstacle->ended.push_back(sender);
    }
  }
}

void Diagnosis::AddWaits(size_t r, std::vector<Obstacle>* obstacles) const {
  for (const WaitingTask& task : now_.runs[r].waiting) {
    const auto first = static_cast<ptrdiff_t>(obstacles->size());
    for (const WaitNote& note : task.waits) {
      Obstacle obstacle = OfNote(r, task, note);
      // Blocks of one task that wait for the same.
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
    obstacle.can_end = blockage_.Available(ready.chip, ready.kind) > 0;
    // A gang may have reserved those that look free.
    const bool idle_core = obstacle.have > 0 && now_.chips[ready.chip].gang_run == nullptr;
    if (idle_core && idle_ns >= kThreadNs && !ThreadsAreBusy()) {
      obstacle.kind = Obstacle::Kind::kThread;
    }
    for (const CoreNow& core : now_.chips[ready.chip].cores) {
      const auto holder = std::find_if(now_.runs.begin(), now_.runs.end(), [&](const RunNow& run) {
        return run.run.get() == core.run;
      });
      if (holder == now_.runs.end() || core.task >= holder->image().task_count()) continue;
      const TaskPlace place{static_cast<size_t>(holder - now_.runs.begin()), core.task};
      if (obstacle.peers.size() < kFew &&
          std::find(obstacle.peers.begin(), obstacle.peers.end(), place) == obstacle.peers.end()) {
        obstacle.peers.push_back(place);
      }
    }
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

void Diagnosis::AddGangs(size_t r, std::vector<Obstacle>* obstacles) const {
  const RunNow& run = now_.runs[r];
  uint32_t shown = 0;
  for (uint32_t chip = 0; chip < now_.chips.size(); ++chip) {
    const ChipNow& here = now_.chips[chip];
    if (here.gang_run != run.run.get() || here.gang_task >= run.image().task_count()) continue;
    const bool known = std::any_of(obstacles->begin(), obstacles->end(), [&](const Obstacle& o) {
      return o.kind == Obstacle::Kind::kReservation && o.task == here.gang_task;
    });
    // Of a gang on several chips, one that it does not have all of.
    if (here.gang_have >= here.gang_want || known) continue;
    Obstacle obstacle;
    obstacle.kind = Obstacle::Kind::kReservation;
    obstacle.task = here.gang_task;
    obstacle.chip = chip;
    obstacle.core_kind = static_cast<pto_core>(run.image().tasks()[here.gang_task].core);
    obstacle.has_have = true;
    obstacle.have = here.gang_have;
    obstacle.want = here.gang_want;
    obstacle.can_end = blockage_.Available(chip, obstacle.core_kind) >= here.gang_want;
    obstacles->push_back(std::move(obstacle));
    ++shown;
  }
  if (run.gangs_waiting <= shown) return;
  if (shown > 0) {
    obstacles->back().count += run.gangs_waiting - shown;
    return;
  }
  // All its gangs are behind those of others. Which ones is not known.
  for (uint32_t task = 0; task < run.image().task_count(); ++task) {
    const ImageTask& spec = run.image().tasks()[task];
    if ((spec.traits & kTaskGang) == 0 || blockage_.WaitsFor(r, task).has_value()) continue;
    Obstacle obstacle;
    obstacle.kind = Obstacle::Kind::kReservation;
    obstacle.task = task;
    obstacle.chip = spec.chip;
    obstacle.core_kind = static_cast<pto_core>(spec.core);
    obstacle.count = run.gangs_waiting;
    obstacle.want = spec.block_num;
    obstacle.can_end = blockage_.Available(spec.chip, obstacle.core_kind) >= spec.block_num;
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
      obstacles->push_back(std::move(obstacle));
    }
  }
}

uint64_t Diagnosis::AddPredecessors(size_t r, size_t room, std::vector<Obstacle>* obstacles) const {
  const RunNow& run = now_.runs[r];
  if (run.waiting.empty()) return 0;
  uint64_t found = 0;
  for (uint32_t task = 0; task < run.image().task_count(); ++task) {
    const absl::optional<uint32_t> before = blockage_.WaitsFor(r, task);
    if (!before.has_value() || *before == task) continue;
    if (++found > room) continue;
    Obstacle obstacle;
    obstacle.kind = Obstacle::Kind::kPredecessors;
    obstacle.task = task;
    obstacle.chip = run.image().tasks()[task].chip;
    obstacle.peers = {{r, *before}};
    obstacle.can_end = !blockage_.IsStuck({r, *before});
    obstacles->push_back(std::move(obstacle));
  }
  return found;
}

bool Diagnosis::MoreTasksMayHelp(size_t r) const {
  const std::shared_ptr<RunObserver>& observer = now_.runs[r].observer;
  // Who sends more tasks may send the one that is missing; unless there is no room for it as long
  // as those are there that wait for it.
  return observer != nullptr && observer->open() &&
         (!observer->held_back() || blockage_.OpenRunsCanAct(r));
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
  if (blockage_.HasStuck(r)) {
    return MoreTasksMayHelp(r) ? Verdict::kWaitingForNotification : Verdict::kDeadlocked;
  }
  if (!run.begun) return Verdict::kWaitingForTurn;
  if (any(Kind::kThread)) return Verdict::kStalled;
  if (run.moves) return idle_ns >= stall_ns ? Verdict::kStalled : Verdict::kProgressing;
  // Ready tasks and gangs that nobody can give cores to.
  const bool starved = std::any_of(obstacles.begin(), obstacles.end(), [](const Obstacle& o) {
    return (o.kind == Kind::kCores || o.kind == Kind::kReservation) && !o.can_end;
  });
  if (starved) return Verdict::kDeadlocked;
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
    obstacle.can_end = !blockage_.HasStuck(r);
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

}  // namespace pto
