#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "runtime/base/spin_lock.h"
#include "runtime/engine/run/completions.h"
#include "runtime/graph/slot_use.h"

namespace pto::daemon {

class RunTurn;

// What a run does with a part of a buffer, as long as its turn has not passed. A link of its
// buffer's list.
struct ActiveAccess {
  RunTurn* turn = nullptr;
  engine::ByteRange bytes;
  ActiveAccess* previous = nullptr;  // nullptr while it is in no list
  ActiveAccess* next = nullptr;
};

// Who reads and who writes one buffer. The session's lock guards it.
class BufferQueue {
 public:
  BufferQueue();
  BufferQueue(const BufferQueue&) = delete;
  BufferQueue& operator=(const BufferQueue&) = delete;

  // Whether no run uses the buffer or waits to.
  bool idle() const { return reads_.next == &reads_ && writes_.next == &writes_; }

 private:
  friend class RunTurn;
  // Each is a ring of which this is no part but the beginning.
  ActiveAccess reads_, writes_;
};

// A part of a buffer that a run reads, or writes and perhaps reads.
struct BufferAccess {
  std::shared_ptr<BufferQueue> queue;
  engine::ByteRange bytes;
  bool writes = false;
  // Also turns of one group wait for each other.
  bool exclusive = false;
};
using RunAccesses = std::vector<BufferAccess>;

// Puts the runs of a session in order, by the rules that hold for the tasks of a graph: a run
// that reads waits for earlier ones that write the same bytes, one that writes for both.
//
// A turn comes when all turns before it that it must not overtake have passed. It passes when it
// has come and its run has ended: also a run that is stopped while it waits keeps its place, so
// that those behind it stay behind those before it. So a turn has to wait only for the last
// writer of a byte and the readers since; a write takes over from all accesses that it covers.
//
// A turn that has come is a completion: the thread that let the turn before it pass calls OnTurn
// when it drains its queue.
class RunTurn : private engine::Completion {
 public:
  RunTurn() = default;
  // Turns of one group do not wait for each other, but for exclusive accesses.
  explicit RunTurn(const void* group) : group_(group) {}
  ~RunTurn() override = default;

  // ---- under the lock that guards the buffers' queues
  // Takes its place. Once, before all else.
  static void Enter(const std::shared_ptr<RunTurn>& turn,
                    std::shared_ptr<const RunAccesses> accesses);
  // The run has ended: turns that enter from now on need not wait for it. Returns false when its
  // turn has not come: then it keeps its place until OnPassedLate.
  bool Leave();

  // ---- from any thread, without that lock
  // Whether turns before it have not passed. After Enter and before Arrive; once it says no, Arrive
  // returns true.
  bool has_to_wait() const { return waits_.load(std::memory_order_acquire) > 1; }
  // The run can begin. Returns whether its turn has come: then the caller begins the run and
  // calls Begun. Else OnTurn is called when it comes.
  bool Arrive();
  void Begun(engine::Completions& completions) { PassWhenBoth(completions); }
  // The run has ended, begun or not. Adds the turns that come by this to `completions`.
  void End(engine::Completions& completions) { PassWhenBoth(completions); }

  // For those who explain, without locks: numbers of runs that it was put behind, as far as there
  // is room; 0 is none. Some may have passed.
  static constexpr size_t kShownBefore = 4;
  uint64_t shown_before(size_t i) const { return shown_before_[i].load(std::memory_order_relaxed); }
  // The same of turns of its own group, of which the last one is shown: its part, which was set.
  static constexpr uint32_t kNoPart = 0xffffffff;
  uint32_t shown_part_before() const { return shown_part_before_.load(std::memory_order_relaxed); }

 protected:
  // The number by which others are told of this one. Before it enters.
  void set_shown_number(uint64_t number) { shown_number_ = number; }
  // Its part of the group. Likewise.
  void set_shown_part(uint32_t part) { shown_part_ = part; }
  // The turn has come: begins the run unless it has ended. Must not wait for it.
  virtual void OnTurn(engine::Completions& completions) = 0;
  // Leave was called before the turn came, and the turn has passed now: call Leave once more.
  virtual void OnPassedLate() = 0;

 private:
  static void WaitForOverlapping(const std::shared_ptr<RunTurn>& turn, ActiveAccess& ring,
                                 const BufferAccess& access);
  static void WaitFor(const std::shared_ptr<RunTurn>& turn, RunTurn& before);
  // The turn has come.
  void Complete(engine::CompletionStep step, engine::Completions& completions) override;
  // One of the two things has happened that a turn needs to pass. When both have, adds the turns
  // that come by this.
  void PassWhenBoth(engine::Completions& completions);

  bool WaitsFor(const RunTurn& other) const {
    return this != &other && (group_ == nullptr || group_ != other.group_);
  }

  const void* const group_ = nullptr;
  uint64_t shown_number_ = 0;
  uint32_t shown_part_ = kNoPart;
  std::atomic<uint32_t> shown_part_before_{kNoPart};
  std::array<std::atomic<uint64_t>, kShownBefore> shown_before_{};

  // ---- guarded by the queues' lock
  std::shared_ptr<const RunAccesses> accesses_;
  absl::InlinedVector<ActiveAccess, 2> active_;
  const RunTurn* last_behind_ = nullptr;
  uint32_t before_count_ = 0;
  bool left_early_ = false;  // written before the run's end is counted below

  // Turns that have not passed, and one for Arrive.
  std::atomic<uint32_t> waits_{1};
  std::atomic<bool> came_{false};
  // The turn's coming, with what its OnTurn does, and the run's end.
  std::atomic<uint32_t> left_until_passed_{2};

  SpinLock lock_;
  bool passed_ = false;                           // guarded by lock_
  std::vector<std::shared_ptr<RunTurn>> behind_;  // guarded by lock_
  // While it is in a completion queue; only for the thread whose queue that is.
  std::shared_ptr<RunTurn> self_;
};

}  // namespace pto::daemon
