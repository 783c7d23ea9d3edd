// What a Worker does with tasks whose kernels work in phases.

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/base/pause.h"
#include "runtime/base/ticks.h"
#include "runtime/engine/exec/joint_task.h"
#include "runtime/engine/exec/worker.h"

namespace pto {
namespace {

// So long a thread that has nothing to claim waits for the next phase before it sleeps: less than
// its wake-up takes.
constexpr double kPatienceMicroseconds = 20;

uint64_t PatienceTicks() {
  static const auto ticks = static_cast<uint64_t>(kPatienceMicroseconds * TicksPerMicrosecond());
  return ticks;
}

// How many that are over are kept for the next ones.
constexpr size_t kSpareJoints = 4;

// After so many tasks in a row others get their turn.
constexpr uint32_t kJointsInARow = 64;

}  // namespace

Worker::~Worker() {
  for (const JointTask* const joint : spare_joints_) delete joint;
}

JointTask* Worker::NewJoint(Run& run, uint32_t task) {
  if (spare_joints_.empty()) return new JointTask(run, task, {});
  JointTask* const joint = spare_joints_.back();
  spare_joints_.pop_back();
  joint->Renew(run, task);
  return joint;
}

void Worker::LeaveJoint(JointTask& joint) {
  if (!joint.Leave()) return;
  if (spare_joints_.size() < kSpareJoints) {
    spare_joints_.push_back(&joint);
  } else {
    delete &joint;
  }
}

bool Worker::BeginJoint(uint32_t task) {
  // More at a time than there are threads would only keep cores from others.
  const size_t leaders = begun_joints_.size();
  JointTask* leader = nullptr;
  for (size_t i = 0; i < leaders && leader == nullptr; ++i) {
    JointTask* const begun = begun_joints_[next_leader_++ % leaders];
    if (begun->Fits(task)) leader = begun;
  }
  if (leader == nullptr || leaders < scheduler_.executors()) {
    if (JointTask* const joint = TakeJoint(task)) {
      begun_joints_.push_back(joint);
      return true;
    }
  }
  if (leader == nullptr) return false;
  leader->followers.push_back(task);
  return true;
}

JointTask* Worker::TakeJoint(uint32_t task) {
  Run& run = *stay_.ticket.run;
  JointTask* const joint = NewJoint(run, task);
  if (!scheduler_.TakeGang(run, task, joint->mutable_places())) {
    LeaveJoint(*joint);
    return nullptr;
  }
  ShowJoint(*joint, scheduler_.queue(joint->places()[0].chip));
  if (scheduler_.trace() != nullptr) {
    for (const BlockPlace& place : joint->places()) {
      scheduler_.trace()->OnPlaced(joint->TicketOf(place));
    }
  }
  // From here on others may have part of the run.
  stay_.alone = false;
  run.life().Add();
  return joint;
}

void Worker::PublishJoints() {
  for (JointTask* const joint : begun_joints_) {
    // The last one is next, and the first in the order of the graph is to be that.
    std::reverse(joint->followers.begin(), joint->followers.end());
    // An executor without other work keeps one for itself, and wakes nobody for it.
    if (lane_ != nullptr && stay_.next_joint == nullptr && stay_.released.local.empty()) {
      stay_.next_joint = joint;
    } else {
      stay_.Flush();
      services_.errands().Push(*joint);
    }
  }
  begun_joints_.clear();
}

void Worker::RunJoint(JointTask& first) {
  Run& run = first.run();
  // Others may end a task, and with it the run, while this one still needs it.
  run.life().Add();
  ++stay_.holds;
  // All that follow from each other here are one stretch: a clock is read only at its ends.
  stay_.Begin(first.TicketOf(first.places()[0]));
  stay_.alone = stay_.IsAlone();
  uint32_t done = 0;
  bool shared = false;
  for (JointTask* joint = &first; joint != nullptr; joint = NextJoint(run, ++done)) {
    const bool kept = DoJoint(*joint);
    shared = joint->worth_sharing();
    if (!kept) LeaveJoint(*joint);
  }
  stay_.Flush();
  stay_.alone = false;
  --stay_.holds;
  scheduler_.Drop(run);
  if (shared) AwaitMore();
}

JointTask* Worker::NextJoint(const Run& run, uint32_t done) {
  if (stay_.next_joint == nullptr || &stay_.next_joint->run() != &run) return nullptr;
  JointTask* const joint = std::exchange(stay_.next_joint, nullptr);
  if (done % kJointsInARow != 0) return joint;
  if (services_.errands().size() == 0 && lane_->runnable() == 0 && !scheduler_.OthersWait(run)) {
    stay_.alone = stay_.IsAlone();
    return joint;
  }
  stay_.Flush();
  services_.errands().Push(*joint);
  return nullptr;
}

bool Worker::DoJoint(JointTask& joint) {
  Run& run = joint.run();
  const uint32_t task = joint.task();
  if (!joint.continued()) {
    stay_.ticket = joint.TicketOf(joint.places()[0]);
    if (stay_.ticket.chip != stay_.chip) {
      stay_.Flush();
      stay_.chip = stay_.ticket.chip;
      stay_.queue = &scheduler_.queue(stay_.chip);
    }
  }
  ShowJoint(joint, *stay_.queue);
  if (run.spec().record_level != RecordLevel::kNone) stay_.last_ticks = Ticks();
  if (run.stopping()) {
    EndJoint(joint, true, 0);
    return false;
  }
  const bool timed =
      (run.image().tasks()[task].traits & kTaskTimed) != 0 || run.spec().task_timeout_ns > 0;
  absl::Status prepared = joint.Prepare(timed ? &services_.BeginLong(run, task) : nullptr);
  if (!prepared.ok()) {
    run.outcome().AddError(std::move(prepared));
    EndJoint(joint, true, 0);
    return false;
  }
  if (scheduler_.trace() != nullptr) {
    for (const BlockPlace& place : joint.places()) {
      scheduler_.trace()->OnStart(joint.TicketOf(place));
    }
  }
  if (joint.worth_sharing()) {
    ShareJoint(joint);
    return false;
  }
  joint.MakeAll(services_);
  return EndOwnJoint(joint);
}

void Worker::ShowJoint(const JointTask& joint, const ReadyQueue& queue) {
  CoreView& view = queue.own_view(joint.places()[0].core);
  view.task.store(joint.task(), std::memory_order_relaxed);
  view.followers.store(static_cast<uint32_t>(joint.followers.size()), std::memory_order_relaxed);
  if (!joint.followers.empty()) {
    view.next_follower.store(joint.followers.back(), std::memory_order_relaxed);
  }
}

void Worker::ShareJoint(JointTask& joint) {
  GiveFollowers(joint);
  ShowJoint(joint, *stay_.queue);
  // What was done before is to be known before others end this one.
  stay_.Flush();
  stay_.Begin(joint.TicketOf(joint.places()[0]));
  joint.start_ns = stay_.recorder.base_ns();
  joint.SetHelp(std::min(joint.calls(), std::max(scheduler_.executors(), 1u)) - 1);
  AskForHelp(joint);
  Drive(joint);
}

void Worker::AskForHelp(JointTask& joint) {
  for (const std::unique_ptr<JointHelp>& help : joint.helps()) {
    if (!help->Ask()) continue;
    joint.run().life().Add();
    services_.errands().Push(*help);
  }
}

void Worker::TakeBackHelp(JointTask& joint) {
  for (const std::unique_ptr<JointHelp>& help : joint.helps()) {
    if (!services_.errands().TakeBack(*help)) continue;
    Run& run = joint.run();
    help->Forget();
    LeaveJoint(joint);
    scheduler_.Drop(run);
  }
}

void Worker::HelpJoint(JointTask& joint, JointHelp& help) {
  Run& run = joint.run();
  Drive(joint);
  help.Forget();
  LeaveJoint(joint);
  scheduler_.Drop(run);
  AwaitMore();
}

void Worker::AwaitMore() {
  if (lane_ == nullptr || stay_.next_joint != nullptr) return;
  const uint64_t until = Ticks() + PatienceTicks();
  while (services_.errands().size() == 0 && lane_->runnable() == 0 && scheduler_.ready() == 0 &&
         Ticks() < until) {
    Pause();
  }
}

void Worker::Drive(JointTask& joint) {
  uint32_t call = 0;
  while (true) {
    if (joint.Claim(number_ % 2 != 0, &call)) {
      joint.Make(services_, call);
      if (!joint.Made()) continue;
      if (!joint.OpenNext()) {
        stay_.Begin(joint.TicketOf(joint.places()[0]));
        EndJoint(joint, joint.failed(), joint.start_ns);
        stay_.Flush();
        break;
      }
      AskForHelp(joint);
      continue;
    }
    if (!joint.has_more_phases()) break;
    const uint64_t until = Ticks() + PatienceTicks();
    while (!joint.has_unclaimed() && joint.has_more_phases()) {
      // The next phase asks anew.
      if (Ticks() > until) return;
      Pause();
    }
  }
  TakeBackHelp(joint);
}

void Worker::ReleaseCores(const JointTask& joint) {
  stay_.left_core = true;
  BlockTicket held = stay_.ticket;
  held.kind = static_cast<pto_core>(joint.run().image().tasks()[joint.task()].core);
  for (const BlockPlace& place : joint.places()) {
    held.chip = place.chip;
    held.core = place.core;
    scheduler_.ReleaseCore(held);
  }
}

void Worker::EndJoint(JointTask& joint, bool failed, int64_t start_ns) {
  Run& run = joint.run();
  const uint32_t task = joint.task();
  // Before what follows, which may need them.
  ReleaseCores(joint);
  GiveFollowers(joint);
  stay_.ticket.task = task;
  stay_.ticket.kind =
      static_cast<pto_core>(0);  // nothing that follows is for a core that it still has
  std::atomic<uint32_t>& counter = run.tasks().counter(task);
  if (failed) counter.fetch_or(RunTasks::kFailedBit, std::memory_order_relaxed);
  stay_.NoteReturn(run, task);
  const uint32_t before = counter.fetch_sub(joint.blocks(), std::memory_order_acq_rel);
  // It may have conditions, which then end it.
  stay_.alone = false;
  if ((before & ~RunTasks::kFailedBit) != joint.blocks()) return;
  if (!run.stopping()) EndSlow(task, (before & RunTasks::kFailedBit) != 0, start_ns);
  // Whoever comes here keeps the run itself.
  scheduler_.Drop(run);
}

bool Worker::EndOwnJoint(JointTask& joint) {
  Run& run = joint.run();
  const uint32_t task = joint.task();
  // Nothing is left but to tell its successors, unless something is special about it.
  if (joint.failed() || run.stopping() || run.long_tasks().used() ||
      run.tasks().counter(task).load(std::memory_order_acquire) != joint.blocks()) {
    EndJoint(joint, joint.failed(), 0);
    return false;
  }
  stay_.ticket.task = task;
  stay_.ticket.kind = static_cast<pto_core>(0);
  stay_.measured = stay_.timed;
  stay_.begin_ticks = stay_.last_ticks;
  CountEnd(task, false, 0);
  const bool kept = HandOn(joint);
  if (!kept) {
    ReleaseCores(joint);
    GiveFollowers(joint);
  }
  SeeToReleased();
  // What kept the run from ending is the next one's, if there is one.
  if (!kept) scheduler_.Drop(run);
  return kept;
}

bool Worker::HandOn(JointTask& joint) {
  if (lane_ == nullptr || (stay_.released.special.empty() && joint.followers.empty())) return false;
  const auto ready = std::find_if(stay_.released.special.begin(), stay_.released.special.end(),
                                  [&joint](uint32_t task) { return joint.Fits(task); });
  if (ready == stay_.released.special.end() && joint.followers.empty()) return false;
  if (!scheduler_.NobodyWaits(joint.places())) return false;
  uint32_t next = 0;
  if (ready != stay_.released.special.end()) {
    next = *ready;
    stay_.released.special.erase(ready);
    joint.run().tasks().counter(next).store(joint.blocks(), std::memory_order_relaxed);
  } else {
    next = joint.followers.back();
    joint.followers.pop_back();
    if (joint.followers.size() > 1 && scheduler_.parking().has_sleepers()) ShareFollowers(joint);
  }
  joint.Continue(next);
  stay_.next_joint = &joint;
  if (scheduler_.trace() != nullptr) {
    for (const BlockPlace& place : joint.places()) {
      scheduler_.trace()->OnPlaced(joint.TicketOf(place));
    }
  }
  return true;
}

void Worker::GiveFollowers(JointTask& joint) {
  if (joint.followers.empty()) return;
  Run& run = joint.run();
  if (!run.stopping()) {
    std::reverse(joint.followers.begin(), joint.followers.end());
    stay_.Push(joint.followers);
  }
  joint.followers.clear();
}

void Worker::ShareFollowers(JointTask& joint) {
  JointTask* const other = TakeJoint(joint.followers.back());
  if (other == nullptr) return;
  const auto middle = joint.followers.begin() + static_cast<ptrdiff_t>(joint.followers.size() / 2);
  other->followers.assign(middle, joint.followers.end() - 1);
  joint.followers.erase(middle, joint.followers.end());
  stay_.Flush();
  services_.errands().Push(*other);
}

}  // namespace pto
