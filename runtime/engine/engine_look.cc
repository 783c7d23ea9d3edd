// How an engine is looked at without its locks.

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/services.h"
#include "runtime/engine/task_links.h"

namespace pto {
namespace {

// How often what moves is looked at before that is all that is said of it.
constexpr int kLooks = 3;

constexpr pto_core kKinds[] = {PTO_AIC, PTO_AIV, PTO_MIX};

using NotesByRun = absl::flat_hash_map<const Run*, std::vector<WaitNote>>;

NotesByRun ByRun(const std::vector<WaitNote>& notes) {
  NotesByRun by_run;
  for (const WaitNote& note : notes) by_run[note.run].push_back(note);
  return by_run;
}

bool SameNotes(const NotesByRun& a, const NotesByRun& b, const Run* run) {
  const auto in_a = a.find(run), in_b = b.find(run);
  if (in_a == a.end() || in_b == b.end()) return in_a == a.end() && in_b == b.end();
  return std::equal(in_a->second.begin(), in_a->second.end(), in_b->second.begin(),
                    in_b->second.end(),
                    [](const WaitNote& x, const WaitNote& y) { return x.id == y.id; });
}

ChipNow LookAtQueue(const ReadyQueue& queue, const Chip& chip) {
  ChipNow now;
  now.clusters = chip.spec.clusters;
  now.memory_used_bytes = chip.memory->used_bytes();
  now.memory_total_bytes = chip.memory->total_bytes();
  now.ready_tasks = queue.ready();
  for (uint32_t core = 0; core < queue.core_count(); ++core) {
    const CoreView& view = queue.core_view(core);
    CoreNow taken;
    taken.run = view.run.load(std::memory_order_acquire);
    if (taken.run == nullptr) continue;
    taken.core = core;
    taken.task = view.task.load(std::memory_order_relaxed);
    taken.kind = static_cast<pto_core>(view.kind.load(std::memory_order_relaxed));
    now.cores.push_back(taken);
  }
  const ReservationView& gang = queue.reservation_view();
  now.gang_run = gang.run.load(std::memory_order_acquire);
  now.gang_task = gang.task.load(std::memory_order_relaxed);
  now.gang_have = gang.have.load(std::memory_order_relaxed);
  now.gang_want = gang.want.load(std::memory_order_relaxed);
  return now;
}

}  // namespace

void Engine::ForgetKept() {
  Run* run = kept_.exchange(nullptr, std::memory_order_acq_rel);
  if (run == nullptr) return;
  if (looking_.load(std::memory_order_seq_cst)) {
    // They left the list before the flag was looked at, but perhaps after it was set.
    Run* last = run;
    while (last->next_kept_ != nullptr) last = last->next_kept_;
    Run* kept = kept_.load(std::memory_order_relaxed);
    do {
      last->next_kept_ = kept;
    } while (!kept_.compare_exchange_weak(kept, run, std::memory_order_acq_rel));
    return;
  }
  while (run != nullptr) {
    Run* const next = run->next_kept_;
    const std::shared_ptr<Run> last = std::move(run->self_);
    run = next;
  }
}

RunNow Engine::LookAt(Run& run) const {
  RunNow now;
  now.begun = run.begun_.load(std::memory_order_acquire);
  now.stopping = run.stopping();
  now.linked = run.links_ != nullptr;
  now.state = run.state();
  now.counts = run.counts();
  const GraphImage& image = run.image();
  for (const uint32_t chip : image.chips()) {
    for (const pto_core kind : kKinds) {
      const Flow& flow = run.flow(chip, kind);
      ReadyNow ready{chip, kind, flow.shown_count.load(std::memory_order_relaxed),
                     flow.shown_first.load(std::memory_order_relaxed)};
      if (ready.count > 0 && ready.first < image.task_count()) now.ready.push_back(ready);
    }
  }
  now.gangs_waiting = static_cast<uint32_t>(
      std::max<int64_t>(run.gangs_waiting_.load(std::memory_order_relaxed), 0));
  return now;
}

EngineNow Engine::Look() {
  EngineNow now;
  now.now_ns = clock_.NowNanos();
  now.executors = executors();
  now.sleeping_executors =
      static_cast<uint32_t>(std::max(scheduler_.parking().sleepers(), int32_t{0}));
  std::vector<std::shared_ptr<Run>> runs;
  looking_.store(true, std::memory_order_seq_cst);
  (void)active_count_.load(std::memory_order_seq_cst);
  for (Run* run = active_.load(std::memory_order_acquire); run != nullptr;
       run = run->next_.load(std::memory_order_acquire)) {
    // What has ended has nothing to explain, and what it owns may be going away.
    if (IsFinal(run->state_.load(std::memory_order_seq_cst))) continue;
    std::shared_ptr<Run> held = run->weak_from_this().lock();
    if (held == nullptr) continue;
    now.runs.emplace_back();
    now.runs.back().slots = run->spec_.slots;
    now.runs.back().observer = run->spec_.observer;
    runs.push_back(std::move(held));
  }
  looking_.store(false, std::memory_order_seq_cst);
  ForgetKept();

  for (size_t i = 0; i < runs.size(); ++i) {
    RunNow seen = LookAt(*runs[i]);
    seen.run = runs[i];
    seen.slots = std::move(now.runs[i].slots);
    seen.observer = std::move(now.runs[i].observer);
    now.runs[i] = std::move(seen);
  }
  const WaitBoard& board = scheduler_.board();
  for (int look = 0; look < kLooks; ++look) {
    const NotesByRun before = ByRun(board.Read());
    now.chips.clear();
    for (const Chip& chip : chips_) {
      now.chips.push_back(LookAtQueue(scheduler_.queue(chip.index), chip));
      now.chips.back().ended_tasks = scheduler_.ended(chip.index);
    }
    // Of each core that is kept by a block that waits.
    absl::flat_hash_set<uint64_t> waiting_cores;
    const auto key = [](uint64_t chip, uint32_t core) { return chip << 32 | core; };
    for (const auto& [run, notes] : before) {
      for (const WaitNote& note : notes) {
        if (note.core < 0) continue;
        waiting_cores.insert(key(note.chip, static_cast<uint32_t>(note.core)));
      }
    }
    absl::flat_hash_set<const Run*> on_cores;
    for (size_t chip = 0; chip < now.chips.size(); ++chip) {
      for (const CoreNow& core : now.chips[chip].cores) {
        // Of a cluster any lane may wait.
        const uint32_t n = now.chips[chip].clusters;
        const bool waits =
            waiting_cores.contains(key(chip, core.core)) ||
            (core.kind == PTO_MIX && (waiting_cores.contains(key(chip, n + 2 * core.core)) ||
                                      waiting_cores.contains(key(chip, n + 2 * core.core + 1))));
        if (!waits) on_cores.insert(core.run);
      }
    }
    bool all_steady = true;
    for (size_t i = 0; i < runs.size(); ++i) {
      RunNow& seen = now.runs[i];
      if (seen.steady) continue;
      Run& run = *runs[i];
      seen.waiting.clear();
      absl::flat_hash_map<uint32_t, size_t> places;
      if (const auto found = before.find(&run); found != before.end()) {
        for (const WaitNote& note : found->second) {
          if (note.task >= run.image().task_count()) continue;  // of a run that was here before
          const auto [place, is_new] = places.try_emplace(note.task, seen.waiting.size());
          if (is_new) seen.waiting.push_back({note.task, false, {}});
          seen.waiting[place->second].waits.push_back(note);
        }
      }
      int64_t at_rest = run.gangs_waiting_.load(std::memory_order_relaxed) +
                        run.links_waiting_.load(std::memory_order_relaxed);
      for (const ReadyNow& ready : seen.ready) at_rest += ready.count;
      for (WaitingTask& task : seen.waiting) {
        const uint32_t left =
            run.counters_[task.task].load(std::memory_order_acquire) & ~Run::kFailedBit;
        task.whole = left == task.waits.size();
        if (task.whole) ++at_rest;
      }
      const int64_t outstanding = run.outstanding_.load(std::memory_order_acquire);
      seen.moves = !seen.begun ? false : outstanding != at_rest || on_cores.contains(&run);
      std::sort(seen.waiting.begin(), seen.waiting.end(),
                [](const WaitingTask& a, const WaitingTask& b) { return a.task < b.task; });
    }
    // A wait that was there before and is there now was there all the time, so the rest was seen
    // while these tasks stood still.
    const NotesByRun after = ByRun(board.Read());
    for (size_t i = 0; i < runs.size(); ++i) {
      RunNow& seen = now.runs[i];
      if (seen.steady) continue;
      RunNow again = LookAt(*runs[i]);
      seen.steady = SameNotes(before, after, runs[i].get()) && again.begun == seen.begun &&
                    again.counts.done == seen.counts.done &&
                    again.gangs_waiting == seen.gangs_waiting &&
                    std::equal(again.ready.begin(), again.ready.end(), seen.ready.begin(),
                               seen.ready.end(), [](const ReadyNow& a, const ReadyNow& b) {
                                 return a.chip == b.chip && a.kind == b.kind && a.count == b.count;
                               });
      if (seen.steady) continue;
      all_steady = false;
      again.run = std::move(seen.run);
      again.slots = std::move(seen.slots);
      again.observer = std::move(seen.observer);
      again.waiting = std::move(seen.waiting);
      again.moves = true;
      seen = std::move(again);
    }
    if (all_steady) break;
  }
  return now;
}

}  // namespace pto
