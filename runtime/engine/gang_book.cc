#include "runtime/engine/gang_book.h"

#include <algorithm>
#include <utility>

namespace pto {

GangBook::GangBook(std::vector<ReadyQueue*> queues)
    : queues_(std::move(queues)), chips_(queues_.size()) {}

bool GangBook::Before::operator()(const Gang* a, const Gang* b) const {
  if (a->run->priority() != b->run->priority()) return a->run->priority() > b->run->priority();
  if (a->tag != b->tag) return a->tag < b->tag;
  return a->number < b->number;
}

GangBook::Gang::Member& GangBook::MemberOn(Gang& gang, uint32_t chip) {
  return *std::find_if(gang.members.begin(), gang.members.end(),
                       [chip](const Gang::Member& member) { return member.chip == chip; });
}

double GangBook::NextTag(RunGangs& of_run, const Run& run, uint64_t cores) {
  const Account* const account = run.account().get();
  if (of_run.gangs.empty()) ++accounts_[account];
  const double runs = accounts_[account];
  const double weight = account == nullptr ? 1 : account->weight();
  const double placed = placed_tag_[static_cast<size_t>(run.priority())];
  of_run.last_tag = std::max(of_run.last_tag, placed) + static_cast<double>(cores) * runs / weight;
  return of_run.last_tag;
}

uint64_t GangBook::Add(Run& run, uint32_t task) {
  const GraphImage& image = run.image();
  const ImageTask& spec = image.tasks()[task];
  const auto kind = static_cast<pto_core>(spec.core);
  const ImageDetail* const detail = image.detail(task);
  const uint32_t own_chip = spec.chip;
  const absl::Span<const uint32_t> chips =
      detail == nullptr ? absl::MakeConstSpan(&own_chip, 1) : image.members(*detail);

  MutexLock lock(mutex_);
  RunGangs& of_run = runs_[&run];
  const double tag =
      NextTag(of_run, run, uint64_t{spec.block_num} * chips.size() * (kind == PTO_MIX ? 3 : 1));
  Gang& gang = of_run.gangs.emplace_back();
  gang.self = std::prev(of_run.gangs.end());
  gang.run = &run;
  gang.task = task;
  gang.tag = tag;
  gang.number = next_number_++;
  gang.members.reserve(chips.size());
  for (uint32_t m = 0; m < chips.size(); ++m) {
    gang.members.push_back({chips[m], false, Reservation(run, task, m, kind, spec.block_num)});
  }
  count_.fetch_add(1, std::memory_order_release);
  Gang* full = nullptr;
  for (const uint32_t chip : chips) {
    chips_[chip].waiting.insert(&gang);
    chips_[chip].count.fetch_add(1, std::memory_order_relaxed);
    if (Gang* placeable = GiveTurn(chip)) full = placeable;
  }
  return full == nullptr ? 0 : Place(full);
}

GangBook::Gang* GangBook::GiveTurn(uint32_t chip) {
  ChipGangs& here = chips_[chip];
  Gang* const first = here.waiting.empty() ? nullptr : *here.waiting.begin();
  if (first == here.turn) return nullptr;
  if (here.turn != nullptr) {
    Gang::Member& before = MemberOn(*here.turn, chip);
    if (before.complete) --here.turn->complete;
    before.complete = false;
  }
  here.turn = first;
  if (first == nullptr) {
    queues_[chip]->SetReservation(nullptr);
    return nullptr;
  }
  Gang::Member& member = MemberOn(*first, chip);
  return queues_[chip]->SetReservation(&member.reservation) ? Complete(*first, member) : nullptr;
}

GangBook::Gang* GangBook::Complete(Gang& gang, Gang::Member& member) {
  if (member.complete) return nullptr;
  member.complete = true;
  return ++gang.complete == gang.members.size() ? &gang : nullptr;
}

uint64_t GangBook::Advance(uint32_t chip) {
  MutexLock lock(mutex_);
  Gang* const gang = chips_[chip].turn;
  if (gang == nullptr || !queues_[chip]->ReservationComplete()) return 0;
  Gang* const full = Complete(*gang, MemberOn(*gang, chip));
  return full == nullptr ? 0 : Place(full);
}

uint64_t GangBook::Place(Gang* gang) {
  uint64_t ready = 0;
  std::vector<Gang*> full = {gang};
  while (!full.empty()) {
    Gang& next = *full.back();
    full.pop_back();
    double& placed = placed_tag_[static_cast<size_t>(next.run->priority())];
    placed = std::max(placed, next.tag);
    const bool phased = next.run->image().kernel(next.task).plan != nullptr;
    std::vector<BlockPlace> places;
    if (phased) {
      places = PlacesOf(next);
    } else {
      for (const Gang::Member& member : next.members) queues_[member.chip]->Prepare();
    }
    const std::list<Gang> taken = TakeOut(next);
    // Once its blocks are handed out, the run may end and be gone.
    for (const Gang::Member& member : next.members) ready += queues_[member.chip]->Publish();
    for (const Gang::Member& member : next.members) {
      // The queue has forgotten the reservation already.
      chips_[member.chip].turn = nullptr;
      if (Gang* placeable = GiveTurn(member.chip)) full.push_back(placeable);
    }
    if (phased) on_phased_(*next.run, next.task, std::move(places));
  }
  return ready;
}

std::vector<BlockPlace> GangBook::PlacesOf(const Gang& gang) {
  std::vector<BlockPlace> places;
  for (uint32_t m = 0; m < gang.members.size(); ++m) {
    const uint32_t chip = gang.members[m].chip;
    uint32_t block = 0;
    for (const int32_t core : queues_[chip]->Assign()) places.push_back({chip, m, block++, core});
  }
  return places;
}

std::list<GangBook::Gang> GangBook::TakeOut(Gang& gang) {
  for (const Gang::Member& member : gang.members) {
    chips_[member.chip].waiting.erase(&gang);
    chips_[member.chip].count.fetch_sub(1, std::memory_order_relaxed);
  }
  count_.fetch_sub(1, std::memory_order_release);
  std::list<Gang> taken;
  const auto of_run = runs_.find(gang.run);
  taken.splice(taken.begin(), of_run->second.gangs, gang.self);
  if (!of_run->second.gangs.empty()) return taken;
  runs_.erase(of_run);
  const auto of_account = accounts_.find(gang.run->account().get());
  if (--of_account->second == 0) accounts_.erase(of_account);
  return taken;
}

bool GangBook::Remove(const Run& run, uint32_t* task, uint64_t* ready) {
  *ready = 0;
  if (empty()) return false;
  MutexLock lock(mutex_);
  const auto it = runs_.find(&run);
  if (it == runs_.end()) return false;
  Gang& gang = it->second.gangs.front();
  *task = gang.task;
  const std::list<Gang> taken = TakeOut(gang);
  std::vector<Gang*> full;
  for (const Gang::Member& member : gang.members) {
    if (Gang* placeable = GiveTurn(member.chip)) full.push_back(placeable);
  }
  for (Gang* placeable : full) *ready += Place(placeable);
  return true;
}

}  // namespace pto
