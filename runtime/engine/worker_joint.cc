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

}  // namespace

bool Worker::BeginJoint(uint32_t task) {
  Run& run = *ticket_.run;
  std::vector<BlockPlace> places;
  if (!scheduler_.TakeGang(run, task, &places)) return false;
  auto* const joint = new JointTask(run, task, std::move(places));
  if (scheduler_.trace() != nullptr) {
    for (const BlockPlace& place : joint->places()) {
      scheduler_.trace()->OnPlaced(joint->TicketOf(place));
    }
  }
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

void Worker::RunJoints() {
  while (joint_ != nullptr) RunJoint(*std::exchange(joint_, nullptr));
}

void Worker::RunJoint(JointTask& joint) {
  Run& run = joint.run();
  const uint32_t task = joint.task();
  if (run.stopping()) {
    EndJoint(joint, true);
    joint.Leave();
    return;
  }
  BeginStretch(joint.TicketOf(joint.places()[0]));
  joint.start_ns = recorder_.base_ns();
  const bool timed =
      (run.image().tasks()[task].traits & kTaskTimed) != 0 || run.spec_.task_timeout_ns > 0;
  absl::Status prepared = joint.Prepare(timed ? &services_.BeginLong(run, task) : nullptr);
  if (!prepared.ok()) {
    run.AddError(std::move(prepared));
    EndJoint(joint, true);
    joint.Leave();
    return;
  }
  if (scheduler_.trace() != nullptr) {
    for (const BlockPlace& place : joint.places()) {
      scheduler_.trace()->OnStart(joint.TicketOf(place));
    }
  }
  if (!joint.worth_sharing()) {
    Drive(joint);
    joint.Leave();
    return;
  }
  // Others may end the task, and with it the run, while this one still asks for more of them.
  run.outstanding_.fetch_add(1, std::memory_order_acq_rel);
  AskForHelp(joint);
  Drive(joint);
  joint.Leave();
  scheduler_.Drop(run);
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
  joint.Leave();
  scheduler_.Drop(run);
}

void Worker::Drive(JointTask& joint) {
  uint32_t call = 0;
  while (true) {
    if (joint.Claim(&call)) {
      joint.Make(services_, call);
      if (!joint.Made()) continue;
      if (!joint.OpenNext()) {
        EndJoint(joint, joint.failed());
        return;
      }
      if (joint.worth_sharing()) AskForHelp(joint);
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

void Worker::EndJoint(JointTask& joint, bool failed) {
  Run& run = joint.run();
  const uint32_t task = joint.task();
  // Before what follows, which may need them.
  for (const BlockPlace& place : joint.places()) scheduler_.ReleaseCore(joint.TicketOf(place));
  BlockTicket ticket = joint.TicketOf(joint.places()[0]);
  ticket.kind = static_cast<pto_core>(0);  // nothing that follows is for a core that it still has
  BeginStretch(ticket);
  std::atomic<uint32_t>& counter = run.counters_[task];
  if (failed) counter.fetch_or(Run::kFailedBit, std::memory_order_relaxed);
  const uint32_t before = counter.fetch_sub(joint.calls(), std::memory_order_acq_rel);
  // It may have conditions, which then end it.
  if ((before & ~Run::kFailedBit) != joint.calls()) return;
  if (!run.stopping()) EndSlow(task, (before & Run::kFailedBit) != 0, joint.start_ns);
  Flush();
  scheduler_.Drop(run);
}

}  // namespace pto
