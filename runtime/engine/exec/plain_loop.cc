#include "runtime/engine/exec/plain_loop.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "runtime/base/ticks.h"
#include "runtime/engine/exec/plain_calls.h"

namespace pto::engine {
namespace {

constexpr uint32_t kNoTask = 0xffffffff;
constexpr uint32_t kNoKernel = 0xffffffff;

uint32_t PopLocal(CoreStay& stay) {
  const uint32_t task = stay.released.local.back();
  stay.released.local.pop_back();
  return task;
}

}  // namespace

// What the loop needs of the graph for each task. It has the flow too, so that ReleasePlain needs
// no register for the loop itself.
struct PlainLoop::Graph {
  Graph(Run& run, TaskFlow& flow)
      : flow(flow),
        tasks(run.image().tasks().data()),
        successors(run.image().all_successors().data()),
        counters(run.tasks().counters()),
        all_for_one_core(run.image().alike()),
        linked(run.links().waiters != nullptr) {}

  TaskFlow& flow;
  const ImageTask* const tasks;
  const uint32_t* const successors;
  std::atomic<uint32_t>* const counters;
  const bool all_for_one_core;
  const bool linked;
};

bool PlainLoop::RunBlocks(CoreStay& stay) {
  Run& run = *stay.ticket.run;
  const uint32_t task = stay.ticket.task;
  const uint32_t blocks = stay.ticket.block_end - stay.ticket.block;
  stay.BeginTask(task);
  bool failed = false;
  bool stopped = false;
  PlainCalls calls(services_, stay.ticket);
  for (; stay.ticket.block < stay.ticket.block_end && !stopped; ++stay.ticket.block) {
    stopped = run.stopping();
    if (stopped) break;
    stay.Beat();
    if (scheduler_.trace() != nullptr) scheduler_.trace()->OnStart(stay.ticket);
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
    stay.LeaveCore();
    stay.ticket.abandoned = blocks;
    stay.Abandon();
    return false;
  }
  run.tasks().StartBlock(task, stay.recorder.base_ns());
  std::atomic<uint32_t>& counter = run.tasks().counter(task);
  if (failed) counter.fetch_or(RunTasks::kFailedBit, std::memory_order_relaxed);
  stay.NoteReturn(run, task);
  const uint32_t before = counter.fetch_sub(blocks, std::memory_order_acq_rel);
  if ((before & ~RunTasks::kFailedBit) != blocks) {
    stay.LeaveCore();
    return false;
  }
  flow_.EndTask(stay, task, (before & RunTasks::kFailedBit) != 0, run.tasks().block_start_ns(task));
  return true;
}

void PlainLoop::RunLocal(CoreStay& stay) {
  if (stay.released.local.empty()) return;
  if (stay.ticket.run->stopping()) {
    stay.released.local.clear();
  } else if (TurnEnds(stay)) {
    flow_.GiveAway(stay, stay.released.local.size());
  } else {
    RunPlain(stay);
  }
}

void PlainLoop::RunPlain(CoreStay& stay) {
  Run& run = *stay.ticket.run;
  const Graph graph(run, flow_);
  PlacementTrace* const trace = scheduler_.trace();
  const Parking& parking = scheduler_.parking();
  stay.ticket.block = 0;
  stay.ticket.task = stay.released.local.back();
  PlainCalls calls(services_, stay.ticket);
  uint32_t short_kernel = kNoKernel;  // the last kernel that is known to be short
  stay.alone = stay.IsAlone();
  CoreView& shown = stay.queue->own_view(stay.ticket.core);
  for (uint32_t task = PopLocal(stay);;) {
    stay.ticket.task = task;
    shown.task.store(task, std::memory_order_relaxed);
    const ImageTask& record = graph.tasks[task];
    if ((stay.count & stay.measure_mask) == 0 || record.kernel != short_kernel) {
      stay.BeginTask(task);
      if (!stay.measured) short_kernel = record.kernel;
    } else {
      stay.measured = false;
    }
    if (trace != nullptr) [[unlikely]] {
      trace->OnStart(stay.ticket);
    }
    const BlockEnd end = calls.CallOnly(record);
    if (run.stopping()) [[unlikely]] {
      // The kernel may have seen its cancel flag and returned early: that is no success.
      if (end == BlockEnd::kDeferred) flow_.EndDeferred(stay, calls.TakeError());
      stay.released.local.clear();
      return;
    }
    uint32_t next = kNoTask;
    if (end == BlockEnd::kDone) [[likely]] {
      ++stay.ended;
      ++stay.done;
      if (stay.measured) {
        stay.NotePlain(task);
      } else if (stay.timed) {
        stay.recorder.AddToRow(task);
      }
      if (stay.recorder.row_full()) [[unlikely]] {
        stay.Flush();
      }
      next = ReleasePlain(stay, graph, task);
    } else if (end == BlockEnd::kDeferred) {
      if (stay.timed) stay.NoteDeferred(task);
      flow_.EndDeferred(stay, calls.TakeError());
      // The next task begins now.
      if (stay.timed) stay.last_ticks = Ticks();
    } else {
      run.outcome().AddError(calls.TakeError());
      flow_.EndTask(stay, task, true, 0);
    }
    if (next == kNoTask) {
      if (stay.released.local.empty()) return;
      next = PopLocal(stay);
    }
    // Look for sleeping workers only after measured tasks: of short tasks these are few.
    if (stay.measured && !stay.released.local.empty() && parking.has_sleepers()) {
      stay.released.local.push_back(next);
      flow_.ShareSurplus(stay);
      next = PopLocal(stay);
    }
    if (TurnEnds(stay)) {
      stay.released.local.push_back(next);
      flow_.GiveAway(stay, stay.released.local.size());
      return;
    }
    if (stay.next_joint != nullptr) [[unlikely]] {
      // This thread has other work, so another one runs the joint task.
      stay.Flush();
      services_.errands().Push(*std::exchange(stay.next_joint, nullptr));
    }
    task = next;
  }
}

inline uint32_t PlainLoop::ReleasePlain(CoreStay& stay, const Graph& graph, uint32_t task) {
  uint32_t next = kNoTask;
  size_t more = 0;  // beside the next one
  bool rare = graph.linked;
  const uint32_t* const end = graph.successors + graph.tasks[task + 1].first_successor;
  for (const uint32_t* at = graph.successors + graph.tasks[task].first_successor; at != end; ++at) {
    const uint32_t successor = *at;
    const ImageTask& record = graph.tasks[successor];
    MetDependencies met(graph.counters[successor], record.dependencies);
    const MetDependencies::State state = stay.alone ? met.AddAlone() : met.Add(false);
    if (state == MetDependencies::State::kWaits) continue;
    __builtin_prefetch(graph.successors + record.first_successor);
    if (state != MetDependencies::State::kReady ||
        (!graph.all_for_one_core && !stay.IsForThisCore(record))) [[unlikely]] {
      rare = true;
      graph.flow.SortOut(stay, successor, state);
    } else if (next == kNoTask) {
      // Run the first in the order of the graph next: it is nearest in memory.
      next = successor;
    } else {
      stay.released.local.push_back(successor);
      ++more;
    }
  }
  if (more > 1) {
    std::vector<uint32_t>& local = stay.released.local;
    std::reverse(local.end() - static_cast<ptrdiff_t>(more), local.end());
  }
  if (rare) [[unlikely]] {
    if (graph.linked) stay.released.linked.emplace_back(task, false);
    graph.flow.SkipPoisoned(stay);
    graph.flow.DispatchReleased(stay);
  }
  return next;
}

bool PlainLoop::CheckTurn(CoreStay& stay) {
  stay.crowded = ShouldYield(stay);
  if (stay.crowded) return true;
  // Other threads may have finished their parts of the run.
  stay.alone = stay.IsAlone();
  return false;
}

bool PlainLoop::ShouldYield(CoreStay& stay) {
  stay.Beat();
  // A gang waits for this very core, so it runs no further task.
  if (stay.GangWaits()) return true;
  stay.count = 0;
  if (!stay.completions->empty()) return true;
  if (stay.until_ns != 0 && scheduler_.clock().NowNanos() >= stay.until_ns) return true;
  if (services_.has_errands() || (fibers_ != nullptr && fibers_->runnable() > 0)) return true;
  return scheduler_.OthersWait(*stay.ticket.run);
}

}  // namespace pto::engine
