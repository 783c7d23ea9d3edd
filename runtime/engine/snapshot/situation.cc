#include "runtime/engine/snapshot/situation.h"

#include <algorithm>
#include <functional>
#include <string>

#include "kernels/dtype.h"
#include "runtime/engine/run/task_data.h"

namespace pto::engine {

Situation::Situation(const EngineNow& now) : now_(now), first_{0} {
  for (const RunNow& run : now_.runs) first_.push_back(first_.back() + run.image().task_count());
  states_.assign(first_.back(), State::kEnded);
  FindWholes();
  for (size_t run = 0; run < now_.runs.size(); ++run) {
    for (const LinkNow& link : now_.runs[run].links) {
      linked_after_[IndexOf({link.before_run, link.before_task})].push_back({run, link.task});
    }
  }
  // Earlier runs first, because tasks of later runs depend on theirs.
  for (size_t run = now_.runs.size(); run-- > 0;) FindStates(run);
  FindLeftBefore();
  FindWords();
  FindWaits();
  for (size_t run = 0; run < now_.runs.size(); ++run) FindSenders(run);
  for (size_t run = 0; run < now_.runs.size(); ++run) FindLaneTasks(run);
}

void Situation::FindWholes() {
  absl::flat_hash_map<std::string, size_t> by_name;
  for (size_t r = 0; r < now_.runs.size(); ++r) {
    const RunNow& run = now_.runs[r];
    size_t whole = wholes_.size();
    if (run.linked && run.observer != nullptr) {
      whole = by_name.try_emplace(run.observer->name(), whole).first->second;
    }
    whole_of_.push_back(whole);
    if (whole == wholes_.size()) wholes_.emplace_back();
    Whole& of_run = wholes_[whole];
    of_run.runs.push_back(r);
    of_run.has_deadline |= run.run->has_deadline();
    if (run.observer == nullptr) continue;
    of_run.has_deadline |= run.observer->has_deadline();
    if (!run.linked) continue;
    of_run.open |= run.observer->open();
    of_run.held_back |= run.observer->held_back();
    of_run.next_waits |= run.observer->next_waits();
    // Segments of other open runs may have passed already.
    if (of_run.next_behind.empty()) {
      for (const size_t before : run.behind) {
        if (!now_.runs[before].linked) of_run.next_behind.push_back(before);
      }
    }
    if (run.observer->first_task() == run.observer->next_waits_for()) {
      of_run.next_behind.push_back(r);
    }
  }
}

// ---- how far tasks have come

void Situation::SpreadFrom(const TaskPlace& place, State state) {
  std::vector<TaskPlace> queue = {place};
  for (size_t i = 0; i < queue.size(); ++i) {
    const TaskPlace from = queue[i];
    const auto visit = [&](const TaskPlace& next) {
      State& known = states_[IndexOf(next)];
      // Tasks behind an unknown one are unknown too, unless they are also behind another one.
      if (known != State::kEnded && known != State::kUnknown) return;
      if (known == state) return;
      known = state;
      queue.push_back(next);
    };
    for (const uint32_t next : now_.runs[from.run].image().successors(from.task)) {
      visit({from.run, next});
    }
    for (const TaskPlace& next : LinkedAfter(IndexOf(from))) visit(next);
  }
}

void Situation::FindStates(size_t r) {
  const RunNow& run = now_.runs[r];
  const GraphImage& image = run.image();
  const auto set = [&](uint32_t task, State state) {
    State& known = states_[IndexOf({r, task})];
    // Tasks of earlier runs may have marked it as behind them already.
    if (known == State::kEnded || known == State::kUnknown) known = state;
  };
  if (!run.begun) {
    for (uint32_t task = 0; task < image.task_count(); ++task) set(task, State::kBehind);
    return;
  }
  if (!run.steady || run.stopping) {
    for (uint32_t task = 0; task < image.task_count(); ++task) set(task, State::kUnknown);
    return;
  }
  for (const WaitingTask& task : run.waiting) {
    states_[IndexOf({r, task.task})] = State::kWaiting;
    SpreadFrom({r, task.task}, State::kBehind);
  }
  for (const uint32_t task : run.ready_tasks) {
    // Its first blocks may wait.
    set(task, State::kReady);
    SpreadFrom({r, task}, State::kBehind);
  }
  // Gangs that are not behind others wait for cores, have ended or, in a run that moves, run.
  const auto has_ended = [&](uint32_t task) { return !run.ended.empty() && run.ended[task]; };
  std::vector<uint32_t> gangs;
  for (uint32_t task = 0; run.gangs_waiting > 0 && task < image.task_count(); ++task) {
    if ((image.tasks()[task].traits & kTaskGang) == 0) continue;
    if (states_[IndexOf({r, task})] != State::kEnded || has_ended(task)) continue;
    gangs.push_back(task);
  }
  if (gangs.size() == run.gangs_waiting && !run.moves) {
    for (const uint32_t task : gangs) {
      set(task, State::kReady);
      SpreadFrom({r, task}, State::kBehind);
    }
    gangs.clear();
  }
  // The remaining tasks have ended, as far as known.
  const auto spread_unknown = [&](uint32_t task) {
    if (states_[IndexOf({r, task})] != State::kEnded || has_ended(task)) return;
    states_[IndexOf({r, task})] = State::kUnknown;
    SpreadFrom({r, task}, State::kUnknown);
  };
  for (const uint32_t task : gangs) spread_unknown(task);
  const bool all_unknown = run.moves || !run.lists_ready;
  if (!all_unknown && !run.linked) return;
  for (uint32_t task = 0; task < image.task_count(); ++task) {
    if (all_unknown || !has_ended(task)) spread_unknown(task);
  }
}

void Situation::FindLeftBefore() {
  left_before_.assign(states_.size(), 0);
  for (size_t r = 0; r < now_.runs.size(); ++r) {
    const GraphImage& image = now_.runs[r].image();
    for (uint32_t task = 0; task < image.task_count(); ++task) {
      const size_t index = IndexOf({r, task});
      if (states_[index] == State::kEnded) continue;
      for (const uint32_t next : image.successors(task)) ++left_before_[IndexOf({r, next})];
      for (const TaskPlace& next : LinkedAfter(index)) ++left_before_[IndexOf(next)];
    }
  }
}

absl::Span<const TaskPlace> Situation::LinkedAfter(size_t index) const {
  const auto found = linked_after_.find(index);
  if (found == linked_after_.end()) return {};
  return found->second;
}

bool Situation::task_timed(const TaskPlace& place) const {
  const RunNow& run = now_.runs[place.run];
  return run.run->task_timeout_ns() > 0 ||
         (run.image().tasks()[place.task].traits & kTaskTimed) != 0;
}

bool Situation::timed(const TaskPlace& place) const {
  const RunNow& run = now_.runs[place.run];
  const GraphImage& image = run.image();
  const uint32_t control = image.kernel(place.task).control;
  // These end at once.
  if (control == PTO_CONTROL_JOIN || control == PTO_CONTROL_NOTIFY) return false;
  if (task_timed(place)) return true;
  const uint32_t waiter = WaiterOf(IndexOf(place));
  if (waiter != kNone) {
    const Waiter& known = waiters_[waiter];
    return std::any_of(waits_.begin() + known.first_wait,
                       waits_.begin() + known.first_wait + known.wait_count,
                       [](const Wait& wait) { return wait.timed; });
  }
  // What a kernel will wait for is unknown.
  return run.run->wait_timeout_ns() > 0;
}

// ---- words

const SlotNow* Situation::SlotOf(size_t run, const void* address) const {
  const std::vector<SlotNow>& slots = now_.runs[run].slots;
  const auto found = std::find_if(slots.begin(), slots.end(),
                                  [&](const SlotNow& slot) { return slot.Contains(address); });
  return found == slots.end() ? nullptr : &*found;
}

const std::byte* Situation::AddressOf(size_t run, uint32_t tensor) const {
  const GraphImage& image = now_.runs[run].image();
  const ImageTensor& record = image.tensors()[tensor];
  const std::vector<SlotNow>& slots = now_.runs[run].slots;
  const auto slot =
      std::lower_bound(slots.begin(), slots.end(), record.slot,
                       [](const SlotNow& a, uint32_t number) { return a.slot < number; });
  if (slot == slots.end() || slot->slot != record.slot) return nullptr;
  return slot->begin + slot->offset_bytes +
         static_cast<uint64_t>(record.offset) *
             kernels::DtypeSize(image.layouts()[record.layout].dtype);
}

void Situation::FindWords() {
  for (const auto& [address, word] : now_.words) {
    words_.push_back({address, word.dtype, word.have, {}});
  }
  std::sort(words_.begin(), words_.end(),
            [](const Word& a, const Word& b) { return std::less<>()(a.address, b.address); });
  for (uint32_t i = 0; i < words_.size(); ++i) word_by_address_[words_[i].address] = i;
}

void Situation::FindWaits() {
  const auto word_of = [&](const void* address) {
    const auto found = word_by_address_.find(address);
    return found == word_by_address_.end() ? kNone : found->second;
  };
  for (size_t r = 0; r < now_.runs.size(); ++r) {
    const RunNow& run = now_.runs[r];
    const GraphImage& image = run.image();
    for (const WaitingTask& task : run.waiting) {
      const TaskPlace place{r, task.task};
      waiter_of_[IndexOf(place)] = static_cast<uint32_t>(waiters_.size());
      waiters_.push_back({place, &task, static_cast<uint32_t>(waits_.size()),
                          static_cast<uint32_t>(task.waits.size())});
      for (const WaitNote& note : task.waits) {
        Wait wait{place, kNone, note.compare, note.value, false, note.until_ns != 0, &note};
        if (note.copy_bytes < 0) {
          if (SlotOf(r, note.address) != nullptr) {
            wait.word = word_of(note.address);
          } else {
            wait.barrier = (image.tasks()[task.task].traits & kTaskGang) != 0;
          }
        }
        waits_.push_back(wait);
      }
    }
    if ((image.traits() & kTaskControl) == 0 || words_.empty()) continue;
    for (uint32_t task = 0; task < image.task_count(); ++task) {
      const TaskPlace place{r, task};
      if (image.kernel(task).control != PTO_CONTROL_WAIT || state(place) != State::kBehind ||
          (image.tasks()[task].traits & kTaskPredicated) != 0) {
        continue;
      }
      const std::byte* const address = AddressOf(r, image.args(task)[0]);
      const auto scalar = [&](size_t i) {
        return static_cast<int64_t>(run.run->scalar(image.scalar_refs(task)[i]));
      };
      const uint32_t word = address == nullptr ? kNone : word_of(address);
      if (word == kNone || !IsComparison(scalar(0)) || scalar(2) < 0) continue;
      waiter_of_[IndexOf(place)] = static_cast<uint32_t>(waiters_.size());
      waiters_.push_back({place, nullptr, static_cast<uint32_t>(waits_.size()), 1});
      waits_.push_back({place, word, static_cast<uint32_t>(scalar(0)), scalar(1), false,
                        scalar(2) > 0 || run.run->wait_timeout_ns() > 0, nullptr});
    }
  }
}

uint32_t Situation::WaiterOf(size_t index) const {
  const auto found = waiter_of_.find(index);
  return found == waiter_of_.end() ? kNone : found->second;
}

// ---- who can notify

void Situation::FindLaneTasks(size_t r) {
  const GraphImage& image = now_.runs[r].image();
  if (!image.has_lanes()) return;
  std::vector<TaskPlace>& known = lane_tasks_[now_.runs[r].run->account().get()];
  for (uint32_t task = 0; task < image.task_count() && known.size() < 2; ++task) {
    const TaskPlace place{r, task};
    if (state(place) != State::kEnded && image.UsesLane(task)) known.push_back(place);
  }
}

bool Situation::HasLaneTaskBeside(const TaskPlace& place) const {
  const auto found = lane_tasks_.find(now_.runs[place.run].run->account().get());
  return found != lane_tasks_.end() &&
         std::any_of(found->second.begin(), found->second.end(),
                     [&](const TaskPlace& task) { return !(task == place); });
}

void Situation::AddSender(uint32_t word, const Sender& sender) {
  std::vector<Sender>& senders = words_[word].senders;
  // One entry is enough for several tensors of a task.
  if (!senders.empty() && senders.back().place == sender.place) return;
  senders.push_back(sender);
  notices_[IndexOf(sender.place)].push_back({word, sender.op, sender.value});
}

void Situation::FindSenders(size_t r) {
  const RunNow& run = now_.runs[r];
  if (run.slots.empty() || words_.empty()) return;
  const GraphImage& image = run.image();
  for (uint32_t task = 0; task < image.task_count(); ++task) {
    const ImageTask& spec = image.tasks()[task];
    if ((spec.traits & kTaskControl) != 0) {
      if (image.kernel(task).control != PTO_CONTROL_NOTIFY) continue;
      const auto found = word_by_address_.find(AddressOf(r, image.args(task)[0]));
      if (found == word_by_address_.end()) continue;
      const absl::Span<const uint32_t> scalars = image.scalar_refs(task);
      AddSender(found->second, {{r, task},
                                static_cast<uint32_t>(run.run->scalar(scalars[0])),
                                static_cast<int64_t>(run.run->scalar(scalars[1]))});
      continue;
    }
    if (!TaskData::Notifies(image, task)) continue;
    const uint32_t members = TaskData::MemberCount(image, task);
    for (uint32_t member = 0; member < members; ++member) {
      for (const uint32_t arg : image.args(task, member)) {
        const std::byte* const begin = AddressOf(r, arg);
        if (begin == nullptr) continue;
        const Layout& layout = image.layouts()[image.tensors()[arg].layout];
        const std::byte* const end =
            begin + static_cast<uint64_t>(layout.extent) * kernels::DtypeSize(layout.dtype);
        auto word = std::lower_bound(
            words_.begin(), words_.end(), begin,
            [](const Word& a, const void* address) { return std::less<>()(a.address, address); });
        for (; word != words_.end() && std::less<>()(word->address, end); ++word) {
          AddSender(static_cast<uint32_t>(word - words_.begin()), {{r, task}, 0, 0});
        }
      }
    }
  }
}

absl::Span<const Situation::Notice> Situation::NoticesOf(size_t index) const {
  const auto found = notices_.find(index);
  if (found == notices_.end()) return {};
  return found->second;
}

}  // namespace pto::engine
