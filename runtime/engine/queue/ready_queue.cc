#include "runtime/engine/queue/ready_queue.h"

#include <algorithm>
#include <bit>
#include <thread>

#include "runtime/base/failpoint.h"

namespace pto::engine {
namespace {

// The lines of a class and of all higher classes.
uint32_t LinesFrom(Priority priority) { return (1u << (LineOf(priority, PTO_AIV) + 1)) - 1; }

// The lines of one kind, in all classes.
uint32_t LinesOf(pto_core kind) { return 0b001'001'001u << static_cast<uint32_t>(kind) % 3; }

}  // namespace

ReadyQueue::ReadyQueue(uint32_t chip, uint32_t clusters, const Clock& clock, PlacementTrace* trace)
    : chip_(chip),
      clusters_(static_cast<int32_t>(clusters)),
      trace_(trace),
      core_views_(3 * static_cast<size_t>(clusters)),
      clock_(clock),
      cores_(clusters),
      shares_(3 * clusters, clock),
      holds_(clusters, core_views_),
      lanes_left_(clusters) {}

void ReadyQueue::Push(Run& run, absl::Span<const uint32_t> tasks) {
  MutexLock lock(mutex_);
  for (const uint32_t task : tasks) {
    const auto kind = static_cast<pto_core>(run.image().tasks()[task].core);
    Flow& flow = run.tasks().flow(chip_, kind);
    run.tasks().next_ready(task).Set(Flow::kNone);
    if (flow.empty()) {
      flow.first_block = 0;
      shares_.Add(flow, run.account(), LineOf(run.priority(), kind));
    }
    if (flow.head == Flow::kNone) {
      flow.head = task;
    } else {
      run.tasks().next_ready(flow.tail).Set(task);
    }
    flow.tail = task;
    flow.Show(1);
    if (kind == PTO_MIX) {
      cluster_blocks_[ClassOf(run.priority())] += run.image().tasks()[task].block_num;
    }
  }
  ready_.fetch_add(static_cast<uint32_t>(tasks.size()), std::memory_order_release);
  ShowClasses();
}

void ReadyQueue::PushRoots(Run& run) {
  const absl::Span<const uint32_t> roots = run.image().roots();
  const auto kind = static_cast<pto_core>(run.image().tasks()[roots[0]].core);
  MutexLock lock(mutex_);
  Flow& flow = run.tasks().flow(chip_, kind);
  flow.roots = roots;
  flow.first_block = 0;
  shares_.Add(flow, run.account(), LineOf(run.priority(), kind));
  flow.Show(static_cast<int64_t>(roots.size()));
  if (kind == PTO_MIX) cluster_blocks_[ClassOf(run.priority())] += roots.size();
  ready_.fetch_add(static_cast<uint32_t>(roots.size()), std::memory_order_release);
  ShowClasses();
}

void ReadyQueue::ShowClasses() {
  uint32_t classes = 0;
  for (uint32_t c = 0; c < kClassCount; ++c) {
    const bool waits = !placed_[c].empty() || (shares_.lines() >> 3 * c & 7) != 0;
    classes |= waits ? ClassBit(c) : 0;
  }
  if (classes_.load(std::memory_order_relaxed) != classes) {
    classes_.store(classes, std::memory_order_relaxed);
  }
}

void ReadyQueue::PopFirst(Flow& flow, Line line) {
  if (!flow.roots.empty()) {
    flow.roots.remove_prefix(1);
  } else {
    flow.head = flow.run->tasks().next_ready(flow.head).Get();
  }
  flow.Show(-1);
  flow.first_block = 0;
  if (flow.empty()) shares_.Remove(flow, line);
}

int32_t ReadyQueue::AcquireFor(Line line) {
  const pto_core kind = KindOf(line);
  int32_t core = cores_.Acquire(kind);
  if (core >= 0) return core;
  if (clusters_wanted_) {
    if (line == cluster_line_ && YieldCluster(line)) return cores_.Acquire(kind);
    if (ClassOf(line) < ClassOf(cluster_line_) && HasRoom(line) && AnyReserved(kind)) {
      DropClusters();
      core = cores_.Acquire(kind);
      if (core >= 0) return core;
    }
  }
  if (GangHolds() && ClassOf(line) < ClassOf(gang_.reservation->run().priority()) &&
      (Overlapping(gang_.reservation->kind()) & KindBit(kind)) != 0 && HasRoom(line)) {
    RevokeGang();
    core = cores_.Acquire(kind);
  }
  if (core < 0 && kind == PTO_MIX) WantClusters(line);
  return core;
}

void ReadyQueue::AddLanes(BlockTicket ticket, uint32_t first, std::deque<BlockTicket>* tickets) {
  const int32_t cluster = ticket.core;
  const uint32_t lanes = ticket.run->image().cluster_lanes(ticket.task);
  lanes_left_[static_cast<uint32_t>(cluster)] = static_cast<uint8_t>(std::popcount(lanes));
  for (uint32_t lane = first; lane < 3; ++lane) {
    if ((lanes >> lane & 1) == 0) continue;
    ticket.cluster_lane = lane;
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
    ticket->abandoned = (block_num - flow.first_block) *
                        static_cast<uint32_t>(std::popcount(image.cluster_lanes(first)));
    if (ticket->kind == PTO_MIX) cluster_blocks_[ClassOf(line)] -= block_num - flow.first_block;
    PopFirst(flow, line);
    ready_.fetch_sub(1, std::memory_order_release);
    return true;
  }
  ticket->core = AcquireFor(line);
  if (ticket->core < 0) return false;
  shares_.Serve(flow, line);
  shares_.Take(*flow.share, static_cast<uint32_t>(ticket->core), ticket->kind);
  own_view(ticket->core).Take(run, first, ticket->kind);
  if (holds_.active()) holds_.OnTake(ticket->core, clock_.NowNanos());
  // Blocks of slow tasks may wait for each other, so each gets its own core.
  if (run.IsSlow(first)) max = 1;
  ticket->block_end = flow.first_block + std::min(max, block_num - flow.first_block);
  flow.first_block = ticket->block_end;
  uint32_t ended = 0;
  if (ticket->block_end == block_num) {
    if (flow.roots.size() > 1 && max > 1) {
      // All but the last can be removed together; PopFirst removes the last one and may empty the
      // flow.
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
  const auto blocks = ticket->block_end - ticket->block + static_cast<uint32_t>(more->size());
  CountTurn(line, blocks);
  if (ticket->kind == PTO_MIX) cluster_blocks_[ClassOf(line)] -= blocks;
  if ((task.traits & kTaskMixed) != 0) {
    std::deque<BlockTicket>& placed = placed_[ClassOf(line)];
    const size_t before = placed.size();
    AddLanes(*ticket, 1, &placed);
    const auto added = static_cast<uint32_t>(placed.size() - before);
    placed_count_ += added;
    ready_.fetch_add(added, std::memory_order_release);
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

bool ReadyQueue::TakePlaced(const Run* only, size_t placed_class, BlockTicket* ticket) {
  std::deque<BlockTicket>& placed = placed_[placed_class];
  const auto it = only == nullptr
                      ? placed.begin()
                      : std::find_if(placed.begin(), placed.end(), [only](const BlockTicket& t) {
                          return t.run == only && (only->stopping() || !only->NeedsFiber(t.task));
                        });
  if (it == placed.end()) return false;
  *ticket = *it;
  placed.erase(it);
  --placed_count_;
  ready_.fetch_sub(1, std::memory_order_release);
  shares_.Begin(
      static_cast<uint32_t>(ticket->kind == PTO_MIX ? ClusterOf(ticket->core) : ticket->core));
  return true;
}

bool ReadyQueue::TakeLine(Run* only, Line line, uint32_t max, BlockTicket* ticket,
                          std::vector<uint32_t>* more) {
  if (only == nullptr) return TakeFrom(shares_.Next(line), line, max, ticket, more);
  Flow& flow = only->tasks().flow(chip_, KindOf(line));
  if (flow.empty()) return false;
  if (!only->stopping() && (!shares_.IsNext(flow, line) || only->NeedsFiber(flow.first()))) {
    return false;
  }
  return TakeFrom(flow, line, max, ticket, more);
}

bool ReadyQueue::TakeNext(Run* only, Priority lowest, uint32_t max, BlockTicket* ticket,
                          std::vector<uint32_t>* more) {
  const uint32_t lines = shares_.lines();
  for (uint32_t c = 0; c <= ClassOf(lowest); ++c) {
    if (placed_count_ > 0 && TakePlaced(only, c, ticket)) return true;
    uint32_t of_class = lines >> 3 * c & 7;
    if (only != nullptr && c != ClassOf(only->priority())) {
      // A thread that helps with a run does not help it past tasks of a higher class.
      if (of_class != 0 && c < ClassOf(only->priority()) && !only->stopping()) return false;
      continue;
    }
    for (; of_class != 0; of_class &= of_class - 1) {
      const Line line = 3 * c + static_cast<Line>(std::countr_zero(of_class));
      if (TakeLine(only, line, max, ticket, more)) return true;
    }
  }
  return false;
}

bool ReadyQueue::Take(Run* only, Priority lowest, uint32_t max, BlockTicket* ticket,
                      std::vector<uint32_t>* more) {
  more->clear();
  if (ready() == 0) return false;
  MutexLock lock(mutex_);
  // With the lock held, to test that others do not depend on this lock.
  (void)PTO_FAILPOINT("engine.scheduler");
  if (!TakeNext(only, lowest, max, ticket, more) &&
      !(only == nullptr && GiveUpInVain() && TakeNext(only, lowest, max, ticket, more))) {
    return false;
  }
  ShowClasses();
  Review();
  return true;
}

bool ReadyQueue::OthersWait(const Run& run) const {
  if (ready() == 0) return false;
  MutexLock lock(mutex_);
  for (uint32_t c = 0; c <= ClassOf(run.priority()); ++c) {
    if (!placed_[c].empty()) return true;
  }
  return shares_.OthersWait(run, LinesFrom(run.priority()));
}

bool ReadyQueue::WaitsForThread() const {
  MutexLock lock(mutex_);
  if (placed_count_ > 0) return true;
  for (uint32_t lines = shares_.lines(); lines != 0; lines &= lines - 1) {
    if (cores_.HasFree(KindOf(static_cast<Line>(std::countr_zero(lines))))) return true;
  }
  return false;
}

bool ReadyQueue::TakeCore(Run& run, pto_core kind, int32_t* core) {
  MutexLock lock(mutex_);
  if ((shares_.lines() & LinesOf(kind)) != 0) return false;
  *core = cores_.Acquire(kind);
  if (*core < 0) return false;
  shares_.Take(shares_.Of(run.account()), static_cast<uint32_t>(*core), kind);
  own_view(*core).Take(run, CoreView::kUnknownTask, kind);
  if (holds_.active()) holds_.OnTake(*core, clock_.NowNanos());
  return true;
}

bool ReadyQueue::TakeCores(Run& run, pto_core kind, uint32_t member, uint32_t members,
                           uint32_t blocks, std::vector<BlockPlace>* places) {
  MutexLock lock(mutex_);
  if (shares_.lines() != 0 || gang_.reservation != nullptr) return false;
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
  const double part = 1.0 / (members * blocks);
  for (size_t i = before; i < places->size(); ++i) {
    const int32_t core = (*places)[i].core;
    shares_.Take(share, static_cast<uint32_t>(core), kind, ShareTable::From::kNow, part);
    own_view(core).Take(run, CoreView::kUnknownTask, kind);
    if (holds_.active()) holds_.OnTake(core, clock_.NowNanos());
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
  if (holds_.active() && holds_.OnRelease(kind, core, clock_.NowNanos())) {
    AddNews(kLongHoldEnded);
  }
  own_view(core).Release();
  shares_.Return(static_cast<uint32_t>(core));
  cores_.Release(kind, core);
  Review();
}

bool ReadyQueue::OthersWaitThan(absl::Span<const Account* const> accounts, bool patient) {
  if (ready() == 0) return false;
  if (patient) {
    mutex_.Lock();
  } else if (!mutex_.TryLock()) {
    return false;
  }
  const auto is_other = [&](const Account* account) {
    return std::find(accounts.begin(), accounts.end(), account) == accounts.end();
  };
  shares_.CountHeld();
  bool others = shares_.AnyWaits(is_other);
  for (const std::deque<BlockTicket>& placed : placed_) {
    others = others || std::any_of(placed.begin(), placed.end(), [&](const BlockTicket& block) {
               return is_other(block.run->account().get());
             });
  }
  mutex_.Unlock();
  return others;
}

void ReadyQueue::SettleCoreTime() {
  // Locks are held for microseconds, unless a thread hangs.
  constexpr int kTries = 100;
  for (int i = 0; !mutex_.TryLock(); ++i) {
    if (i == kTries) return;
    std::this_thread::yield();
  }
  shares_.SettleCoreTime();
  mutex_.Unlock();
}

void ReadyQueue::CountTurn(Line line, uint32_t blocks) {
  owed_[line] -= std::min(owed_[line], blocks);
  // A cluster may never become free while single cores are always busy. Gangs must not wait for it.
  const Line clusters = line / 3 * 3;
  if (line != clusters) owed_[clusters] -= std::min(owed_[clusters], blocks);
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

}  // namespace pto::engine
