#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "runtime/engine/exec/core_stay.h"
#include "runtime/engine/exec/fiber_pool.h"
#include "runtime/engine/exec/joint_loop.h"
#include "runtime/engine/exec/joint_starter.h"
#include "runtime/engine/exec/joint_task.h"
#include "runtime/engine/exec/plain_loop.h"
#include "runtime/engine/exec/services.h"
#include "runtime/engine/exec/slow_loop.h"
#include "runtime/engine/exec/task_flow.h"
#include "runtime/engine/queue/scheduler.h"
#include "runtime/engine/run/completions.h"

namespace pto::engine {

// Blocks on fibers that can go on, but whose threads are held by kernels.
class Strays {
 public:
  bool any() const { return any_.load(std::memory_order_relaxed); }
  // Takes one over to the pool of the calling thread; nullptr: there is none.
  virtual FiberBlock* TakeStray(FiberPool& to) = 0;

 protected:
  ~Strays() = default;
  std::atomic<bool> any_{false};
};

// Finds work for one thread, and passes it to one of its loops:
//
// - PlainLoop runs plain tasks. A ticket from the queues comes with a core, and the thread stays on
//   that core: tasks that become ready for the same kind of core of the same chip run next, without
//   a lock and with warm caches.
// - SlowLoop runs blocks that wait or block, tasks with a deadline, and control tasks, and posts
//   blocks to lanes.
// - JointLoop runs tasks that work in phases.
//
// They pass a CoreStay to each other. TaskFlow ends their tasks. Not thread-safe.
class Worker {
 public:
  // Runs that end here go to `completions`, which Run* drain and the others leave to the caller;
  // only a worker for BeginWith has none of its own. Without a fiber pool it is not an executor and
  // begins no fibers. Executors have a number each: see JointLoop. `pulse` shows its signs of life;
  // with a `gate` it takes tasks only of chips that are open. It takes over strays, if there are.
  Worker(Services& services, Completions* completions, FiberPool* fibers = nullptr,
         uint32_t number = 0, Pulse* pulse = nullptr, const ChipGate* gate = nullptr,
         Strays* strays = nullptr)
      : services_(services),
        scheduler_(services.scheduler()),
        fibers_(fibers),
        gate_(gate),
        strays_(strays),
        stay_(scheduler_, completions, pulse),
        starter_(services, fibers != nullptr),
        flow_(services, starter_),
        plain_(services, flow_, fibers),
        slow_(services, flow_, plain_, fibers),
        joints_(services, starter_, flow_, fibers, number) {}
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // Takes at most `max` blocks of any run, and runs them and what follows on their core; or resumes
  // a fiber, does an errand, or ends a post of a lane. Of blocks for lanes it takes at most
  // `max_posts`, one after the other, and posts them together. Returns false when there is no work.
  bool RunAny(uint32_t max, uint32_t max_posts) {
    const bool found = RunNext(max, max_posts);
    Finish();
    return found;
  }
  // The same, with as many blocks at once as suits their length.
  bool RunAny() { return RunAny(std::min(batch_, MaxBatch()), kMaxPosts); }

  // Looks for ends of short posts for some microseconds, if there may be some, or until something
  // else wakes workers: `ticket` was taken before the thread looked for work. Returns whether there
  // are news of lanes.
  bool PollLane(uint64_t ticket);

  // Runs ready tasks of one run until there are none, or `until_ns`. Also waits for its posts, as
  // far as they are short.
  void HelpWith(Run& run, int64_t until_ns);
  // Starts a run and works on it. Its roots are neither counted nor queued yet. The caller holds
  // the run, and drains `completions`.
  void BeginWith(Run& run, int64_t until_ns, Completions& completions);
  // Takes all tasks of a stopped run out of the queues.
  void Clear(Run& run);
  // Makes the roots of a run ready. As BeginTasks.
  void BeginRoots(Run& run, bool taking_one);
  // Makes tasks ready that wait for nothing any more. The caller holds the run, and this worker
  // runs nothing else now. See Scheduler::Push.
  void BeginTasks(Run& run, absl::Span<const uint32_t> tasks, bool taking_one) {
    flow_.BeginTasks(stay_, run, tasks, taking_one);
    if (!stay_.released.linked.empty()) flow_.ReleaseLinked(stay_);
  }
  // The same for one task. Returns the tasks that were passed over, and whether they failed: the
  // caller must tell the tasks of other runs that wait for them.
  std::vector<std::pair<uint32_t, bool>> BeginLinked(Run& run, uint32_t task);

  // ---- one step at a time, for callers that choose it
  bool RunBlockOf(uint32_t chip);
  bool RunFiber(size_t place = 0);
  bool RunErrand(size_t place = 0);
  bool EndPost(size_t place = 0);

  // ---- for errands and threads
  // Posts the blocks of a gang, which have their cores, together.
  void PostGang(Run& run, absl::Span<const BlockTicket> blocks);
  // Runs a task that works in phases, and those that follow from it.
  void RunJoint(JointTask& joint) { joints_.RunJoint(stay_, joint); }
  // Makes calls of a task that another thread has begun.
  void HelpJoint(JointTask& joint, JointHelp& help) { joints_.HelpJoint(stay_, joint, help); }
  // Runs a task that needs no core.
  void BeginControl(Run& run, uint32_t task) { slow_.BeginControl(stay_, run, task); }
  // Ends a task that has no core, after its last condition.
  void EndDetached(Run& run, uint32_t task) { slow_.EndDetached(stay_, run, task); }
  // Runs a block on this thread, which may block.
  void RunOnThread(const BlockTicket& ticket) { slow_.RunOnThread(stay_, ticket); }

 private:
  // So many tasks are taken at once while no other run waits for its turn.
  static constexpr uint32_t kMaxBatch = 512;
  // So many blocks are posted to lanes at once. The first of them waits for the others: some 20 us.
  static constexpr uint32_t kMaxPosts = 64;

  // No more tasks than run before others get their turn.
  uint32_t MaxBatch() const { return stay_.crowded ? PlainLoop::kTurn : kMaxBatch; }
  bool RunNext(uint32_t max, uint32_t max_posts);
  // A task of any run, and the local ones.
  bool TakeTicket(uint32_t max, BlockTicket* ticket) {
    return gate_ == nullptr
               ? scheduler_.TakeAny(max, &next_chip_, ticket, &stay_.released.local)
               : scheduler_.TakeOpen(*gate_, max, &next_chip_, ticket, &stay_.released.local);
  }
  bool TakeFiber(size_t place);
  bool TakeErrand(size_t place);
  bool TakeLaneNews(size_t place);
  // Wakes a sleeping worker for queued tasks.
  void PassOnTasks() {
    if (scheduler_.parking().has_sleepers() && scheduler_.ready() > 0) {
      scheduler_.parking().Wake(1);
    }
  }
  // The same, and for answers of lanes, before this worker does something else, which may take
  // long.
  void PassOn() {
    if (scheduler_.parking().has_sleepers() &&
        (scheduler_.ready() > 0 || services_.lane_news().size() > 0)) {
      scheduler_.parking().Wake(1);
    }
  }
  // The same when only a core that was left here can have made tasks ready.
  void PassOnLeft() {
    if (std::exchange(stay_.left_core, false) || services_.lane_news().size() > 0) PassOn();
  }
  // Runs the ticket's blocks, the local tasks, and what follows on the same core. Blocks for lanes
  // are only collected: PostCollected, or the next Execute of another block, posts them.
  void Execute(const BlockTicket& ticket);
  void PostCollected() {
    if (slow_.collected() > 0) slow_.Post(stay_);
  }
  // Runs the joint tasks that are kept here, and those that follow them. Then nothing of a run is
  // on the stack, so the runs that have ended are completed.
  void Finish() {
    stay_.Move();
    while (stay_.next_joint != nullptr) {
      stay_.completions->Drain();
      if (services_.lane_news().size() > 0) PassOn();
      joints_.RunJoint(stay_, *std::exchange(stay_.next_joint, nullptr));
      stay_.Move();
    }
    stay_.completions->Drain();
  }

  Services& services_;
  Scheduler& scheduler_;
  FiberPool* const fibers_;
  const ChipGate* const gate_;
  Strays* const strays_;
  uint32_t turn_ = 0;  // which kind of work to look for first
  uint32_t next_chip_ = 0;
  uint32_t batch_ = 1;
  const Run* helped_ = nullptr;  // by HelpWith
  CoreStay stay_;                // what it runs now
  JointStarter starter_;
  TaskFlow flow_;
  PlainLoop plain_;
  SlowLoop slow_;
  JointLoop joints_;
};

}  // namespace pto::engine
