// The part of ReadyQueue that handles reservations: for the gang that has the turn, and of clusters
// for tasks that are not gangs.

#include <algorithm>
#include <bit>

#include "runtime/engine/queue/ready_queue.h"

namespace pto::engine {

// ---- gangs

void ReadyQueue::GiveTurn(Reservation* reservation) {
  MutexLock lock(mutex_);
  StopGang();
  if (gang_.share != nullptr) shares_.RemoveGang(*gang_.share);
  gang_ = {};
  gang_.reservation = reservation;
  if (reservation != nullptr) gang_.share = &shares_.AddGang(reservation->run().account());
  ShowReservations();
}

bool ReadyQueue::OthersGoFirst() const {
  const Share& own = *gang_.share;
  const Line first = LineOf(gang_.reservation->run().priority(), PTO_MIX);
  for (Line line = first; line < first + 3; ++line) {
    if ((shares_.lines() >> line & 1) == 0 || !HasRoom(line) ||
        (Overlapping(gang_.reservation->kind()) & KindBit(KindOf(line))) == 0) {
      continue;
    }
    if (shares_.Least(line)->used_ns < own.used_ns) return true;
    if (owed_[line] > 0 && !own.rings[line].empty()) return true;
  }
  return false;
}

bool ReadyQueue::GangMayCollect() {
  if (gang_.reservation == nullptr) return false;
  const Reservation& gang = *gang_.reservation;
  if (!holds_.LeavesRoomFor(gang.kind(), gang.blocks())) return false;
  const Line own = LineOf(gang.run().priority(), PTO_MIX);
  for (uint32_t lines = shares_.lines() & ((1u << own) - 1); lines != 0; lines &= lines - 1) {
    const auto line = static_cast<Line>(std::countr_zero(lines));
    if ((Overlapping(gang.kind()) & KindBit(KindOf(line))) != 0 && HasRoom(line)) return false;
  }
  if (!gang_.share_turn && OthersGoFirst()) return false;
  gang_.share_turn = true;
  return true;
}

bool ReadyQueue::MayCollect() {
  MutexLock lock(mutex_);
  return gang_.told = GangMayCollect();
}

void ReadyQueue::BeginCollecting(bool first_try) {
  MutexLock lock(mutex_);
  if (clusters_wanted_) DropClusters();
  gang_.state = Gang::kCollects;
  gang_.first_try = first_try;
  gang_.since_ns = clock_.NowNanos();
  holds_.BeginWatch(gang_.since_ns);
  holds_.NoteOld();
  wanted_.store(Overlapping(gang_.reservation->kind()) |
                    static_cast<uint32_t>(gang_.reservation->run().priority()) << 3,
                std::memory_order_relaxed);
  ReviewGang();
  if (gang_.state == Gang::kCollects) GiveUpInVain();
}

void ReadyQueue::ReviewGang() {
  if (gang_.state == Gang::kStopped && !gang_.told && GangMayCollect()) {
    gang_.told = true;
    AddNews(kGangNews);
  }
  if (gang_.state != Gang::kCollects) return;
  if (gang_.reservation->Collect(cores_, holds_)) {
    gang_.state = Gang::kComplete;
    wanted_.store(0, std::memory_order_relaxed);
    AddNews(kGangNews);
  }
  ShowReservations();
}

bool ReadyQueue::GiveUpInVain() {
  if (gang_.state != Gang::kCollects) return false;
  if (gang_.first_try) holds_.MarkWaiting();
  if (holds_.LeavesRoomFor(gang_.reservation->kind(), gang_.reservation->blocks())) return false;
  RevokeGang();
  return true;
}

void ReadyQueue::StopGang() {
  if (gang_.state == Gang::kStopped) return;
  gang_.reservation->GiveBack(cores_);
  gang_.state = Gang::kStopped;
  gang_.told = false;
  wanted_.store(0, std::memory_order_relaxed);
  holds_.EndWatch();
  holds_.ForgetOld();
  ShowReservations();
}

void ReadyQueue::RevokeGang() {
  StopGang();
  AddNews(kGangNews | kCoresFreed);
}

bool ReadyQueue::StopCollecting() {
  MutexLock lock(mutex_);
  const bool held = gang_.reservation != nullptr && gang_.reservation->held() > 0;
  StopGang();
  return held;
}

ReadyQueue::Gathering ReadyQueue::gathering() const {
  MutexLock lock(mutex_);
  switch (gang_.state) {
    case Gang::kStopped:
      return Gathering::kStopped;
    case Gang::kCollects:
      return Gathering::kCollecting;
    default:
      return Gathering::kComplete;
  }
}

bool ReadyQueue::Fix() {
  MutexLock lock(mutex_);
  if (gang_.state != Gang::kComplete) return false;
  gang_.state = Gang::kFixed;
  return true;
}

void ReadyQueue::Unfix() {
  MutexLock lock(mutex_);
  gang_.state = Gang::kComplete;
}

bool ReadyQueue::LeavesRoomFor(pto_core kind, uint32_t blocks) const {
  MutexLock lock(mutex_);
  return holds_.LeavesRoomFor(kind, blocks);
}

void ReadyQueue::Prepare() {
  MutexLock lock(mutex_);
  const Reservation& gang = *gang_.reservation;
  Run& run = gang.run();
  BlockTicket ticket;
  ticket.run = &run;
  ticket.task = gang.task();
  ticket.kind = gang.kind();
  ticket.chip = chip_;
  ticket.member = gang.member();
  const bool mixed = (run.image().tasks()[ticket.task].traits & kTaskMixed) != 0;
  shares_.ServeGang(*gang_.share);
  if (ticket.member == 0) run.tasks().gangs_waiting().fetch_sub(1, std::memory_order_relaxed);
  for (const int32_t core : gang.cores()) {
    // Core time counts from when a thread takes the block, as for other blocks.
    shares_.Take(*gang_.share, static_cast<uint32_t>(core), ticket.kind, ShareTable::From::kBegin);
    own_view(core).Take(run, ticket.task, ticket.kind);
    holds_.OnTake(core, clock_.NowNanos());
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
  const Reservation& gang = *gang_.reservation;
  BlockTicket ticket;
  ticket.run = &gang.run();
  ticket.task = gang.task();
  ticket.kind = gang.kind();
  ticket.chip = chip_;
  ticket.member = gang.member();
  if (ticket.member == 0)
    ticket.run->tasks().gangs_waiting().fetch_sub(1, std::memory_order_relaxed);
  const double part = 1.0 / (gang.members() * gang.blocks());
  shares_.ServeGang(*gang_.share);
  for (const int32_t core : gang.cores()) {
    shares_.Take(*gang_.share, static_cast<uint32_t>(core), ticket.kind, ShareTable::From::kNow,
                 part);
    // The first core represents all of them: see JointTask::Show.
    const bool is_first = ticket.member == 0 && ticket.block == 0;
    own_view(core).Take(*ticket.run, is_first ? ticket.task : CoreView::kUnknownTask, ticket.kind);
    holds_.OnTake(core, clock_.NowNanos());
    ticket.core = core;
    ticket.block_end = ticket.block + 1;
    if (trace_ != nullptr) trace_->OnPlaced(ticket);
    ++ticket.block;
  }
  return gang.cores();
}

uint32_t ReadyQueue::Publish(std::vector<BlockTicket>* taken) {
  MutexLock lock(mutex_);
  const Reservation& gang = *gang_.reservation;
  if (taken != nullptr) {
    for (const BlockTicket& ticket : prepared_) {
      const int32_t core = ticket.kind == PTO_MIX ? ClusterOf(ticket.core) : ticket.core;
      shares_.Begin(static_cast<uint32_t>(core));
    }
    taken->insert(taken->end(), prepared_.begin(), prepared_.end());
    prepared_.clear();
  }
  const auto calls = static_cast<uint32_t>(prepared_.size());
  std::deque<BlockTicket>& placed = placed_[ClassOf(gang.run().priority())];
  placed.insert(placed.end(), prepared_.begin(), prepared_.end());
  placed_count_ += calls;
  prepared_.clear();
  ready_.fetch_add(calls, std::memory_order_release);
  for (Line line = 0; line < kLineCount; ++line) {
    const pto_core kind = KindOf(line);
    if ((shares_.lines() >> line & 1) == 0) {
      owed_[line] = 0;
    } else if (gang.kind() == PTO_MIX && kind == PTO_AIV) {
      owed_[line] = 2 * gang.blocks();
    } else if (gang.kind() == PTO_AIV && kind == PTO_MIX) {
      owed_[line] = (gang.blocks() + 1) / 2;
    } else if ((Overlapping(gang.kind()) & KindBit(kind)) != 0) {
      owed_[line] = gang.blocks();
    }
  }
  shares_.RemoveGang(*gang_.share);
  gang_ = {};
  holds_.EndWatch();
  holds_.ForgetOld();
  holds_.Decay();
  ShowReservations();
  ShowClasses();
  return calls;
}

// ---- clusters

size_t ReadyQueue::WantedClusters() const {
  const uint32_t singles = shares_.lines() >> (cluster_line_ + 1) & 3;
  return singles != 0 ? 1
                      : static_cast<size_t>(std::min<uint64_t>(
                            cluster_blocks_[ClassOf(cluster_line_)], cores_.clusters()));
}

void ReadyQueue::WantClusters(Line line) {
  if (clusters_wanted_) {
    if (cluster_line_ <= line) return;
    DropClusters();
  }
  if (GangHolds() || gang_.state == Gang::kFixed) return;
  for (Line single = line + 1; single < line + 3; ++single) {
    if ((shares_.lines() >> single & 1) != 0 &&
        shares_.Least(single)->used_ns < shares_.Least(line)->used_ns) {
      return;
    }
  }
  clusters_wanted_ = true;
  cluster_line_ = line;
  clusters_since_ns_ = clock_.NowNanos();
  holds_.BeginWatch(clusters_since_ns_);
  CollectClusters();
}

int32_t ReadyQueue::ChooseCluster() const {
  int32_t best = -1;
  int best_score = 0;
  for (uint32_t c = 0; c < cores_.clusters(); ++c) {
    const int free = std::popcount(cores_.FreeParts(c));
    if (free == 0 || holds_.HasPartOf(c)) continue;
    // Prefer clusters whose blocks do not wait, because they become free sooner.
    const int score = free + (holds_.WaitsIn(c) ? 0 : 3);
    if (score <= best_score) continue;
    best_score = score;
    best = static_cast<int32_t>(c);
  }
  return best;
}

void ReadyQueue::CollectClusters() {
  if ((shares_.lines() >> cluster_line_ & 1) == 0) {
    DropClusters();
    return;
  }
  for (ReservedCluster& reserved : reserved_clusters_) {
    if (!reserved.complete()) reserved.parts |= cores_.TakeParts(reserved.cluster);
  }
  const size_t wanted = WantedClusters();
  while (reserved_clusters_.size() > wanted) {
    cores_.ReturnParts(reserved_clusters_.back().cluster, reserved_clusters_.back().parts);
    reserved_clusters_.pop_back();
    AddNews(kCoresFreed);
  }
  while (reserved_clusters_.size() < wanted) {
    const int32_t next = ChooseCluster();
    if (next < 0) break;
    const auto cluster = static_cast<uint32_t>(next);
    reserved_clusters_.push_back({cluster, cores_.TakeParts(cluster), clock_.NowNanos()});
  }
  ShowReservations();
}

bool ReadyQueue::YieldCluster(Line line) {
  const auto complete =
      std::find_if(reserved_clusters_.begin(), reserved_clusters_.end(),
                   [](const ReservedCluster& reserved) { return reserved.complete(); });
  if (line != cluster_line_ || complete == reserved_clusters_.end()) return false;
  cores_.ReturnParts(complete->cluster, complete->parts);
  reserved_clusters_.erase(complete);
  ShowReservations();
  return true;
}

bool ReadyQueue::AnyReserved(pto_core kind) const {
  const uint32_t parts = kind == PTO_AIC ? 1u : kind == PTO_AIV ? 6u : CoreMap::kWholeCluster;
  return std::any_of(reserved_clusters_.begin(), reserved_clusters_.end(),
                     [parts](const ReservedCluster& r) { return (r.parts & parts) != 0; });
}

void ReadyQueue::DropClusters() {
  for (const ReservedCluster& reserved : reserved_clusters_) {
    cores_.ReturnParts(reserved.cluster, reserved.parts);
  }
  if (!reserved_clusters_.empty()) AddNews(kCoresFreed);
  reserved_clusters_.clear();
  clusters_wanted_ = false;
  holds_.EndWatch();
  ShowReservations();
}

// ---- both

int64_t ReadyQueue::CheckPatience() {
  MutexLock lock(mutex_);
  const int64_t now = clock_.NowNanos();
  const int64_t patience = holds_.patience_ns();
  int64_t next = 0;
  const auto expires = [&](int64_t since_ns) {
    if (now - since_ns >= patience) return true;
    next = next == 0 ? since_ns + patience : std::min(next, since_ns + patience);
    return false;
  };
  if (gang_.state == Gang::kCollects && expires(gang_.since_ns)) {
    holds_.MarkAll();
    if (!holds_.LeavesRoomFor(gang_.reservation->kind(), gang_.reservation->blocks())) {
      RevokeGang();
    } else {
      // Other clusters can still be collected.
      gang_.since_ns = now;
      holds_.NoteOld();
      ReviewGang();
      next = now + patience;
    }
  }
  bool dropped = false;
  for (size_t i = 0; i < reserved_clusters_.size();) {
    const ReservedCluster reserved = reserved_clusters_[i];
    if (reserved.complete() || !expires(reserved.since_ns)) {
      ++i;
      continue;
    }
    holds_.MarkCluster(reserved.cluster);
    cores_.ReturnParts(reserved.cluster, reserved.parts);
    reserved_clusters_.erase(reserved_clusters_.begin() + static_cast<ptrdiff_t>(i));
    dropped = true;
  }
  if (dropped) {
    AddNews(kCoresFreed);
    clusters_since_ns_ = now;
  }
  // If no cluster has had a free part for that long, blocks hold clusters as a whole.
  if (clusters_wanted_ && reserved_clusters_.empty() && expires(clusters_since_ns_)) {
    for (uint32_t c = 0; c < cores_.clusters(); ++c) {
      if (cores_.FreeParts(c) == 0) holds_.MarkCluster(c);
    }
    clusters_since_ns_ = now;
  }
  // New long holds are ignored from now on, so reservations may take other cores.
  Review();
  if (next == 0 && reserving()) next = now + patience;
  return next;
}

void ReadyQueue::ShowReservations() {
  const bool clusters_missing =
      clusters_wanted_ && HasRoom(cluster_line_) &&
      std::none_of(reserved_clusters_.begin(), reserved_clusters_.end(),
                   [](const ReservedCluster& reserved) { return reserved.complete(); });
  reserving_.store(gang_.state == Gang::kCollects || clusters_missing, std::memory_order_seq_cst);
  uint32_t idle = gang_.reservation == nullptr ? 0 : gang_.reservation->held();
  for (const ReservedCluster& reserved : reserved_clusters_) {
    idle += static_cast<uint32_t>(std::popcount(reserved.parts));
  }
  reservation_view_.idle_cores.store(idle, std::memory_order_relaxed);
  if (gang_.reservation == nullptr) {
    reservation_view_.run.store(nullptr, std::memory_order_relaxed);
    return;
  }
  reservation_view_.task.store(gang_.reservation->task(), std::memory_order_relaxed);
  reservation_view_.have.store(static_cast<uint32_t>(gang_.reservation->cores().size()),
                               std::memory_order_relaxed);
  reservation_view_.want.store(gang_.reservation->blocks(), std::memory_order_relaxed);
  reservation_view_.run.store(&gang_.reservation->run(), std::memory_order_release);
}

}  // namespace pto::engine
