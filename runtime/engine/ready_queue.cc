#include "runtime/engine/ready_queue.h"

#include <algorithm>
#include <bit>

#include "runtime/base/failpoint.h"

namespace pto {
namespace {

// The lines of a class and of those above it.
uint32_t LinesFrom(Priority priority) { return (1u << (LineOf(priority, PTO_AIV) + 1)) - 1; }

// The lines of one kind, of all classes.
uint32_t LinesOf(pto_core kind) { return 0b001'001'001u << static_cast<uint32_t>(kind) % 3; }

}  // namespace

ReadyQueue::ReadyQueue(uint32_t chip, uint32_t clusters, const Clock& clock, PlacementTrace* trace)
    : chip_(chip),
      clusters_(static_cast<int32_t>(clusters)),
      trace_(trace),
      core_views_(3 * static_cast<size_t>(clusters)),
      cores_(clusters),
      shares_(3 * clusters, clock),
      lanes_left_(clusters) {}

void ReadyQueue::Push(Run& run, absl::Span<const uint32_t> tasks) {
  MutexLock lock(mutex_);
  for (const uint32_t task : tasks) {
    const auto kind = static_cast<pto_core>(run.image().tasks()[task].core);
    Flow& flow = run.flow(chip_, kind);
    run.next_ready_[task] = Flow::kNone;
    if (flow.empty()) {
      flow.first_block = 0;
      shares_.Add(flow, run.account(), LineOf(run.priority(), kind));
    }
    (flow.head == Flow::kNone ? flow.head : run.next_ready_[flow.tail]) = task;
    flow.tail = task;
    flow.Show(1);
  }
  ready_.fetch_add(static_cast<uint32_t>(tasks.size()), std::memory_order_release);
}

void ReadyQueue::PushRoots(Run& run) {
  const absl::Span<const uint32_t> roots = run.image().roots();
  const auto kind = static_cast<pto_core>(run.image().tasks()[roots[0]].core);
  MutexLock lock(mutex_);
  Flow& flow = run.flow(chip_, kind);
  flow.roots = roots;
  flow.first_block = 0;
  shares_.Add(flow, run.account(), LineOf(run.priority(), kind));
  flow.Show(static_cast<int64_t>(roots.size()));
  ready_.fetch_add(static_cast<uint32_t>(roots.size()), std::memory_order_release);
}

void ReadyQueue::PopFirst(Flow& flow, Line line) {
  if (!flow.roots.empty()) {
    flow.roots.remove_prefix(1);
  } else {
    flow.head = flow.run->next_ready_[flow.head];
  }
  flow.Show(-1);
  flow.first_block = 0;
  if (flow.empty()) shares_.Remove(flow, line);
}

int32_t ReadyQueue::AcquireFor(Line line) {
  const int32_t core = cores_.Acquire(KindOf(line));
  if (core >= 0 || reservation_ == nullptr || reservation_->complete() ||
      line / 3 >= LineOf(reservation_->run().priority(), PTO_MIX) / 3) {
    return core;
  }
  reservation_->GiveBack(cores_);
  ShowReservation();
  return cores_.Acquire(KindOf(line));
}

void ReadyQueue::AddLanes(BlockTicket ticket, uint32_t first, std::deque<BlockTicket>* tickets) {
  const int32_t cluster = ticket.core;
  const uint32_t lanes = ticket.run->image().lanes(ticket.task);
  lanes_left_[static_cast<uint32_t>(cluster)] = static_cast<uint8_t>(std::popcount(lanes));
  for (uint32_t lane = first; lane < 3; ++lane) {
    if ((lanes >> lane & 1) == 0) continue;
    ticket.lane = lane;
    ticket.core = lane == 0 ? cluster
                            : static_cast<int32_t>(cores_.clusters()) + 2 * cluster +
                                  static_cast<int32_t>(lane) - 1;
    tickets->push_back(ticket);
  }
}

bool ReadyQueue::TakeFrom(Flow& flow, Line line, uint32_t max, BlockTicket* ticket,
                          std::vector<uint32_t>* more) {
  Run& run = *flow.run;
  const GraphImage& image = run.image();
  const uint32_t first = flow.first();
  const ImageTask& task = image.tasks()[first];
  const uint32_t block_num = task.block_num;
  *ticket = {};
  ticket->run = &run;
  ticket->task = first;
  ticket->block = flow.first_block;
  ticket->kind = KindOf(line);
  ticket->chip = chip_;
  if (run.stopping()) {
    ticket->block_end = block_num;
    ticket->abandoned =
        (block_num - flow.first_block) * static_cast<uint32_t>(std::popcount(image.lanes(first)));
    PopFirst(flow, line);
    ready_.fetch_sub(1, std::memory_order_release);
    return true;
  }
  ticket->core = AcquireFor(line);
  if (ticket->core < 0) return false;
  shares_.Take(*flow.share, static_cast<uint32_t>(ticket->core), ticket->kind);
  own_view(ticket->core).Take(run, first, ticket->kind);
  // What is not plain may wait for other blocks of its task: each gets a core of its own.
  if (run.IsSlow(first)) max = 1;
  ticket->block_end = flow.first_block + std::min(max, block_num - flow.first_block);
  flow.first_block = ticket->block_end;
  uint32_t ended = 0;
  if (ticket->block_end == block_num) {
    if (flow.roots.size() > 1 && max > 1) {
      // All of them could follow, but for the last one, by which the flow may become empty.
      const size_t count = std::min<size_t>(max, flow.roots.size()) - 1;
      more->assign(flow.roots.begin() + 1, flow.roots.begin() + 1 + count);
      flow.roots.remove_prefix(count);
      flow.Show(-static_cast<int64_t>(count));
      ended = static_cast<uint32_t>(count);
    }
    PopFirst(flow, line);
    ++ended;
    while (block_num == 1 && !flow.empty() && ended < max &&
           image.tasks()[flow.first()].block_num == 1 && !run.IsSlow(flow.first())) {
      more->push_back(flow.first());
      PopFirst(flow, line);
      ++ended;
    }
  }
  CountTurn(line, ticket->block_end - ticket->block + static_cast<uint32_t>(more->size()));
  if ((task.traits & kTaskMixed) != 0) {
    const size_t before = placed_.size();
    AddLanes(*ticket, 1, &placed_);
    ready_.fetch_add(static_cast<uint32_t>(placed_.size() - before), std::memory_order_release);
  }
  if (ended > 0) ready_.fetch_sub(ended, std::memory_order_release);
  if (trace_ != nullptr) {
    BlockTicket placed = *ticket;
    trace_->OnPlaced(placed);
    for (const uint32_t other : *more) {
      placed.task = other;
      trace_->OnPlaced(placed);
    }
  }
  return true;
}

bool ReadyQueue::TakePlaced(const Run* only, BlockTicket* ticket) {
  const auto it = only == nullptr
                      ? placed_.begin()
                      : std::find_if(placed_.begin(), placed_.end(), [only](const BlockTicket& t) {
                          return t.run == only && (only->stopping() || !only->NeedsFiber(t.task));
                        });
  if (it == placed_.end()) return false;
  *ticket = *it;
  placed_.erase(it);
  ready_.fetch_sub(1, std::memory_order_release);
  return true;
}

bool ReadyQueue::Take(Run* only, uint32_t max, BlockTicket* ticket, std::vector<uint32_t>* more) {
  more->clear();
  if (ready() == 0) return false;
  MutexLock lock(mutex_);
  // With the lock: what it is to show is that others can do without.
  (void)PTO_FAILPOINT("engine.scheduler");
  if (!placed_.empty() && TakePlaced(only, ticket)) return true;
  uint32_t lines = shares_.lines();
  if (only != nullptr) lines &= LinesFrom(only->priority());
  while (lines != 0) {
    const auto line = static_cast<Line>(std::countr_zero(lines));
    lines &= lines - 1;
    Flow* flow = nullptr;
    if (only == nullptr) {
      flow = &shares_.Next(line);
    } else {
      const bool stopping = only->stopping();
      if (line / 3 != LineOf(only->priority(), PTO_MIX) / 3) {
        // Whoever helps with a run does not help it past others.
        if (stopping) continue;
        return false;
      }
      flow = &only->flow(chip_, KindOf(line));
      if (flow->empty()) continue;
      if (!stopping && (!shares_.IsNext(*flow, line) || only->NeedsFiber(flow->first()))) continue;
    }
    if (!TakeFrom(*flow, line, max, ticket, more)) continue;
    if (reservation_ != nullptr) Collect();
    return true;
  }
  return false;
}

bool ReadyQueue::OthersWait(const Run& run) const {
  if (ready() == 0) return false;
  MutexLock lock(mutex_);
  return !placed_.empty() || shares_.OthersWait(run, LinesFrom(run.priority()));
}

bool ReadyQueue::TakeCore(Run& run, pto_core kind, int32_t* core) {
  MutexLock lock(mutex_);
  if ((shares_.lines() & LinesOf(kind)) != 0) return false;
  *core = cores_.Acquire(kind);
  if (*core < 0) return false;
  shares_.Take(shares_.Of(run.account()), static_cast<uint32_t>(*core), kind);
  own_view(*core).Take(run, CoreView::kUnknownTask, kind);
  return true;
}

bool ReadyQueue::TakeCores(Run& run, pto_core kind, uint32_t member, uint32_t blocks,
                           std::vector<BlockPlace>* places) {
  MutexLock lock(mutex_);
  if (shares_.lines() != 0 || reservation_ != nullptr) return false;
  const size_t before = places->size();
  for (uint32_t block = 0; block < blocks; ++block) {
    const int32_t core = cores_.Acquire(kind);
    if (core < 0) {
      for (; places->size() > before; places->pop_back()) {
        cores_.Release(kind, places->back().core);
      }
      return false;
    }
    places->push_back({chip_, member, block, core});
  }
  Share& share = shares_.Of(run.account());
  for (size_t i = before; i < places->size(); ++i) {
    shares_.Take(share, static_cast<uint32_t>((*places)[i].core), kind);
    own_view((*places)[i].core).Take(run, CoreView::kUnknownTask, kind);
  }
  return true;
}

void ReadyQueue::ReleaseCore(pto_core kind, int32_t core) {
  MutexLock lock(mutex_);
  if (kind == PTO_MIX) {
    core = ClusterOf(core);
    uint8_t& lanes = lanes_left_[static_cast<uint32_t>(core)];
    if (lanes > 0 && --lanes > 0) return;
  }
  own_view(core).Release();
  shares_.Return(static_cast<uint32_t>(core));
  cores_.Release(kind, core);
  if (reservation_ != nullptr) Collect();
}

void ReadyQueue::CountTurn(Line line, uint32_t blocks) {
  owed_[line] -= std::min(owed_[line], blocks);
  // A cluster may never be free while single cores are busy all the time: then gangs do not wait
  // for it either.
  const Line clusters = line / 3 * 3;
  if (line != clusters) owed_[clusters] -= std::min(owed_[clusters], blocks);
}

bool ReadyQueue::OthersGoFirst() const {
  const Line clusters = LineOf(reservation_->run().priority(), PTO_MIX);
  for (uint32_t lines = shares_.lines(); lines != 0; lines &= lines - 1) {
    const auto line = static_cast<Line>(std::countr_zero(lines));
    if (line >= clusters + 3) break;
    if ((Overlapping(reservation_->kind()) & KindBit(KindOf(line))) == 0) continue;
    if (line < clusters || owed_[line] > 0) return true;
  }
  return false;
}

void ReadyQueue::Collect() {
  if (reservation_->complete() || OthersGoFirst()) return;
  const bool complete = reservation_->Collect(cores_);
  ShowReservation();
  if (!complete) return;
  wanted_.store(0, std::memory_order_relaxed);
  news_.store(true, std::memory_order_release);
}

void ReadyQueue::ShowReservation() {
  if (reservation_ == nullptr) {
    reservation_view_.run.store(nullptr, std::memory_order_relaxed);
    return;
  }
  reservation_view_.task.store(reservation_->task(), std::memory_order_relaxed);
  reservation_view_.have.store(static_cast<uint32_t>(reservation_->cores().size()),
                               std::memory_order_relaxed);
  reservation_view_.want.store(reservation_->blocks(), std::memory_order_relaxed);
  reservation_view_.run.store(&reservation_->run(), std::memory_order_release);
}

bool ReadyQueue::SetReservation(Reservation* reservation) {
  MutexLock lock(mutex_);
  if (reservation_ != nullptr) reservation_->GiveBack(cores_);
  reservation_ = reservation;
  ShowReservation();
  if (reservation_ == nullptr) {
    wanted_.store(0, std::memory_order_relaxed);
    return false;
  }
  wanted_.store(Overlapping(reservation_->kind()) |
                    static_cast<uint32_t>(reservation_->run().priority()) << 3,
                std::memory_order_relaxed);
  Collect();
  return reservation_->complete();
}

bool ReadyQueue::ReservationComplete() const {
  MutexLock lock(mutex_);
  return reservation_ != nullptr && reservation_->complete();
}

void ReadyQueue::Prepare() {
  MutexLock lock(mutex_);
  Run& run = reservation_->run();
  BlockTicket ticket;
  ticket.run = &run;
  ticket.task = reservation_->task();
  ticket.kind = reservation_->kind();
  ticket.chip = chip_;
  ticket.member = reservation_->member();
  const bool mixed = (run.image().tasks()[ticket.task].traits & kTaskMixed) != 0;
  Share& share = shares_.Of(run.account());
  if (ticket.member == 0) run.gangs_waiting_.fetch_sub(1, std::memory_order_relaxed);
  for (const int32_t core : reservation_->cores()) {
    shares_.Take(share, static_cast<uint32_t>(core), ticket.kind);
    own_view(core).Take(run, ticket.task, ticket.kind);
    ticket.block_end = ticket.block + 1;
    ticket.core = core;
    if (mixed) {
      AddLanes(ticket, 0, &prepared_);
    } else {
      prepared_.push_back(ticket);
    }
    if (trace_ != nullptr) trace_->OnPlaced(ticket);
    ++ticket.block;
  }
}

std::vector<int32_t> ReadyQueue::Assign() {
  MutexLock lock(mutex_);
  BlockTicket ticket;
  ticket.run = &reservation_->run();
  ticket.task = reservation_->task();
  ticket.kind = reservation_->kind();
  ticket.chip = chip_;
  ticket.member = reservation_->member();
  Share& share = shares_.Of(ticket.run->account());
  if (ticket.member == 0) ticket.run->gangs_waiting_.fetch_sub(1, std::memory_order_relaxed);
  for (const int32_t core : reservation_->cores()) {
    shares_.Take(share, static_cast<uint32_t>(core), ticket.kind);
    // The first one stands for all: see Worker::ShowJoint.
    const bool is_first = ticket.member == 0 && ticket.block == 0;
    own_view(core).Take(*ticket.run, is_first ? ticket.task : CoreView::kUnknownTask, ticket.kind);
    ticket.core = core;
    ticket.block_end = ticket.block + 1;
    if (trace_ != nullptr) trace_->OnPlaced(ticket);
    ++ticket.block;
  }
  return reservation_->cores();
}

uint32_t ReadyQueue::Publish() {
  MutexLock lock(mutex_);
  const auto calls = static_cast<uint32_t>(prepared_.size());
  placed_.insert(placed_.end(), prepared_.begin(), prepared_.end());
  prepared_.clear();
  ready_.fetch_add(calls, std::memory_order_release);
  reservation_ = nullptr;
  ShowReservation();
  for (Line line = 0; line < kLineCount; ++line) {
    const bool waits = (shares_.lines() >> line & 1) != 0;
    owed_[line] = waits ? cores_.Capacity(KindOf(line)) : 0;
  }
  return calls;
}

uint32_t ReadyQueue::busy_cores() const {
  constexpr uint32_t kOfCluster = 3;
  uint32_t busy = 0;
  for (const CoreView& view : core_views_) {
    if (view.run.load(std::memory_order_acquire) == nullptr) continue;
    busy += view.kind.load(std::memory_order_relaxed) == PTO_MIX ? kOfCluster : 1;
  }
  return busy;
}

}  // namespace pto
