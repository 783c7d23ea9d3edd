#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "runtime/base/alarm.h"
#include "runtime/base/clock.h"
#include "runtime/base/timer.h"
#include "runtime/chip/chip.h"
#include "runtime/engine/queue/gang_book.h"
#include "runtime/engine/queue/parking.h"
#include "runtime/engine/queue/ready_queue.h"
#include "runtime/engine/run/completions.h"
#include "runtime/engine/run/run.h"
#include "runtime/engine/signal/wait_board.h"

namespace pto::engine {

// Which chips a worker may take tasks of.
class ChipGate {
 public:
  virtual bool IsOpen(uint32_t chip) const = 0;

 protected:
  ~ChipGate() = default;
};

// The ready tasks of all chips and the sleeping workers: the part of the engine that its workers
// share. Thread-safe.
class Scheduler {
 public:
  // `timers` and `trace` may be nullptr. Without timers, the patience of reservations never
  // expires.
  Scheduler(const std::vector<std::shared_ptr<Chip>>& chips, const Clock& clock, TimerQueue* timers,
            uint32_t executors, PlacementTrace* trace);

  const Clock& clock() const { return clock_; }
  Parking& parking() { return parking_; }
  const Parking& parking() const { return parking_; }
  // What tasks wait for, readable without a lock.
  WaitBoard& board() { return board_; }
  const WaitBoard& board() const { return board_; }
  PlacementTrace* trace() const { return trace_; }
  ReadyQueue& queue(uint32_t chip) { return chips_[chip]->queue; }
  const ReadyQueue& queue(uint32_t chip) const { return chips_[chip]->queue; }
  uint32_t chip_count() const { return static_cast<uint32_t>(chips_.size()); }

  // Queues ready tasks of a run, which are already counted in run.life(). `scratch` is empty before
  // and after. Wakes a worker for each block; one less with `taking_one`, because the caller takes
  // one.
  void Push(Run& run, absl::Span<const uint32_t> tasks, bool taking_one,
            std::vector<uint32_t>* scratch);

  // The same for all roots of a run whose tasks are alike (GraphImage::alike).
  void PushRoots(Run& run, bool taking_one);
  // Takes all cores for a gang at once: a core for each block of each member, in that order. Fails
  // if a gang waits, or a task on one of its chips.
  bool TakeGang(Run& run, uint32_t task, std::vector<BlockPlace>* places);
  // Whether TakeGang would find no waiting tasks, for these cores.
  bool NobodyWaits(absl::Span<const BlockPlace> places) const {
    return gangs_->empty() && std::all_of(places.begin(), places.end(), [&](const BlockPlace& p) {
             return queue(p.chip).ready() == 0;
           });
  }
  void SetOnPhased(GangBook::OnPhased on_phased) { gangs_->SetOnPhased(std::move(on_phased)); }
  void SetOnLane(GangBook::OnLane on_lane) { gangs_->SetOnLane(std::move(on_lane)); }
  uint32_t executors() const { return executors_; }

  // Takes the next blocks of any run. The chips take turns, starting with `*next_chip`.
  bool TakeAny(uint32_t max, uint32_t* next_chip, BlockTicket* ticket, std::vector<uint32_t>* more);
  // Like TakeAny, for those chips that are open.
  bool TakeOpen(const ChipGate& gate, uint32_t max, uint32_t* next_chip, BlockTicket* ticket,
                std::vector<uint32_t>* more);
  // Like TakeAny, for one chip and classes not below `lowest`.
  bool TakeFrom(uint32_t chip, Priority lowest, uint32_t max, BlockTicket* ticket,
                std::vector<uint32_t>* more);
  // Like TakeAny, for one run. If it was stopped, takes everything that waits, including gangs.
  bool TakeOf(Run& run, uint32_t max, BlockTicket* ticket, std::vector<uint32_t>* more);

  // Releases a ticket's core. The caller must look for work or wake others.
  void ReleaseCore(const BlockTicket& ticket) {
    queue(ticket.chip).ReleaseCore(ticket.kind, ticket.core);
    SeeToGangs(ticket.chip);
    if (queue(ticket.chip).reserving()) WatchPatience();
  }

  // Removes one count that keeps the run from ending. The thread that removes the last one ends the
  // run when it drains `completions`. If another thread removes it, the run may be gone after this.
  static void Drop(Run& run, Completions& completions) {
    if (run.life().Drop()) completions.Add(CompletionStep::kJournal, run.end());
  }

  // Whether tasks of other runs, of the same or a higher class, wait on any chip.
  bool OthersWait(const Run& run) const;

  // Tasks in all queues, without gangs that wait for cores.
  uint64_t ready() const;
  // Tasks and gangs that wait on a chip.
  uint64_t waiting(uint32_t chip) const { return queue(chip).ready() + waiting_gangs(chip); }
  uint64_t waiting_gangs(uint32_t chip) const { return gangs_->waiting(chip); }

  void AddEnded(uint32_t chip, uint64_t tasks) {
    chips_[chip]->ended.fetch_add(tasks, std::memory_order_relaxed);
  }
  uint64_t ended(uint32_t chip) const {
    return chips_[chip]->ended.load(std::memory_order_relaxed);
  }

 private:
  struct ChipState {
    ChipState(const Chip& chip, const Clock& clock, PlacementTrace* trace)
        : queue(chip.index(), chip.spec().clusters, clock, trace) {}
    ReadyQueue queue;
    std::atomic<uint64_t> ended{0};
  };

  // Adds the gangs among the tasks to the book and the others to `rest`. Returns how many threads
  // to wake.
  uint64_t PushGangs(Run& run, absl::Span<const uint32_t> tasks, std::vector<uint32_t>* rest);
  // Handles news of this chip for gangs and for tasks that wait for cores.
  void SeeToGangs(uint32_t chip) {
    if (const uint32_t news = queue(chip).TakeNews()) SeeToGangs(chip, news);
  }
  void SeeToGangs(uint32_t chip, uint32_t news);
  // Handles news of all chips: a change of a gang on one chip may be news on its other chips.
  void SeeToAll();
  void Heed(uint32_t chip, uint32_t news);
  // Arms the timer that checks the patience of reservations.
  void WatchPatience();
  // Returns when to check again; 0: only after the next WatchPatience.
  int64_t CheckPatience();

  // A fair part of the waiting tasks, at most `max`.
  uint32_t Share(uint32_t chip, uint32_t max) const;

  const Clock& clock_;
  const uint32_t executors_;
  PlacementTrace* const trace_;
  std::vector<std::unique_ptr<ChipState>> chips_;
  std::unique_ptr<GangBook> gangs_;
  Parking parking_;
  WaitBoard board_;
  // Last, so that it is destroyed before the members that it uses.
  Alarm patience_;
};

}  // namespace pto::engine
