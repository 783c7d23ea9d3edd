#include "runtime/engine/queue/gang_book.h"

#include <algorithm>
#include <utility>

namespace pto::engine {

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
  const auto members = static_cast<uint32_t>(chips.size());
  for (uint32_t m = 0; m < members; ++m) {
    gang.members.push_back({chips[m], Reservation(run, task, m, members, kind, spec.block_num)});
  }
  count_.fetch_add(1, std::memory_order_release);
  SetBlocked(gang, !HasRoom(gang));
  for (const uint32_t chip : chips) chips_[chip].count.fetch_add(1, std::memory_order_relaxed);
  return gang.blocked ? 0 : Settle(Chips(chips.begin(), chips.end()));
}

void GangBook::SetBlocked(Gang& gang, bool blocked) {
  gang.blocked = blocked;
  for (const Gang::Member& member : gang.members) {
    ChipGangs& here = chips_[member.chip];
    (blocked ? here.waiting : here.blocked).erase(&gang);
    (blocked ? here.blocked : here.waiting).insert(&gang);
  }
}

bool GangBook::HasRoom(const Gang& gang) const {
  return std::all_of(gang.members.begin(), gang.members.end(), [this](const Gang::Member& m) {
    return queues_[m.chip]->LeavesRoomFor(m.reservation.kind(), m.reservation.blocks());
  });
}

bool GangBook::HasTurns(const Gang& gang) const {
  return std::all_of(gang.members.begin(), gang.members.end(),
                     [&](const Gang::Member& member) { return chips_[member.chip].turn == &gang; });
}

void GangBook::AddChips(const Gang& gang, Chips* chips) {
  for (const Gang::Member& member : gang.members) chips->push_back(member.chip);
}

uint64_t GangBook::Advance(uint32_t chip, bool long_hold_ended) {
  MutexLock lock(mutex_);
  Chips chips = {chip};
  if (long_hold_ended) {
    const std::vector<Gang*> blocked(chips_[chip].blocked.begin(), chips_[chip].blocked.end());
    for (Gang* const gang : blocked) {
      if (!HasRoom(*gang)) continue;
      SetBlocked(*gang, false);
      AddChips(*gang, &chips);
    }
  }
  return Settle(std::move(chips));
}

uint64_t GangBook::Settle(Chips chips) {
  uint64_t found = 0;
  // Give all turns first, because most gangs need several turns before they can collect.
  for (const uint32_t chip : chips) found += GiveTurn(chip);
  while (!chips.empty()) {
    const uint32_t chip = chips.back();
    chips.pop_back();
    found += GiveTurn(chip);
    if (Gang* const gang = chips_[chip].turn) found += Try(*gang, &chips);
  }
  return found;
}

uint64_t GangBook::GiveTurn(uint32_t chip) {
  ChipGangs& here = chips_[chip];
  Gang* const first = here.waiting.empty() ? nullptr : *here.waiting.begin();
  if (first == here.turn) return 0;
  // The previous gang must stop on all its chips, because it collects on all or on none.
  const uint64_t found = here.turn == nullptr ? 0 : Stop(*here.turn);
  here.turn = first;
  queues_[chip]->GiveTurn(first == nullptr ? nullptr : &MemberOn(*first, chip).reservation);
  return found;
}

bool GangBook::Begin(Gang& gang) {
  for (const Gang::Member& member : gang.members) {
    if (!queues_[member.chip]->MayCollect()) return false;
  }
  // If other gangs are blocked already, waiting blocks may wait for tasks that use the cores which
  // those gangs left. Skipping such blocks at once could go on forever.
  for (const Gang::Member& member : gang.members) {
    queues_[member.chip]->BeginCollecting(!gang.tried && chips_[member.chip].blocked.empty());
  }
  gang.tried = gang.collects = true;
  return true;
}

uint64_t GangBook::Stop(Gang& gang) {
  if (!gang.collects) return 0;
  gang.collects = false;
  uint64_t found = 0;
  for (const Gang::Member& member : gang.members) {
    ReadyQueue& queue = *queues_[member.chip];
    if (chips_[member.chip].turn == &gang && queue.StopCollecting()) found += queue.ready();
  }
  return found;
}

bool GangBook::Fix(const Gang& gang) {
  for (size_t i = 0; i < gang.members.size(); ++i) {
    if (queues_[gang.members[i].chip]->Fix()) continue;
    while (i-- > 0) queues_[gang.members[i].chip]->Unfix();
    return false;
  }
  return true;
}

uint64_t GangBook::Try(Gang& gang, Chips* chips) {
  if (!HasTurns(gang)) return 0;
  uint64_t found = 0;
  while (gang.collects || Begin(gang)) {
    bool complete = true;
    bool stopped = false;
    for (const Gang::Member& member : gang.members) {
      const ReadyQueue::Gathering gathering = queues_[member.chip]->gathering();
      complete = complete && gathering == ReadyQueue::Gathering::kComplete;
      stopped = stopped || gathering == ReadyQueue::Gathering::kStopped;
    }
    if (complete && Fix(gang)) {
      AddChips(gang, chips);
      return found + Place(gang);
    }
    if (!complete && !stopped) return found;
    // A higher class has taken its cores, or long holds left too few.
    found += Stop(gang);
    if (HasRoom(gang)) continue;
    SetBlocked(gang, true);
    AddChips(gang, chips);
    return found;
  }
  return found;
}

uint64_t GangBook::Place(Gang& gang) {
  double& placed = placed_tag_[static_cast<size_t>(gang.run->priority())];
  placed = std::max(placed, gang.tag);
  const bool phased = gang.run->image().kernel(gang.task).plan != nullptr;
  const bool on_lane = gang.run->image().UsesLane(gang.task);
  std::vector<BlockPlace> places;
  if (phased) {
    places = PlacesOf(gang);
  } else {
    for (const Gang::Member& member : gang.members) queues_[member.chip]->Prepare();
  }
  const std::list<Gang> taken = TakeOut(gang);
  uint64_t ready = 0;
  std::vector<BlockTicket> blocks;
  // The run may end and be gone once its blocks are published.
  for (const Gang::Member& member : gang.members) {
    ready += queues_[member.chip]->Publish(on_lane ? &blocks : nullptr);
    // The queue does not use the reservation any more.
    chips_[member.chip].turn = nullptr;
  }
  if (phased) on_phased_(*gang.run, gang.task, std::move(places));
  if (on_lane) on_lane_(*gang.run, std::move(blocks));
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
    (gang.blocked ? chips_[member.chip].blocked : chips_[member.chip].waiting).erase(&gang);
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
  *ready = Stop(gang);
  const std::list<Gang> taken = TakeOut(gang);
  Chips chips;
  AddChips(gang, &chips);
  *ready += Settle(std::move(chips));
  return true;
}

}  // namespace pto::engine
