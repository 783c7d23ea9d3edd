#include "runtime/engine/exec/train_loop.h"

#include <algorithm>
#include <string>
#include <utility>

#include "runtime/base/error.h"
#include "runtime/base/ticks.h"
#include "runtime/engine/exec/stop_note.h"
#include "runtime/engine/run/task_data.h"
#include "runtime/engine/run/train_rule.h"

namespace pto::engine {
namespace {

constexpr uint32_t kNoTask = 0xffffffff;

// So many tensors and scalars the tasks of a train have together, about: its message stays small.
constexpr size_t kMaxArguments = 512;

// What is known of a kernel changes slowly. Less time counts more, as some of it may have been
// spent without a processor.
uint32_t Mean(uint64_t known, uint64_t measured) {
  const uint64_t mean = known == 0         ? measured
                        : measured < known ? (known + measured) / 2
                                           : (7 * known + measured) / 8;
  return static_cast<uint32_t>(std::clamp<uint64_t>(mean, 1, UINT32_MAX));
}

}  // namespace

void TrainLoop::Begin(CoreStay& stay) {
  stay.released.local.push_back(stay.ticket.task);
  GoOn(stay);
}

uint32_t TrainLoop::FindNext(const CoreStay& stay, uint32_t task) {
  Run& run = *stay.ticket.run;
  const GraphImage& image = run.image();
  for (const uint32_t successor : image.successors(task)) {
    // Nobody else can make it ready: the dependency that it lacks is this task.
    if (run.tasks().met(successor).lacks_one() && stay.IsForThisLane(successor)) {
      return successor;
    }
  }
  return kNoTask;
}

void TrainLoop::Form(CoreStay& stay, const LanePort& lane) {
  const Run& run = *stay.ticket.run;
  std::vector<uint32_t>& local = stay.released.local;
  const size_t most = lane.max_steps();
  const uint64_t most_ticks = TrainRule::MostTicks();
  uint64_t ticks = 0;
  size_t arguments = 0;
  size_t ready = std::min(local.size(), most);
  // For what may follow the ready tasks, an equal part for each of them.
  size_t room = most - ready;
  tasks_.clear();
  // Adds the task unless the train is full. One whose time is not known is alone.
  const auto add = [&](uint32_t task, bool ahead) {
    const uint64_t its_ticks = TrainRule::TicksOf(run, task);
    if (!tasks_.empty() && (its_ticks == 0 || ticks + its_ticks > most_ticks ||
                            arguments > kMaxArguments || tasks_.size() >= most)) {
      return false;
    }
    const pto_kernel_info& info = run.image().kernel(task);
    arguments += info.argument_count + info.scalar_count;
    ticks += its_ticks == 0 ? most_ticks : its_ticks;
    tasks_.push_back({task, ahead});
    return true;
  };
  while (!local.empty()) {
    uint32_t task = local.back();
    if (!add(task, false)) return;
    local.pop_back();
    for (size_t part = ready == 0 ? 0 : room / ready; part > 0; --part, --room) {
      task = FindNext(stay, task);
      if (task == kNoTask || !add(task, true)) break;
    }
    if (ready > 0) --ready;
  }
}

void TrainLoop::GoOn(CoreStay& stay) {
  Run& run = *stay.ticket.run;
  std::vector<uint32_t>& local = stay.released.local;
  while (!local.empty() && !run.stopping()) {
    const GraphImage& image = run.image();
    LanePort& lane = *image.lane(image.tasks()[local.back()].kernel);
    stay.lane = &lane;
    Form(stay, lane);
    // Other cores take the rest.
    if (!local.empty()) flow_.GiveAway(stay, local.size());
    // Others may see what the train ends.
    stay.Flush();
    stay.ticket.task = tasks_[0].task;
    stay.queue->own_view(stay.ticket.core).task.store(stay.ticket.task, std::memory_order_relaxed);
    if (tasks_.size() == 1) {
      run.tasks().counter(stay.ticket.task).store(1, std::memory_order_relaxed);
      stay.ticket.block = 0;
      stay.ticket.block_end = 1;
      slow_.ExecuteSlow(stay);
      return;
    }
    slow_.ShowPosted(stay.ticket, true);
    if (PlacementTrace* const trace = scheduler_.trace(); trace != nullptr) {
      BlockTicket placed = stay.ticket;
      for (const TrainTask& task : tasks_) {
        placed.task = task.task;
        trace->OnStart(placed);
      }
    }
    // Before, because the lane may be gone when PostTrain returns.
    slow_.NoteLane(lane.weak_from_this());
    const LanePort::Outgoing::Refusal refusal = lane.PostTrain(stay.ticket, tasks_);
    if (refusal == LanePort::Outgoing::Refusal::kNone) return;
    slow_.ShowPosted(stay.ticket, false);
    if (refusal == LanePort::Outgoing::Refusal::kStopped) break;
    run.outcome().AddError(
        TaskData::BlockError(reason::kHostLost, stay.ticket, "could not start", lane.why_lost()));
    Settle(stay, tasks_, 0, /*failed=*/true, Ticks());
  }
  local.clear();
  stay.End();
}

void TrainLoop::Release(CoreStay& stay, absl::Span<const TrainTask> tasks, size_t at,
                        size_t ended) {
  Run& run = *stay.ticket.run;
  const uint32_t task = tasks[at].task;
  const bool next_is_ahead = at + 1 < ended && tasks[at + 1].ahead;
  for (const uint32_t successor : run.image().successors(task)) {
    // It was begun already, and perhaps its counter counts its calls now.
    if (next_is_ahead && tasks[at + 1].task == successor) continue;
    const MetDependencies::State state = run.tasks().met(successor).Add(false);
    if (state != MetDependencies::State::kWaits) flow_.SortOut(stay, successor, state);
  }
  if (run.links().waiters != nullptr) stay.released.linked.emplace_back(task, false);
}

void TrainLoop::Settle(CoreStay& stay, absl::Span<const TrainTask> tasks, size_t done, bool failed,
                       uint64_t began_ticks) {
  const size_t ended = done + (failed ? 1 : 0);
  std::vector<uint32_t>& local = stay.released.local;
  const auto first = static_cast<ptrdiff_t>(local.size());
  for (size_t i = 0; i < done; ++i) {
    ++stay.ended;
    ++stay.done;
    if (stay.timed) stay.recorder.AddToRow(tasks[i].task);
    Release(stay, tasks, i, ended);
    if (stay.recorder.row_full()) {
      stay.recorder.MarkRow(began_ticks, stay.last_ticks);
      stay.Flush();
    }
  }
  if (stay.timed && done > 0) stay.recorder.MarkRow(began_ticks, stay.last_ticks);
  if (!stay.released.skipped.empty()) flow_.SkipPoisoned(stay);
  if (failed) {
    stay.measured = false;
    flow_.CountEnd(stay, tasks[done].task, true, 0);
  }
  // The first one that became ready runs first.
  std::reverse(local.begin() + first, local.end());
  // Before them come those that were ready. Those that wait for a task in front of them are
  // released with that.
  for (size_t i = tasks.size(); i > ended; --i) {
    if (!tasks[i - 1].ahead) local.push_back(tasks[i - 1].task);
  }
  flow_.DispatchReleased(stay);
}

void TrainLoop::Learn(const Run& run, absl::Span<const TrainTask> tasks, uint64_t took_ticks) {
  if (took_ticks == 0) return;
  const GraphImage& image = run.image();
  uint64_t expected = 0;
  for (const TrainTask& task : tasks) expected += TrainRule::TicksOf(run, task.task);
  if (expected == 0) return;
  // Nobody knows how long each of them took: all kernels have taken longer, or shorter, by the same
  // factor.
  const double factor = static_cast<double>(took_ticks) / static_cast<double>(expected);
  const Kernel* last = nullptr;
  int changes = 4;
  for (const TrainTask& task : tasks) {
    const Kernel* const kernel = image.shared_kernels()[image.tasks()[task.task].kernel].get();
    if (kernel == last) continue;
    // Kernels that take turns need not all be learnt at once.
    if (changes-- == 0) break;
    last = kernel;
    const uint32_t known = kernel->lane_ticks();
    kernel->SetLaneTicks(Mean(known, static_cast<uint64_t>(known * std::min(factor, 1e3))));
  }
}

void TrainLoop::LearnAlone(const Kernel& kernel, uint64_t took_ticks) {
  if (took_ticks != 0) kernel.SetLaneTicks(Mean(kernel.lane_ticks(), took_ticks));
}

void TrainLoop::End(CoreStay& stay, PostSlot& slot) {
  ended_.swap(slot.tasks);
  slot.tasks.clear();
  const BlockTicket posted = slot.ticket;
  const size_t done = slot.steps;
  const bool failed = slot.end != PostSlot::End::kDone;
  Run& run = *posted.run;
  LanePort& lane = *slot.port;
  const int64_t start_ns = slot.start_ns;
  const uint64_t start_ticks = slot.start_ticks;
  const uint64_t took_ticks = slot.took_ticks;
  absl::Status error;
  if (done < ended_.size()) {
    slot.ticket.task = ended_[done].task;
    if (failed) error = SlowLoop::PostError(slot);
    if (run.stopping()) {
      const std::string said =
          slot.end == PostSlot::End::kLost ? lane.why_lost() : std::string(slot.status.message());
      StopNote::Leave(slot.ticket, nullptr, start_ticks, said, error);
    }
  }
  slot.status = absl::OkStatus();
  slow_.ShowPosted(posted, false);
  lane.Recycle(slot);

  stay.Begin(posted);
  if (run.stopping()) {
    stay.End();
    return;
  }
  stay.lane = &lane;
  if (!failed) Learn(run, absl::MakeConstSpan(ended_).first(done), took_ticks);
  // The train began when it was posted, which is what the records are measured from.
  stay.recorder.Begin(start_ns, start_ticks);
  const uint64_t began =
      std::max(start_ticks, stay.last_ticks - std::min(took_ticks, stay.last_ticks));
  if (failed) run.outcome().AddError(std::move(error));
  Settle(stay, ended_, done, failed, began);
  if (!stay.released.local.empty()) {
    services_.lane_news().PassOn();
    if (stay.GangWaits() || services_.has_errands() || scheduler_.OthersWait(run)) {
      flow_.GiveAway(stay, stay.released.local.size());
    }
  }
  GoOn(stay);
}

void TrainLoop::EndPart(CoreStay& stay, const TrainPart& part) {
  Run& run = *part.ticket.run;
  // While the post is there, it has the core.
  part.port->table().Visit(part.id, [&](const PostSlot& slot) {
    const ReadyQueue& queue = scheduler_.queue(slot.ticket.chip);
    queue.own_view(slot.ticket.core).task.store(slot.ticket.task, std::memory_order_relaxed);
  });
  stay.Begin(CoreStay::Nowhere(run, part.tasks[part.current].task));
  if (!run.stopping()) {
    // They are recorded on the core where they ran, which the current one still has.
    stay.ticket.core = part.ticket.core;
    // The current one counts as one that is not to be released: it runs.
    const size_t done = part.current;
    for (size_t i = 0; i < done; ++i) {
      ++stay.ended;
      ++stay.done;
      if (stay.timed) stay.recorder.AddToRow(part.tasks[i].task);
      Release(stay, part.tasks, i, done + 1);
      if (stay.recorder.row_full()) stay.Flush();
    }
    if (!stay.released.skipped.empty()) flow_.SkipPoisoned(stay);
    for (size_t i = done + 1; i < part.tasks.size(); ++i) {
      if (!part.tasks[i].ahead) stay.released.elsewhere.push_back(part.tasks[i].task);
    }
    flow_.DispatchReleased(stay);
    stay.Flush();
  }
  stay.Drop(run);
}

}  // namespace pto::engine
