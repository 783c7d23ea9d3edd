// What a Worker does with tasks whose kernels work in phases.

#include <algorithm>
#include <utility>
#include <vector>

#include "runtime/base/ticks.h"
#include "runtime/engine/joint_task.h"
#include "runtime/engine/worker.h"

namespace pto {
namespace {

// So long a thread that has nothing to claim waits for the next phase before it sleeps: less than
// its wake-up takes.
constexpr double kPatienceMicroseconds = 20;

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
  Run& run = *ticket_.run;
  JointTask* const joint = NewJoint(run, task);
  if (!scheduler_.TakeGang(run, task, joint->mutable_places())) {
    LeaveJoint(*joint);
    return false;
  }
  if (scheduler_.trace() != nullptr) {
    for (const BlockPlace& place : joint->places()) {
      scheduler_.trace()->OnPlaced(joint->TicketOf(place));
    }
  }
  // From here on others may have part of the run.
  alone_ = false;
  run.outstanding_.fetch_add(1, std::memory_order_acq_rel);
  // An executor without other work keeps one for itself, and wakes nobody for it.
  if (lane_ != nullptr && joint_ == nullptr && local_.empty()) {
    joint_ = joint;
  } else {
    Flush();
    services_.errands().Push(*joint);
  }
  return true;
}

void Worker::RunJoint(JointTask& first) {
  Run& run = first.run();
  // Others may end a task, and with it the run, while this one still needs it.
  run.outstanding_.fetch_add(1, std::memory_order_acq_rel);
  // All that follow from each other here are one stretch: a clock is read only at its ends.
  BeginStretch(first.TicketOf(first.places()[0]));
  uint32_t done = 0;
  for (JointTask* joint = &first; joint != nullptr; joint = NextJoint(run, ++done)) {
    DoJoint(*joint);
    LeaveJoint(*joint);
  }
  Flush();
  scheduler_.Drop(run);
}

JointTask* Worker::NextJoint(const Run& run, uint32_t done) {
  if (joint_ == nullptr || &joint_->run() != &run) return nullptr;
  JointTask* const joint = std::exchange(joint_, nullptr);
  if (done % kJointsInARow != 0 ||
      (services_.errands().size() == 0 && lane_->runnable() == 0 && !scheduler_.OthersWait(run))) {
    return joint;
  }
  Flush();
  services_.errands().Push(*joint);
  return nullptr;
}

void Worker::DoJoint(JointTask& joint) {
  Run& run = joint.run();
  const uint32_t task = joint.task();
  ticket_ = joint.TicketOf(joint.places()[0]);
  if (ticket_.chip != chip_) {
    Flush();
    chip_ = ticket_.chip;
    queue_ = &scheduler_.queue(chip_);
  }
  last_ticks_ = Ticks();
  if (run.stopping()) {
    EndJoint(joint, true, 0);
    return;
  }
  const bool timed =
      (run.image().tasks()[task].traits & kTaskTimed) != 0 || run.spec_.task_timeout_ns > 0;
  absl::Status prepared = joint.Prepare(timed ? &services_.BeginLong(run, task) : nullptr);
  if (!prepared.ok()) {
    run.AddError(std::move(prepared));
    EndJoint(joint, true, 0);
    return;
  }
  if (scheduler_.trace() != nullptr) {
    for (const BlockPlace& place : joint.places()) {
      scheduler_.trace()->OnStart(joint.TicketOf(place));
    }
  }
  if (joint.worth_sharing()) {
    ShareJoint(joint);
  } else {
    joint.MakeAll(services_);
    EndJoint(joint, joint.failed(), 0);
  }
}

void Worker::ShareJoint(JointTask& joint) {
  // What was done before is to be known before others end this one.
  Flush();
  BeginStretch(joint.TicketOf(joint.places()[0]));
  joint.start_ns = recorder_.base_ns();
  AskForHelp(joint);
  Drive(joint);
}

void Worker::AskForHelp(JointTask& joint) {
  const uint32_t wanted = std::min(joint.calls(), std::max(scheduler_.executors(), 1u)) - 1;
  while (joint.helpers.load(std::memory_order_relaxed) < wanted) {
    joint.helpers.fetch_add(1, std::memory_order_relaxed);
    joint.run().outstanding_.fetch_add(1, std::memory_order_acq_rel);
    services_.errands().Push(*new JointHelp(joint));
  }
}

void Worker::HelpJoint(JointTask& joint) {
  Run& run = joint.run();
  Drive(joint);
  joint.helpers.fetch_sub(1, std::memory_order_relaxed);
  LeaveJoint(joint);
  scheduler_.Drop(run);
}

void Worker::Drive(JointTask& joint) {
  uint32_t call = 0;
  while (true) {
    if (joint.Claim(&call)) {
      joint.Make(services_, call);
      if (!joint.Made()) continue;
      if (!joint.OpenNext()) {
        BeginStretch(joint.TicketOf(joint.places()[0]));
        EndJoint(joint, joint.failed(), joint.start_ns);
        Flush();
        return;
      }
      AskForHelp(joint);
      continue;
    }
    if (!joint.has_more_phases()) return;
    const uint64_t until =
        Ticks() + static_cast<uint64_t>(kPatienceMicroseconds * TicksPerMicrosecond());
    while (!joint.has_unclaimed() && joint.has_more_phases()) {
      if (Ticks() > until) return;
      __builtin_ia32_pause();
    }
  }
}

void Worker::EndJoint(JointTask& joint, bool failed, int64_t start_ns) {
  Run& run = joint.run();
  const uint32_t task = joint.task();
  ticket_.task = task;
  // Before what follows, which may need them.
  BlockTicket held = ticket_;
  for (const BlockPlace& place : joint.places()) {
    held.chip = place.chip;
    held.core = place.core;
    scheduler_.ReleaseCore(held);
  }
  ticket_.kind = static_cast<pto_core>(0);  // nothing that follows is for a core that it still has
  std::atomic<uint32_t>& counter = run.counters_[task];
  if (failed) counter.fetch_or(Run::kFailedBit, std::memory_order_relaxed);
  NoteReturn(run, task);
  const uint32_t before = counter.fetch_sub(joint.calls(), std::memory_order_acq_rel);
  // It may have conditions, which then end it.
  if ((before & ~Run::kFailedBit) != joint.calls()) return;
  if (!run.stopping()) EndSlow(task, (before & Run::kFailedBit) != 0, start_ns);
  // Whoever comes here keeps the run itself.
  scheduler_.Drop(run);
}

}  // namespace pto
