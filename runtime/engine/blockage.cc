#include "runtime/engine/blockage.h"

#include <algorithm>
#include <string>

#include "kernels/dtype.h"
#include "runtime/engine/signal_word.h"

namespace pto {
namespace {

// So that a node full of large graphs is explained in less than a second or so.
constexpr uint64_t kMaxSteps = 50'000'000;
// What a sender costs, which takes memory, too.
constexpr uint64_t kSenderSteps = 8;

bool IsBarrier(const RunNow& run, const WaitNote& note) {
  return note.copy_bytes < 0 && (run.image().tasks()[note.task].traits & kTaskGang) != 0;
}

}  // namespace

Blockage::Blockage(const EngineNow& now)
    : now_(now),
      stuck_(now.runs.size()),
      pending_(now.runs.size()),
      hopeless_(now.runs.size()),
      has_stuck_(now.runs.size()),
      can_begin_(now.runs.size(), true),
      open_acts_(now.runs.size(), true),
      gets_cores_(now.runs.size()),
      budget_(kMaxSteps) {
  FindSenders();
  for (size_t r = 0; r < now.runs.size(); ++r) {
    stuck_[r].assign(now.runs[r].waiting.size(), true);
    std::vector<uint32_t> waiting;
    for (const WaitingTask& task : now.runs[r].waiting) waiting.push_back(task.task);
    if (!waiting.empty()) pending_[r] = Closure(r, waiting);
  }
  for (bool changed = true; changed;) {
    changed = false;
    Spread();
    for (size_t r = 0; r < now.runs.size(); ++r) {
      for (size_t i = 0; i < stuck_[r].size(); ++i) {
        if (!stuck_[r][i] || (budget_ > 0 && !CanEnd(r, now.runs[r].waiting[i]))) continue;
        stuck_[r][i] = false;
        changed = true;
      }
    }
  }
}

// ---- who could send

const SlotNow* Blockage::SlotOf(size_t run, const WaitNote& note) const {
  if (note.copy_bytes >= 0) return nullptr;
  const std::vector<SlotNow>& slots = now_.runs[run].slots;
  const auto found = std::find_if(slots.begin(), slots.end(),
                                  [&](const SlotNow& slot) { return slot.Contains(note.address); });
  return found == slots.end() ? nullptr : &*found;
}

void Blockage::FindSenders() {
  for (size_t r = 0; r < now_.runs.size(); ++r) {
    for (const WaitingTask& task : now_.runs[r].waiting) {
      for (const WaitNote& note : task.waits) {
        if (SlotOf(r, note) != nullptr) senders_[note.address];
      }
    }
  }
  if (senders_.empty()) return;
  for (size_t r = 0; r < now_.runs.size(); ++r) FindSendersIn(r);
}

bool Blockage::Spend(uint64_t steps) {
  budget_ -= std::min(budget_, steps);
  return budget_ > 0;
}

void Blockage::FindSendersIn(size_t r) {
  const RunNow& run = now_.runs[r];
  if (run.slots.empty()) return;
  const GraphImage& image = run.image();
  // The slots by their places, and the words that are in each.
  std::vector<const SlotNow*> slots(image.slots().size(), nullptr);
  std::vector<std::vector<const void*>> words(image.slots().size());
  for (const SlotNow& slot : run.slots) {
    slots[slot.slot] = &slot;
    if (!Spend(senders_.size())) return;
    for (const auto& [address, senders] : senders_) {
      if (slot.Contains(address)) words[slot.slot].push_back(address);
    }
  }
  for (uint32_t task = 0; task < image.task_count(); ++task) {
    const bool control = (image.tasks()[task].traits & kTaskControl) != 0;
    if (control && image.kernel(task).control != PTO_CONTROL_NOTIFY) continue;
    const ImageDetail* const detail = image.detail(task);
    const uint32_t members = detail == nullptr ? 1 : detail->member_count;
    const absl::Span<const uint32_t> first = image.args(task);
    const absl::Span<const uint32_t> args(first.data(), control ? 1 : first.size() * members);
    for (const uint32_t arg : args) {
      const ImageTensor& tensor = image.tensors()[arg];
      for (const void* const address : words[tensor.slot]) {
        if (!Spend(control ? 1 : kSenderSteps)) return;
        if (control) {
          const SlotNow& slot = *slots[tensor.slot];
          const uint64_t bytes = kernels::DtypeSize(image.layouts()[tensor.layout].dtype);
          if (slot.begin + slot.offset_bytes + static_cast<uint64_t>(tensor.offset) * bytes !=
              address) {
            continue;
          }
        }
        std::vector<TaskPlace>& senders = senders_[address];
        const TaskPlace sender{r, task, control};
        if (senders.empty() || !(senders.back() == sender)) senders.push_back(sender);
      }
    }
  }
}

const std::vector<TaskPlace>& Blockage::Senders(const WaitNote& note) const {
  static const auto* const none = new std::vector<TaskPlace>;
  const auto found = senders_.find(note.address);
  return note.copy_bytes >= 0 || found == senders_.end() ? *none : found->second;
}

// ---- what follows from who is stuck

std::vector<uint32_t> Blockage::Closure(size_t run, const std::vector<uint32_t>& seeds) const {
  const GraphImage& image = now_.runs[run].image();
  std::vector<uint32_t> from(image.task_count(), kNothing);
  std::vector<uint32_t> queue;
  for (const uint32_t seed : seeds) {
    from[seed] = seed;
    queue.push_back(seed);
  }
  for (size_t i = 0; i < queue.size(); ++i) {
    for (const uint32_t next : image.successors(queue[i])) {
      if (from[next] != kNothing) continue;
      from[next] = from[queue[i]];
      queue.push_back(next);
    }
  }
  return from;
}

void Blockage::Spread() {
  uint64_t steps = 0;
  for (const RunNow& run : now_.runs) {
    if (!run.waiting.empty()) steps += run.image().task_count() + run.image().edge_count();
  }
  budget_ -= std::min(budget_, steps);
  for (size_t r = 0; r < now_.runs.size(); ++r) {
    std::vector<uint32_t> stuck;
    for (size_t i = 0; i < stuck_[r].size(); ++i) {
      if (stuck_[r][i]) stuck.push_back(now_.runs[r].waiting[i].task);
    }
    has_stuck_[r] = !stuck.empty();
    hopeless_[r] = stuck.empty() ? std::vector<uint32_t>() : Closure(r, stuck);
  }
  SpreadCores();
  SpreadTurns();
  SpreadOpenRuns();
}

void Blockage::SpreadCores() {
  // By chip and core: whether a stuck task keeps it.
  std::vector<std::vector<bool>> kept;
  for (const ChipNow& chip : now_.chips) kept.emplace_back(3 * chip.clusters);
  for (size_t r = 0; r < now_.runs.size(); ++r) {
    for (size_t i = 0; i < stuck_[r].size(); ++i) {
      if (!stuck_[r][i]) continue;
      for (const WaitNote& note : now_.runs[r].waiting[i].waits) {
        if (note.core < 0 || note.chip >= kept.size()) continue;
        std::vector<bool>& cores = kept[note.chip];
        const auto core = static_cast<size_t>(note.core);
        if (core >= cores.size()) continue;
        cores[core] = true;
        if (now_.runs[r].image().tasks()[note.task].core != PTO_MIX) continue;
        const size_t n = now_.chips[note.chip].clusters;
        const size_t cluster = core < n ? core : (core - n) / 2;
        cores[cluster] = cores[n + 2 * cluster] = cores[n + 2 * cluster + 1] = true;
      }
    }
  }
  available_.assign(now_.chips.size(), {});
  for (size_t chip = 0; chip < kept.size(); ++chip) {
    const size_t n = now_.chips[chip].clusters;
    for (size_t cluster = 0; cluster < n; ++cluster) {
      const bool aic = !kept[chip][cluster];
      const bool first = !kept[chip][n + 2 * cluster], second = !kept[chip][n + 2 * cluster + 1];
      available_[chip][PTO_AIC] += aic ? 1 : 0;
      available_[chip][PTO_AIV] += (first ? 1 : 0) + (second ? 1 : 0);
      available_[chip][PTO_MIX] += aic && first && second ? 1 : 0;
    }
  }
  for (size_t r = 0; r < now_.runs.size(); ++r) gets_cores_[r] = CanGetCores(r);
}

void Blockage::SpreadTurns() {
  // From the first that was accepted on: a run waits for earlier ones.
  for (size_t r = now_.runs.size(); r-- > 0;) {
    if (now_.runs[r].begun) continue;
    // Of an open run it may be behind another part, which has passed.
    can_begin_[r] = std::none_of(
        now_.runs[r].behind.begin(), now_.runs[r].behind.end(),
        [&](size_t before) { return has_stuck_[before] && !now_.runs[before].linked; });
    if (!can_begin_[r]) has_stuck_[r] = true;
  }
}

void Blockage::SpreadOpenRuns() {
  // What the parts of an open run wait for among each other is not known here. So as long as one
  // can act, all can.
  absl::flat_hash_map<std::string, bool> acts;
  const auto name_of = [&](size_t r) {
    return now_.runs[r].observer == nullptr ? "" : now_.runs[r].observer->name();
  };
  for (size_t r = 0; r < now_.runs.size(); ++r) {
    const RunNow& run = now_.runs[r];
    if (!run.linked) continue;
    acts[name_of(r)] |= run.moves || !run.steady || gets_cores_[r] ||
                        std::count(stuck_[r].begin(), stuck_[r].end(), false) > 0;
  }
  for (size_t r = 0; r < now_.runs.size(); ++r) {
    if (now_.runs[r].linked) open_acts_[r] = acts[name_of(r)];
  }
}

bool Blockage::CapacityFor(size_t run, uint32_t task) const {
  const GraphImage& image = now_.runs[run].image();
  const ImageTask& spec = image.tasks()[task];
  if ((spec.traits & kTaskControl) != 0) return true;
  const uint32_t need = (spec.traits & kTaskGang) != 0 ? spec.block_num : 1;
  const ImageDetail* const detail = image.detail(task);
  const uint32_t own_chip = spec.chip;
  const absl::Span<const uint32_t> chips =
      detail == nullptr ? absl::MakeConstSpan(&own_chip, 1) : image.members(*detail);
  return std::all_of(chips.begin(), chips.end(), [&](uint32_t chip) {
    return Available(chip, static_cast<pto_core>(spec.core)) >= need;
  });
}

bool Blockage::CanGetCores(size_t r) const {
  const RunNow& run = now_.runs[r];
  for (const ReadyNow& ready : run.ready) {
    if (Available(ready.chip, ready.kind) > 0) return true;
  }
  if (run.gangs_waiting == 0) return false;
  // Which they are is not known: any that could be.
  for (uint32_t task = 0; task < run.image().task_count(); ++task) {
    if ((run.image().tasks()[task].traits & kTaskGang) == 0) continue;
    if (!hopeless_[r].empty() && hopeless_[r][task] != kNothing) continue;
    if (CapacityFor(r, task)) return true;
  }
  return false;
}

// ---- questions

const WaitingTask* Blockage::Find(const TaskPlace& place) const {
  const std::vector<WaitingTask>& waiting = now_.runs[place.run].waiting;
  const auto found =
      std::lower_bound(waiting.begin(), waiting.end(), place.task,
                       [](const WaitingTask& task, uint32_t index) { return task.task < index; });
  return found == waiting.end() || found->task != place.task ? nullptr : &*found;
}

bool Blockage::IsStuck(const TaskPlace& place) const {
  const WaitingTask* const task = Find(place);
  if (task == nullptr) return false;
  return stuck_[place.run][static_cast<size_t>(task - now_.runs[place.run].waiting.data())];
}

absl::optional<uint32_t> Blockage::WaitsFor(size_t run, uint32_t task) const {
  if (pending_[run].empty() || pending_[run][task] == kNothing) return absl::nullopt;
  return pending_[run][task];
}

bool Blockage::CanAct(const TaskPlace& place) const {
  const RunNow& run = now_.runs[place.run];
  if (!run.begun) return can_begin_[place.run];
  if (!hopeless_[place.run].empty() && hopeless_[place.run][place.task] != kNothing) {
    // Some of its blocks may not wait.
    const WaitingTask* const task = Find(place);
    return task != nullptr && !task->whole && run.moves;
  }
  if (run.linked) return open_acts_[place.run];
  if (run.moves || !run.steady) return true;
  if (gets_cores_[place.run]) return CapacityFor(place.run, place.task);
  // Only tasks that wait are left, and those that come after them.
  return WaitsFor(place.run, place.task).has_value() && CapacityFor(place.run, place.task);
}

bool Blockage::OpenRunsCanAct(size_t r) const {
  for (size_t other = 0; other < now_.runs.size(); ++other) {
    if (now_.runs[other].linked && open_acts_[other] &&
        now_.runs[other].run->account() == now_.runs[r].run->account()) {
      return true;
    }
  }
  return false;
}

bool Blockage::CanEnd(size_t r, const WaitingTask& task) {
  bool meets_only = true;  // blocks of the task itself
  for (const WaitNote& note : task.waits) {
    const SlotNow* const slot = SlotOf(r, note);
    if (slot == nullptr && IsBarrier(now_.runs[r], note)) continue;
    meets_only = false;
    if (slot == nullptr) continue;  // a copy, or a word that is not known here
    if (note.has_have && Compares(static_cast<pto_compare>(note.compare), note.have, note.value)) {
      continue;
    }
    const std::vector<TaskPlace>& senders = Senders(note);
    budget_ -= std::min<uint64_t>(budget_, senders.size() + 1);
    if (std::none_of(senders.begin(), senders.end(),
                     [&](const TaskPlace& sender) { return CanAct(sender); })) {
      return false;
    }
  }
  return !meets_only || !task.whole;
}

absl::optional<TaskPlace> Blockage::HeldUpBy(const TaskPlace& sender) const {
  const RunNow& run = now_.runs[sender.run];
  const std::vector<uint32_t>& hopeless = hopeless_[sender.run];
  if (!hopeless.empty() && hopeless[sender.task] != kNothing) {
    return TaskPlace{sender.run, hopeless[sender.task]};
  }
  if (!run.begun) {
    for (const size_t before : run.behind) {
      for (size_t i = 0; i < stuck_[before].size(); ++i) {
        if (stuck_[before][i]) return TaskPlace{before, now_.runs[before].waiting[i].task};
      }
    }
    return absl::nullopt;
  }
  // It has ended, or stuck tasks keep the cores that it needs.
  if (CapacityFor(sender.run, sender.task) || (run.ready.empty() && run.gangs_waiting == 0 &&
                                               !WaitsFor(sender.run, sender.task).has_value())) {
    return absl::nullopt;
  }
  for (size_t r = 0; r < now_.runs.size(); ++r) {
    for (size_t i = 0; i < stuck_[r].size(); ++i) {
      if (!stuck_[r][i]) continue;
      const std::vector<WaitNote>& waits = now_.runs[r].waiting[i].waits;
      const bool keeps = std::any_of(waits.begin(), waits.end(), [&](const WaitNote& note) {
        return note.core >= 0 && note.chip == run.image().tasks()[sender.task].chip;
      });
      if (keeps) return TaskPlace{r, now_.runs[r].waiting[i].task};
    }
  }
  return absl::nullopt;
}

std::vector<TaskPlace> Blockage::CycleFrom(const TaskPlace& place) const {
  constexpr size_t kLongest = 64;
  std::vector<TaskPlace> path = {place};
  while (path.size() < kLongest) {
    const WaitingTask* const task = Find(path.back());
    if (task == nullptr) return {};
    absl::optional<TaskPlace> next;
    for (const WaitNote& note : task->waits) {
      const std::vector<TaskPlace>& senders = Senders(note);
      const bool exact = std::any_of(senders.begin(), senders.end(),
                                     [](const TaskPlace& sender) { return sender.exact; });
      for (const TaskPlace& sender : senders) {
        if (!next.has_value() && sender.exact == exact) next = HeldUpBy(sender);
      }
    }
    if (!next.has_value()) return {};
    const auto seen = std::find(path.begin(), path.end(), *next);
    if (seen != path.end()) return {seen, path.end()};
    path.push_back(*next);
  }
  return {};
}

}  // namespace pto
