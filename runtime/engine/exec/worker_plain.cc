#include <algorithm>
#include <utility>

#include "runtime/base/ticks.h"
#include "runtime/engine/exec/plain_calls.h"
#include "runtime/engine/exec/worker.h"

namespace pto {
namespace {

constexpr uint32_t kNoTask = 0xffffffff;
constexpr uint32_t kNoKernel = 0xffffffff;

uint32_t PopLocal(CoreStay& stay) {
  const uint32_t task = stay.released.local.back();
  stay.released.local.pop_back();
  return task;
}

}  // namespace

// What the loop needs of the graph for each task.
struct Worker::Graph {
  explicit Graph(Run& run)
      : tasks(run.image().tasks().data()),
        successors(run.image().all_successors().data()),
        counters(run.tasks().counters()),
        all_for_one_core(run.image().alike()),
        linked(run.links().waiters != nullptr) {}

  const ImageTask* const tasks;
  const uint32_t* const successors;
  std::atomic<uint32_t>* const counters;
  const bool all_for_one_core;
  const bool linked;
};

bool Worker::RunBlocks() {
  Run& run = *stay_.ticket.run;
  const uint32_t task = stay_.ticket.task;
  const uint32_t blocks = stay_.ticket.block_end - stay_.ticket.block;
  stay_.BeginTask(task);
  bool failed = false;
  bool stopped = false;
  PlainCalls calls(services_, stay_.ticket);
  for (; stay_.ticket.block < stay_.ticket.block_end && !stopped; ++stay_.ticket.block) {
    stopped = run.stopping();
    if (stopped) break;
    if (scheduler_.trace() != nullptr) scheduler_.trace()->OnStart(stay_.ticket);
    const BlockEnd end = calls.Call();
    // The kernel may have seen its cancel flag and returned early: that is no success.
    stopped = run.stopping();
    if (end == BlockEnd::kDone) continue;
    if (stopped) break;
    failed = true;
    run.outcome().AddError(calls.TakeError());
  }
  if (stopped) {
    // Once these blocks are counted, the run may end and be gone.
    stay_.LeaveCore();
    stay_.ticket.abandoned = blocks;
    stay_.Abandon();
    return false;
  }
  run.tasks().StartBlock(task, stay_.recorder.base_ns());
  std::atomic<uint32_t>& counter = run.tasks().counter(task);
  if (failed) counter.fetch_or(RunTasks::kFailedBit, std::memory_order_relaxed);
  stay_.NoteReturn(run, task);
  const uint32_t before = counter.fetch_sub(blocks, std::memory_order_acq_rel);
  if ((before & ~RunTasks::kFailedBit) != blocks) {
    stay_.LeaveCore();
    return false;
  }
  flow_.EndTask(stay_, task, (before & RunTasks::kFailedBit) != 0,
                run.tasks().block_start_ns(task));
  return true;
}

void Worker::RunLocal() {
  if (stay_.released.local.empty()) return;
  if (stay_.ticket.run->stopping()) {
    stay_.released.local.clear();
  } else if (TurnEnds()) {
    flow_.GiveAway(stay_, stay_.released.local.size());
  } else {
    RunPlain();
  }
}

void Worker::RunPlain() {
  Run& run = *stay_.ticket.run;
  const Graph graph(run);
  PlacementTrace* const trace = scheduler_.trace();
  const Parking& parking = scheduler_.parking();
  stay_.ticket.block = 0;
  stay_.ticket.task = stay_.released.local.back();
  PlainCalls calls(services_, stay_.ticket);
  uint32_t short_kernel = kNoKernel;  // one that is known to be
  stay_.alone = stay_.IsAlone();
  CoreView& shown = stay_.queue->own_view(stay_.ticket.core);
  for (uint32_t task = PopLocal(stay_);;) {
    stay_.ticket.task = task;
    shown.task.store(task, std::memory_order_relaxed);
    const ImageTask& record = graph.tasks[task];
    if ((stay_.count & stay_.measure_mask) == 0 || record.kernel != short_kernel) {
      stay_.BeginTask(task);
      if (!stay_.measured) short_kernel = record.kernel;
    } else {
      stay_.measured = false;
    }
    if (trace != nullptr) [[unlikely]] {
      trace->OnStart(stay_.ticket);
    }
    const BlockEnd end = calls.CallOnly(record);
    if (run.stopping()) [[unlikely]] {
      // The kernel may have seen its cancel flag and returned early: that is no success.
      if (end == BlockEnd::kDeferred) flow_.EndDeferred(stay_, calls.TakeError());
      stay_.released.local.clear();
      return;
    }
    uint32_t next = kNoTask;
    if (end == BlockEnd::kDone) [[likely]] {
      ++stay_.ended;
      ++stay_.done;
      if (stay_.measured) {
        stay_.NotePlain(task);
      } else if (stay_.timed) {
        stay_.recorder.AddToRow(task);
      }
      if (stay_.recorder.row_full()) [[unlikely]] {
        stay_.Flush();
      }
      next = ReleasePlain(graph, task);
    } else if (end == BlockEnd::kDeferred) {
      if (stay_.timed) stay_.NoteDeferred(task);
      flow_.EndDeferred(stay_, calls.TakeError());
      // The next task begins now.
      if (stay_.timed) stay_.last_ticks = Ticks();
    } else {
      run.outcome().AddError(calls.TakeError());
      flow_.EndTask(stay_, task, true, 0);
    }
    if (next == kNoTask) {
      if (stay_.released.local.empty()) return;
      next = PopLocal(stay_);
    }
    // Look for sleeping workers only after measured tasks: of short tasks these are few.
    if (stay_.measured && !stay_.released.local.empty() && parking.has_sleepers()) {
      stay_.released.local.push_back(next);
      flow_.ShareSurplus(stay_);
      next = PopLocal(stay_);
    }
    if (TurnEnds()) {
      stay_.released.local.push_back(next);
      flow_.GiveAway(stay_, stay_.released.local.size());
      return;
    }
    if (stay_.next_joint != nullptr) [[unlikely]] {
      // This thread has other work, so another one runs the joint task.
      stay_.Flush();
      services_.errands().Push(*std::exchange(stay_.next_joint, nullptr));
    }
    task = next;
  }
}

inline uint32_t Worker::ReleasePlain(const Graph& graph, uint32_t task) {
  uint32_t next = kNoTask;
  size_t more = 0;  // beside the next one
  bool rare = graph.linked;
  const uint32_t* const end = graph.successors + graph.tasks[task + 1].first_successor;
  for (const uint32_t* at = graph.successors + graph.tasks[task].first_successor; at != end; ++at) {
    const uint32_t successor = *at;
    const ImageTask& record = graph.tasks[successor];
    MetDependencies met(graph.counters[successor], record.dependencies);
    const MetDependencies::State state = stay_.alone ? met.AddAlone() : met.Add(false);
    if (state == MetDependencies::State::kWaits) continue;
    __builtin_prefetch(graph.successors + record.first_successor);
    if (state != MetDependencies::State::kReady ||
        (!graph.all_for_one_core && !stay_.IsForThisCore(record))) [[unlikely]] {
      rare = true;
      flow_.SortOut(stay_, successor, state);
    } else if (next == kNoTask) {
      // Run the first in the order of the graph next: it is nearest in memory.
      next = successor;
    } else {
      stay_.released.local.push_back(successor);
      ++more;
    }
  }
  if (more > 1)
    std::reverse(stay_.released.local.end() - static_cast<ptrdiff_t>(more),
                 stay_.released.local.end());
  if (rare) [[unlikely]] {
    if (graph.linked) stay_.released.linked.emplace_back(task, false);
    flow_.SkipPoisoned(stay_);
    flow_.DispatchReleased(stay_);
  }
  return next;
}

bool Worker::CheckTurn() {
  stay_.crowded = ShouldYield();
  if (stay_.crowded) return true;
  // Other threads may have finished their parts of the run.
  stay_.alone = stay_.IsAlone();
  return false;
}

bool Worker::ShouldYield() {
  // A gang waits for this very core, so it runs no further task.
  if (stay_.GangWaits()) return true;
  stay_.count = 0;
  if (stay_.until_ns != 0 && scheduler_.clock().NowNanos() >= stay_.until_ns) return true;
  if (services_.errands().size() > 0 || (lane_ != nullptr && lane_->runnable() > 0)) return true;
  return scheduler_.OthersWait(*stay_.ticket.run);
}

}  // namespace pto
