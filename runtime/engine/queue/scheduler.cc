#include "runtime/engine/queue/scheduler.h"

#include <algorithm>
#include <utility>

namespace pto::engine {

Scheduler::Scheduler(const std::vector<std::shared_ptr<Chip>>& chips, const Clock& clock,
                     TimerQueue* timers, uint32_t executors, PlacementTrace* trace)
    : clock_(clock),
      executors_(executors),
      trace_(trace),
      patience_(timers, [this] { return CheckPatience(); }) {
  std::vector<ReadyQueue*> queues;
  for (const std::shared_ptr<Chip>& chip : chips) {
    chips_.push_back(std::make_unique<ChipState>(*chip, clock, trace));
    queues.push_back(&chips_.back()->queue);
  }
  gangs_ = std::make_unique<GangBook>(std::move(queues));
}

uint64_t Scheduler::PushGangs(Run& run, absl::Span<const uint32_t> tasks,
                              std::vector<uint32_t>* rest) {
  uint64_t calls = 0;
  for (const uint32_t task : tasks) {
    if ((run.image().tasks()[task].traits & kTaskGang) == 0) {
      rest->push_back(task);
      continue;
    }
    run.tasks().gangs_waiting().fetch_add(1, std::memory_order_relaxed);
    calls += gangs_->Add(run, task);
    // A concurrent stop may have looked for the run's gangs before this one was added.
    uint32_t removed = 0;
    uint64_t ready = 0;
    if (run.stopping() && gangs_->Remove(run, &removed, &ready)) {
      calls += ready;
      run.tasks().gangs_waiting().fetch_sub(1, std::memory_order_relaxed);
      // Not the last count: the caller has another.
      run.life().TakeBack();
    }
  }
  SeeToAll();
  return calls;
}

void Scheduler::SeeToGangs(uint32_t chip, uint32_t news) {
  Heed(chip, news);
  SeeToAll();
}

void Scheduler::SeeToAll() {
  for (uint32_t chip = 0; chip < chip_count(); ++chip) {
    while (const uint32_t news = queue(chip).TakeNews()) Heed(chip, news);
  }
  WatchPatience();
}

void Scheduler::Heed(uint32_t chip, uint32_t news) {
  if ((news & ReadyQueue::kCoresFreed) != 0) parking_.Wake(queue(chip).ready());
  if ((news & (ReadyQueue::kGangNews | ReadyQueue::kLongHoldEnded)) == 0) return;
  parking_.Wake(gangs_->Advance(chip, (news & ReadyQueue::kLongHoldEnded) != 0));
}

void Scheduler::WatchPatience() {
  if (patience_.armed()) return;
  const auto reserving = [](const auto& chip) { return chip->queue.reserving(); };
  if (std::any_of(chips_.begin(), chips_.end(), reserving)) {
    patience_.Arm(clock_.NowNanos() + LongHolds::kLeastPatienceNs);
  }
}

int64_t Scheduler::CheckPatience() {
  int64_t next = 0;
  for (uint32_t chip = 0; chip < chip_count(); ++chip) {
    if (!queue(chip).reserving()) continue;
    const int64_t at = queue(chip).CheckPatience();
    if (at != 0 && (next == 0 || at < next)) next = at;
    SeeToGangs(chip);
  }
  // Other reservations with a shorter patience may start meanwhile.
  return next == 0 ? 0 : std::min(next, clock_.NowNanos() + 10 * LongHolds::kLeastPatienceNs);
}

void Scheduler::Push(Run& run, absl::Span<const uint32_t> tasks, bool taking_one,
                     std::vector<uint32_t>* scratch) {
  if (tasks.empty()) return;
  const GraphImage& image = run.image();
  uint64_t blocks = 0;
  const auto is_gang = [&image](uint32_t task) {
    return (image.tasks()[task].traits & kTaskGang) != 0;
  };
  if ((image.traits() & kTaskGang) != 0 && std::any_of(tasks.begin(), tasks.end(), is_gang)) {
    std::vector<uint32_t> rest;
    parking_.Wake(PushGangs(run, tasks, &rest));
    Push(run, rest, taking_one, scratch);
    return;
  }
  if (image.chips().size() == 1) {
    blocks = tasks.size();
    for (const uint32_t task : tasks) blocks += image.tasks()[task].block_num - 1;
    queue(image.chips()[0]).Push(run, tasks);
  } else {
    // Few chips have tasks, so go through the tasks for each chip.
    for (const uint32_t chip : image.chips()) {
      for (const uint32_t task : tasks) {
        if (image.tasks()[task].chip != chip) continue;
        scratch->push_back(task);
        blocks += image.tasks()[task].block_num;
      }
      if (scratch->empty()) continue;
      queue(chip).Push(run, *scratch);
      scratch->clear();
    }
  }
  parking_.Wake(taking_one ? blocks - 1 : blocks);
}

void Scheduler::PushRoots(Run& run, bool taking_one) {
  queue(run.image().chips()[0]).PushRoots(run);
  parking_.Wake(run.image().roots().size() - (taking_one ? 1 : 0));
}

bool Scheduler::TakeGang(Run& run, uint32_t task, std::vector<BlockPlace>* places) {
  if (!gangs_->empty()) return false;
  const GraphImage& image = run.image();
  const ImageTask& spec = image.tasks()[task];
  const auto kind = static_cast<pto_core>(spec.core);
  const ImageDetail* const detail = image.detail(task);
  const uint32_t own_chip = spec.chip;
  const absl::Span<const uint32_t> chips =
      detail == nullptr ? absl::MakeConstSpan(&own_chip, 1) : image.members(*detail);
  places->reserve(chips.size() * spec.block_num);
  for (uint32_t m = 0; m < chips.size(); ++m) {
    if (queue(chips[m]).TakeCores(run, kind, m, static_cast<uint32_t>(chips.size()), spec.block_num,
                                  places)) {
      continue;
    }
    for (const BlockPlace& place : *places) queue(place.chip).ReleaseCore(kind, place.core);
    // Other tasks may have failed to get these cores meanwhile.
    for (const BlockPlace& place : *places) SeeToGangs(place.chip);
    if (!places->empty()) parking_.Wake(ready());
    places->clear();
    return false;
  }
  return true;
}

uint32_t Scheduler::Share(uint32_t chip, uint32_t max) const {
  return std::clamp<uint32_t>(queue(chip).ready() / (executors_ + 1), 1, max);
}

bool Scheduler::TakeAny(uint32_t max, uint32_t* next_chip, BlockTicket* ticket,
                        std::vector<uint32_t>* more) {
  // Higher classes first, on any chip. Within a class the chips take turns.
  for (const Priority priority : {Priority::kHigh, Priority::kNormal, Priority::kLow}) {
    for (uint32_t i = 0; i < chip_count(); ++i) {
      const uint32_t chip = (*next_chip + i) % chip_count();
      if (!queue(chip).HasReady(priority) || !TakeFrom(chip, priority, max, ticket, more)) continue;
      *next_chip = (chip + 1) % chip_count();
      return true;
    }
  }
  return false;
}

bool Scheduler::TakeOpen(const ChipGate& gate, uint32_t max, uint32_t* next_chip,
                         BlockTicket* ticket, std::vector<uint32_t>* more) {
  for (const Priority priority : {Priority::kHigh, Priority::kNormal, Priority::kLow}) {
    for (uint32_t i = 0; i < chip_count(); ++i) {
      const uint32_t chip = (*next_chip + i) % chip_count();
      if (!queue(chip).HasReady(priority) || !gate.IsOpen(chip) ||
          !TakeFrom(chip, priority, max, ticket, more)) {
        continue;
      }
      *next_chip = (chip + 1) % chip_count();
      return true;
    }
  }
  return false;
}

bool Scheduler::TakeFrom(uint32_t chip, Priority lowest, uint32_t max, BlockTicket* ticket,
                         std::vector<uint32_t>* more) {
  const bool taken = queue(chip).Take(nullptr, lowest, Share(chip, max), ticket, more);
  SeeToGangs(chip);
  if (queue(chip).reserving()) WatchPatience();
  return taken;
}

bool Scheduler::TakeOf(Run& run, uint32_t max, BlockTicket* ticket, std::vector<uint32_t>* more) {
  for (const uint32_t chip : run.image().chips()) {
    const bool taken = queue(chip).Take(&run, Priority::kLow, Share(chip, max), ticket, more);
    SeeToGangs(chip);
    if (taken) return true;
  }
  uint64_t ready = 0;
  if (!run.stopping() || !gangs_->Remove(run, &ticket->task, &ready)) return false;
  run.tasks().gangs_waiting().fetch_sub(1, std::memory_order_relaxed);
  const uint32_t task = ticket->task;
  *ticket = {};
  ticket->run = &run;
  ticket->task = task;
  ticket->chip = run.image().tasks()[task].chip;
  ticket->abandoned = run.image().calls(task);
  // Others may use the cores that it had reserved.
  parking_.Wake(executors_);
  SeeToAll();
  return true;
}

bool Scheduler::OthersWait(const Run& run) const {
  return std::any_of(chips_.begin(), chips_.end(),
                     [&run](const auto& chip) { return chip->queue.OthersWait(run); });
}

uint64_t Scheduler::ready() const {
  uint64_t ready = 0;
  for (const auto& chip : chips_) ready += chip->queue.ready();
  return ready;
}

}  // namespace pto::engine
