// Takes snapshots of an engine without its locks.

#include <algorithm>
#include <functional>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "kernels/dtype.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/exec/services.h"
#include "runtime/engine/run/task_links.h"
#include "runtime/engine/signal/signal_word.h"

namespace pto::engine {
namespace {

// How many times to retry before a run that keeps changing is reported as moving.
constexpr int kLooks = 3;

// The maximum number of listed ready tasks of a run for one kind of core, and of listed `wait`
// tasks that have not started.
constexpr size_t kMaxListed = 65'536;

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

void LookAtCores(const ReadyQueue& queue, std::vector<CoreNow>* cores) {
  for (uint32_t core = 0; core < queue.core_count(); ++core) {
    const CoreView& view = queue.core_view(core);
    CoreNow taken;
    taken.run = view.run.load(std::memory_order_acquire);
    if (taken.run == nullptr) continue;
    taken.core = core;
    taken.task = view.task.load(std::memory_order_relaxed);
    taken.kind = static_cast<pto_core>(view.kind.load(std::memory_order_relaxed));
    taken.posted = view.wait.load(std::memory_order_relaxed) == CoreView::kPosted;
    taken.followers = view.followers.load(std::memory_order_relaxed);
    taken.next_follower = view.next_follower.load(std::memory_order_relaxed);
    cores->push_back(taken);
  }
}

ChipNow LookAtQueue(const ReadyQueue& queue, const Chip& chip) {
  ChipNow now;
  now.clusters = chip.spec().clusters;
  now.memory_used_bytes = chip.memory().used_bytes();
  now.memory_total_bytes = chip.memory().total_bytes();
  now.ready_tasks = queue.ready();
  LookAtCores(queue, &now.cores);
  const ReservationView& gang = queue.reservation_view();
  now.gang_run = gang.run.load(std::memory_order_acquire);
  now.gang_task = gang.task.load(std::memory_order_relaxed);
  now.gang_have = gang.have.load(std::memory_order_relaxed);
  now.gang_want = gang.want.load(std::memory_order_relaxed);
  return now;
}

bool SameTasks(const RunNow& a, const RunNow& b) {
  return a.begun == b.begun && a.state == b.state && a.counts.done == b.counts.done &&
         a.counts.failed == b.counts.failed && a.counts.skipped == b.counts.skipped &&
         a.gangs_waiting == b.gangs_waiting && a.links_waiting == b.links_waiting &&
         a.outstanding == b.outstanding &&
         std::equal(a.ready.begin(), a.ready.end(), b.ready.begin(), b.ready.end(),
                    [](const ReadyNow& x, const ReadyNow& y) {
                      return x.chip == y.chip && x.kind == y.kind && x.count == y.count &&
                             x.first == y.first;
                    });
}

// The runs that have a core for a block that does not wait.
absl::flat_hash_set<const Run*> RunsOnCores(const std::vector<ChipNow>& chips,
                                            const NotesByRun& notes) {
  const auto key = [](uint64_t chip, uint32_t core) { return chip << 32 | core; };
  absl::flat_hash_set<uint64_t> waiting;
  for (const auto& [run, of_run] : notes) {
    for (const WaitNote& note : of_run) {
      if (note.core >= 0) waiting.insert(key(note.chip, static_cast<uint32_t>(note.core)));
    }
  }
  absl::flat_hash_set<const Run*> runs;
  for (size_t chip = 0; chip < chips.size(); ++chip) {
    for (const CoreNow& core : chips[chip].cores) {
      bool waits = waiting.contains(key(chip, core.core));
      if (core.kind == PTO_MIX) {
        // Any lane of a cluster may wait.
        const uint32_t vector = chips[chip].clusters + 2 * core.core;
        waits |= waiting.contains(key(chip, vector)) || waiting.contains(key(chip, vector + 1));
      }
      if (!waits) runs.insert(core.run);
    }
  }
  return runs;
}

// The address of a tensor of the run; nullptr if its memory is missing.
const std::byte* AddressOf(const GraphImage& image, const RunSlots& slots, uint32_t tensor) {
  const ImageTensor& record = image.tensors()[tensor];
  const RunSlot& slot = slots[record.slot];
  if (slot.memory == nullptr) return nullptr;
  return slot.memory->data() + slot.offset_bytes +
         static_cast<uint64_t>(record.offset) *
             kernels::DtypeSize(image.layouts()[record.layout].dtype);
}

// Adds the words of the run's `wait` tasks.
void AddWordsAhead(const RunNow& run, const RunSlots& slots,
                   absl::flat_hash_map<const void*, WordNow>* words) {
  const GraphImage& image = run.image();
  if ((image.traits() & kTaskControl) == 0) return;
  size_t listed = 0;
  for (uint32_t task = 0; task < image.task_count() && listed < kMaxListed; ++task) {
    if ((image.tasks()[task].traits & kTaskControl) == 0 ||
        image.kernel(task).control != PTO_CONTROL_WAIT) {
      continue;
    }
    const uint32_t tensor = image.args(task)[0];
    const uint32_t dtype = image.layouts()[image.tensors()[tensor].layout].dtype;
    const std::byte* const address = AddressOf(image, slots, tensor);
    const SignalWord word{const_cast<std::byte*>(address), dtype};
    if (!word.valid()) continue;
    (*words)[address] = {dtype, word.Load()};
    ++listed;
  }
}

const SlotNow* FindSlot(const RunNow& run, const WaitNote& note) {
  if (note.copy_bytes >= 0) return nullptr;
  const auto found = std::find_if(run.slots.begin(), run.slots.end(),
                                  [&](const SlotNow& slot) { return slot.Contains(note.address); });
  return found == run.slots.end() ? nullptr : &*found;
}

}  // namespace

Run* Engine::TakeKept() {
  Run* run = kept_.exchange(nullptr, std::memory_order_seq_cst);
  while (run != nullptr && looking_.load(std::memory_order_seq_cst)) {
    // They left the list before the flag was read, but maybe after it was set.
    Run* last = run;
    while (last->next_kept_ != nullptr) last = last->next_kept_;
    Run* kept = kept_.load(std::memory_order_relaxed);
    do {
      last->next_kept_ = kept;
    } while (!kept_.compare_exchange_weak(kept, run, std::memory_order_seq_cst));
    // Look may just have ended without seeing these runs.
    if (looking_.load(std::memory_order_seq_cst)) return nullptr;
    run = kept_.exchange(nullptr, std::memory_order_seq_cst);
  }
  return run;
}

void Engine::Release(Run* first) {
  for (Run* run = first; run != nullptr;) {
    Run* const next = run->next_kept_;
    run->spec_.slots.reset();
    run->spec_.observer.reset();
    const std::shared_ptr<Run> last = std::move(run->self_);
    run = next;
  }
}

std::vector<Engine::SeenRun> Engine::CollectRuns(EngineNow* now) {
  std::vector<SeenRun> runs;
  looking_.store(true, std::memory_order_seq_cst);
  (void)active_count_.load(std::memory_order_seq_cst);
  for (Run* run = active_.load(std::memory_order_acquire); run != nullptr;
       run = run->next_.load(std::memory_order_acquire)) {
    // An ended run needs no explanation, and its members may be being destroyed.
    if (IsFinal(run->outcome().state(std::memory_order_seq_cst))) continue;
    std::shared_ptr<Run> held = run->weak_from_this().lock();
    if (held == nullptr) continue;
    RunNow& seen = now->runs.emplace_back();
    seen.run = held;
    seen.observer = run->spec().observer;
    seen.linked = run->links().waiters != nullptr;
    runs.push_back({std::move(held), run->spec().slots});
  }
  absl::flat_hash_map<const Run*, size_t> places;
  for (size_t i = 0; i < runs.size(); ++i) places[runs[i].run.get()] = i;
  for (size_t i = 0; i < runs.size(); ++i) {
    for (const RunLinks::Before& link : runs[i].run->links().before) {
      const auto before = places.find(link.before);
      // A run that was accepted later reuses the address of one that is gone.
      if (before == places.end() || before->second <= i) continue;
      now->runs[i].links.push_back({link.task, before->second, link.before_task});
    }
  }
  looking_.store(false, std::memory_order_seq_cst);
  Release(TakeKept());
  return runs;
}

void Engine::LookAtTasks(Run& run, RunNow* seen) const {
  seen->begun = run.life().begun();
  seen->stopping = run.stopping();
  seen->state = run.state();
  seen->counts = run.counts();
  seen->ready.clear();
  const GraphImage& image = run.image();
  for (const uint32_t chip : image.chips()) {
    for (const pto_core kind : kKinds) {
      const Flow& flow = run.tasks().flow(chip, kind);
      const ReadyNow ready{chip, kind, flow.shown_count.load(std::memory_order_relaxed),
                           flow.shown_first.load(std::memory_order_relaxed)};
      if (ready.count > 0 && ready.first < image.task_count()) seen->ready.push_back(ready);
    }
  }
  seen->gangs_waiting = static_cast<uint32_t>(
      std::max<int64_t>(run.tasks().gangs_waiting().load(std::memory_order_acquire), 0));
  seen->links_waiting = run.links().waiting.load(std::memory_order_acquire);
  seen->outstanding = run.life().outstanding();
}

void Engine::ListTasks(Run& run, RunNow* seen) const {
  const GraphImage& image = run.image();
  const uint32_t tasks = image.task_count();
  seen->ready_tasks.clear();
  seen->lists_ready = true;
  for (const ReadyNow& ready : seen->ready) {
    if (ready.count > kMaxListed) {
      seen->lists_ready = false;
      continue;
    }
    size_t left = ready.count;
    uint32_t task = ready.first;
    // Tasks that are ready from the start may be a span of the image.
    const absl::Span<const uint32_t> roots = image.roots();
    const auto root = std::lower_bound(roots.begin(), roots.end(), task);
    if (image.alike() && run.spec().task_timeout_ns == 0 && root != roots.end() && *root == task) {
      const auto end = root + std::min<ptrdiff_t>(roots.end() - root, left);
      seen->ready_tasks.insert(seen->ready_tasks.end(), root, end);
      left -= end - root;
      task = tasks;
    }
    for (; left > 0 && task < tasks; --left) {
      seen->ready_tasks.push_back(task);
      task = run.tasks().next_ready(task).Get();
    }
    if (left > 0) seen->lists_ready = false;
  }
  seen->ended.clear();
  if (run.links().waiters != nullptr) {
    for (uint32_t task = 0; task < tasks; ++task) {
      seen->ended.push_back(run.links().waiters->end(task) != TaskLinks::End::kNone);
    }
  }
  seen->poisoned.clear();
  if (seen->linked || seen->counts.failed + seen->counts.skipped > 0) {
    for (uint32_t task = 0; task < tasks; ++task) {
      seen->poisoned.push_back(run.tasks().met(task).poisoned());
    }
  }
  // The first blocks of a task with several blocks may have failed.
  for (const uint32_t task : seen->ready_tasks) {
    const uint32_t counter = run.tasks().counter(task).load(std::memory_order_acquire);
    const bool failed = (counter & RunTasks::kFailedBit) != 0;
    if (failed) seen->poisoned.resize(tasks);
    if (!seen->poisoned.empty()) seen->poisoned[task] = failed;
  }
}

void Engine::LookAtWaits(Run& run, absl::Span<const WaitNote> notes, RunNow* seen) const {
  seen->waiting.clear();
  absl::flat_hash_map<uint32_t, size_t> places;
  for (const WaitNote& note : notes) {
    if (note.task >= run.image().task_count()) continue;  // left by an earlier run
    const auto [place, is_new] = places.try_emplace(note.task, seen->waiting.size());
    if (is_new) seen->waiting.push_back({note.task, false, false, {}});
    seen->waiting[place->second].waits.push_back(note);
  }
  // Counts that keep the run from ending but do nothing now. All others run, or a thread is about
  // to handle them: errands, joint tasks with their followers, parts of copies.
  int64_t at_rest = int64_t{seen->gangs_waiting} + seen->links_waiting;
  for (const ReadyNow& ready : seen->ready) at_rest += ready.count;
  for (WaitingTask& task : seen->waiting) {
    const uint32_t counter = run.tasks().counter(task.task).load(std::memory_order_acquire);
    task.whole = (counter & ~RunTasks::kFailedBit) == task.waits.size();
    task.failed = (counter & RunTasks::kFailedBit) != 0;
    if (task.whole) ++at_rest;
  }
  seen->moves = seen->begun && seen->outstanding != at_rest;
  std::sort(seen->waiting.begin(), seen->waiting.end(),
            [](const WaitingTask& a, const WaitingTask& b) { return a.task < b.task; });
}

bool Engine::LookOnce(absl::Span<const SeenRun> runs, EngineNow* now) const {
  const NotesByRun before = ByRun(scheduler_.board().Read());
  now->chips.clear();
  for (const std::shared_ptr<Chip>& chip : chips_) {
    now->chips.push_back(LookAtQueue(scheduler_.queue(chip->index()), *chip));
    now->chips.back().ended_tasks = scheduler_.ended(chip->index());
  }
  const absl::flat_hash_set<const Run*> on_cores = RunsOnCores(now->chips, before);
  for (size_t i = 0; i < runs.size(); ++i) {
    Run& run = *runs[i].run;
    RunNow& seen = now->runs[i];
    LookAtTasks(run, &seen);
    if (!before.empty()) ListTasks(run, &seen);
    const auto notes = before.find(&run);
    LookAtWaits(run, notes == before.end() ? absl::Span<const WaitNote>() : notes->second, &seen);
    seen.moves |= on_cores.contains(&run);
  }
  // A wait that exists before and after existed all the time, so everything in between was read
  // while the waiting tasks stood still. This holds for all runs together: what a run had sent
  // before it was read has reached the others.
  const NotesByRun after = ByRun(scheduler_.board().Read());
  std::vector<ChipNow> chips_after = now->chips;
  for (size_t i = 0; i < chips_.size(); ++i) {
    chips_after[i].cores.clear();
    LookAtCores(scheduler_.queue(chips_[i]->index()), &chips_after[i].cores);
  }
  const absl::flat_hash_set<const Run*> on_cores_after = RunsOnCores(chips_after, after);
  bool all_steady = true;
  for (size_t i = 0; i < runs.size(); ++i) {
    Run& run = *runs[i].run;
    RunNow& seen = now->runs[i];
    RunNow again;
    LookAtTasks(run, &again);
    seen.steady = SameNotes(before, after, &run) && SameTasks(seen, again);
    seen.moves |= on_cores_after.contains(&run);
    if (!seen.steady) seen.moves = seen.begun = again.begun;
    all_steady &= seen.steady;
  }
  return all_steady;
}

void Engine::LookAtWords(absl::Span<const SeenRun> runs, EngineNow* now) {
  std::vector<const void*> words;
  for (const RunNow& run : now->runs) {
    for (const WaitingTask& task : run.waiting) {
      for (const WaitNote& note : task.waits) {
        if (note.copy_bytes < 0) words.push_back(note.address);
      }
    }
  }
  if (words.empty()) return;
  std::vector<std::shared_ptr<const RunSlots>> all_slots;
  for (size_t i = 0; i < runs.size(); ++i) {
    all_slots.push_back(runs[i].slots.lock());
    if (all_slots[i] != nullptr) AddWordsAhead(now->runs[i], *all_slots[i], &now->words);
  }
  for (const auto& [address, word] : now->words) words.push_back(address);
  std::sort(words.begin(), words.end(), std::less<>());
  for (size_t i = 0; i < runs.size(); ++i) {
    const std::shared_ptr<const RunSlots>& slots = all_slots[i];
    if (slots == nullptr) continue;
    RunNow& seen = now->runs[i];
    for (uint32_t place = 0; place < slots->size(); ++place) {
      const RunSlot& slot = (*slots)[place];
      if (slot.memory == nullptr) continue;
      const std::byte* const begin = slot.memory->data();
      const auto word = std::lower_bound(words.begin(), words.end(), begin, std::less<>());
      if (word == words.end() || !std::less<>()(*word, begin + slot.memory->bytes())) continue;
      seen.slots.push_back(
          {place, begin, slot.memory->bytes(), slot.offset_bytes, std::string(slot.name)});
    }
    for (WaitingTask& task : seen.waiting) {
      for (WaitNote& note : task.waits) {
        const SignalWord word{const_cast<void*>(note.address), note.dtype};
        // Only if its memory is kept alive here.
        note.has_have = FindSlot(seen, note) != nullptr && (word.valid() || word.valid_foreign());
        if (!note.has_have) continue;
        note.have = word.Load();
        now->words[note.address] = {note.dtype, note.have};
      }
    }
  }
}

EngineNow Engine::Look() {
  EngineNow now;
  now.now_ns = clock_.NowNanos();
  now.executors = executors();
  now.sleeping_executors =
      static_cast<uint32_t>(std::max(scheduler_.parking().sleepers(), int32_t{0}));
  const ThreadUse threads = thread_use();
  now.spare_executors = threads.spares;
  now.held_executors = threads.held;
  const std::vector<SeenRun> runs = CollectRuns(&now);
  for (int look = 0; look < kLooks && !LookOnce(runs, &now); ++look) {
  }
  LookAtWords(runs, &now);
  return now;
}

}  // namespace pto::engine
