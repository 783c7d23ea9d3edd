#include "runtime/engine/exec/joint_loop.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "runtime/base/pause.h"
#include "runtime/base/ticks.h"

namespace pto::engine {
namespace {

// A thread that finds no call to make waits so long for the next phase before it sleeps: less than
// its wake-up takes.
constexpr double kPatienceMicroseconds = 20;

uint64_t PatienceTicks() {
  static const auto ticks = static_cast<uint64_t>(kPatienceMicroseconds * TicksPerMicrosecond());
  return ticks;
}

// After so many tasks in a row others get their turn.
constexpr uint32_t kJointsInARow = 64;

}  // namespace

void JointLoop::RunJoint(CoreStay& stay, JointTask& first) {
  Run& run = first.run();
  // Other threads may end a task, and with it the run, while this one still uses it.
  run.life().Add();
  ++stay.holds;
  // A chain of tasks is one stay: the clock is read only at its ends.
  stay.Begin(first.TicketOf(first.places()[0]));
  stay.alone = stay.IsAlone();
  uint32_t done = 0;
  bool shared = false;
  for (JointTask* joint = &first; joint != nullptr; joint = Next(stay, run, ++done)) {
    const bool kept = RunOne(stay, *joint);
    shared = joint->worth_sharing();
    if (!kept) starter_.Leave(*joint);
  }
  stay.Flush();
  stay.alone = false;
  --stay.holds;
  stay.Drop(run);
  if (shared) AwaitMore(stay);
}

JointTask* JointLoop::Next(CoreStay& stay, const Run& run, uint32_t done) {
  if (stay.next_joint == nullptr || &stay.next_joint->run() != &run) return nullptr;
  JointTask* const joint = std::exchange(stay.next_joint, nullptr);
  const bool runs_ended = !stay.completions->empty();
  if (done % kJointsInARow != 0 && !runs_ended) return joint;
  if (!runs_ended && !services_.has_errands() && fibers_->runnable() == 0 &&
      !scheduler_.OthersWait(run)) {
    stay.alone = stay.IsAlone();
    return joint;
  }
  stay.Flush();
  services_.errands().Push(*joint);
  return nullptr;
}

bool JointLoop::RunOne(CoreStay& stay, JointTask& joint) {
  Run& run = joint.run();
  const uint32_t task = joint.task();
  if (!joint.continued()) {
    stay.ticket = joint.TicketOf(joint.places()[0]);
    if (stay.ticket.chip != stay.chip) {
      stay.Flush();
      stay.chip = stay.ticket.chip;
      stay.queue = &scheduler_.queue(stay.chip);
    }
    stay.ShowPlace(stay.ticket);
  } else {
    stay.Beat();
  }
  joint.Show(*stay.queue);
  if (run.spec().record_level != RecordLevel::kNone) stay.last_ticks = Ticks();
  if (run.stopping()) {
    End(stay, joint, true, 0);
    return false;
  }
  const bool timed =
      (run.image().tasks()[task].traits & kTaskTimed) != 0 || run.spec().task_timeout_ns > 0;
  absl::Status prepared = joint.Prepare(timed ? &services_.BeginLong(run, task) : nullptr);
  if (!prepared.ok()) {
    run.outcome().AddError(std::move(prepared));
    End(stay, joint, true, 0);
    return false;
  }
  if (scheduler_.trace() != nullptr) {
    for (const BlockPlace& place : joint.places()) {
      scheduler_.trace()->OnStart(joint.TicketOf(place));
    }
  }
  if (joint.worth_sharing()) {
    Share(stay, joint);
    return false;
  }
  joint.MakeAll(services_);
  return EndOwn(stay, joint);
}

void JointLoop::Share(CoreStay& stay, JointTask& joint) {
  GiveFollowers(stay, joint);
  joint.Show(*stay.queue);
  // Earlier tasks must be known before another thread ends this one.
  stay.Flush();
  stay.Begin(joint.TicketOf(joint.places()[0]));
  joint.start_ns = stay.recorder.base_ns();
  joint.SetHelp(std::min(joint.calls(), std::max(scheduler_.executors(), 1u)) - 1);
  AskForHelp(joint);
  Drive(stay, joint);
}

void JointLoop::AskForHelp(JointTask& joint) {
  for (const std::unique_ptr<JointHelp>& help : joint.helps()) {
    if (!help->Ask()) continue;
    joint.run().life().Add();
    services_.errands().Push(*help);
  }
}

void JointLoop::TakeBackHelp(CoreStay& stay, JointTask& joint) {
  for (const std::unique_ptr<JointHelp>& help : joint.helps()) {
    if (!services_.errands().TakeBack(*help)) continue;
    Run& run = joint.run();
    help->Forget();
    starter_.Leave(joint);
    stay.Drop(run);
  }
}

void JointLoop::HelpJoint(CoreStay& stay, JointTask& joint, JointHelp& help) {
  Run& run = joint.run();
  stay.ShowPlace(joint.TicketOf(joint.places()[0]));
  Drive(stay, joint);
  help.Forget();
  starter_.Leave(joint);
  stay.Drop(run);
  AwaitMore(stay);
}

void JointLoop::AwaitMore(const CoreStay& stay) {
  if (fibers_ == nullptr || stay.next_joint != nullptr) return;
  // Nothing of a run is on the stack, and the end of a run must not wait for the next task.
  stay.Move();
  stay.completions->Drain();
  const uint64_t until = Ticks() + PatienceTicks();
  while (!services_.has_errands() && fibers_->runnable() == 0 && scheduler_.ready() == 0 &&
         Ticks() < until) {
    Pause();
  }
}

void JointLoop::Drive(CoreStay& stay, JointTask& joint) {
  uint32_t call = 0;
  while (true) {
    if (joint.Claim(number_ % 2 != 0, &call)) {
      stay.Beat();
      joint.Make(services_, call);
      if (!joint.Made()) continue;
      if (!joint.OpenNext()) {
        stay.Begin(joint.TicketOf(joint.places()[0]));
        End(stay, joint, joint.failed(), joint.start_ns);
        stay.Flush();
        break;
      }
      AskForHelp(joint);
      continue;
    }
    if (!joint.has_more_phases()) break;
    const uint64_t until = Ticks() + PatienceTicks();
    while (!joint.has_unclaimed() && joint.has_more_phases()) {
      // The next phase asks for help again.
      if (Ticks() > until) return;
      Pause();
    }
  }
  TakeBackHelp(stay, joint);
}

void JointLoop::ReleaseCores(CoreStay& stay, const JointTask& joint) {
  stay.left_core = true;
  BlockTicket held = stay.ticket;
  held.kind = static_cast<pto_core>(joint.run().image().tasks()[joint.task()].core);
  for (const BlockPlace& place : joint.places()) {
    held.chip = place.chip;
    held.core = place.core;
    scheduler_.ReleaseCore(held);
  }
}

void JointLoop::End(CoreStay& stay, JointTask& joint, bool failed, int64_t start_ns) {
  Run& run = joint.run();
  const uint32_t task = joint.task();
  // First the cores: the tasks that follow may need them.
  ReleaseCores(stay, joint);
  GiveFollowers(stay, joint);
  stay.ticket.task = task;
  stay.ticket.kind = static_cast<pto_core>(0);  // has no core: no successor runs here
  std::atomic<uint32_t>& counter = run.tasks().counter(task);
  if (failed) counter.fetch_or(RunTasks::kFailedBit, std::memory_order_relaxed);
  stay.NoteReturn(run, task);
  const uint32_t before = counter.fetch_sub(joint.blocks(), std::memory_order_acq_rel);
  // If it has conditions, the last of them ends it.
  stay.alone = false;
  if ((before & ~RunTasks::kFailedBit) != joint.blocks()) return;
  if (!run.stopping()) flow_.EndSlow(stay, task, (before & RunTasks::kFailedBit) != 0, start_ns);
  // The caller holds the run.
  stay.Drop(run);
}

bool JointLoop::EndOwn(CoreStay& stay, JointTask& joint) {
  Run& run = joint.run();
  const uint32_t task = joint.task();
  // The fast way: only tell its successors. Not for failed, stopped or long tasks, nor with
  // conditions.
  if (joint.failed() || run.stopping() || run.long_tasks().used() ||
      run.tasks().counter(task).load(std::memory_order_acquire) != joint.blocks()) {
    End(stay, joint, joint.failed(), 0);
    return false;
  }
  stay.ticket.task = task;
  stay.ticket.kind = static_cast<pto_core>(0);
  stay.measured = stay.timed;
  stay.begin_ticks = stay.last_ticks;
  flow_.CountEnd(stay, task, false, 0);
  const bool kept = HandOn(stay, joint);
  if (!kept) {
    ReleaseCores(stay, joint);
    GiveFollowers(stay, joint);
  }
  flow_.DispatchReleased(stay);
  // The next task, if there is one, takes over the count that keeps the run from ending.
  if (!kept) stay.Drop(run);
  return kept;
}

bool JointLoop::HandOn(CoreStay& stay, JointTask& joint) {
  if (fibers_ == nullptr || (stay.released.special.empty() && joint.followers.empty()))
    return false;
  const auto ready = std::find_if(stay.released.special.begin(), stay.released.special.end(),
                                  [&joint](uint32_t task) { return joint.Fits(task); });
  if (ready == stay.released.special.end() && joint.followers.empty()) return false;
  if (!scheduler_.NobodyWaits(joint.places())) return false;
  uint32_t next = 0;
  if (ready != stay.released.special.end()) {
    next = *ready;
    stay.released.special.erase(ready);
    joint.run().tasks().counter(next).store(joint.blocks(), std::memory_order_relaxed);
  } else {
    next = joint.followers.back();
    joint.followers.pop_back();
    if (joint.followers.size() > 1 && scheduler_.parking().has_sleepers())
      ShareFollowers(stay, joint);
  }
  joint.Continue(next);
  stay.next_joint = &joint;
  if (scheduler_.trace() != nullptr) {
    for (const BlockPlace& place : joint.places()) {
      scheduler_.trace()->OnPlaced(joint.TicketOf(place));
    }
  }
  return true;
}

void JointLoop::GiveFollowers(CoreStay& stay, JointTask& joint) {
  if (joint.followers.empty()) return;
  Run& run = joint.run();
  if (!run.stopping()) {
    std::reverse(joint.followers.begin(), joint.followers.end());
    stay.Push(joint.followers);
  }
  joint.followers.clear();
}

void JointLoop::ShareFollowers(CoreStay& stay, JointTask& joint) {
  JointTask* const other = starter_.Take(stay, joint.followers.back());
  if (other == nullptr) return;
  const auto middle = joint.followers.begin() + static_cast<ptrdiff_t>(joint.followers.size() / 2);
  other->followers.assign(middle, joint.followers.end() - 1);
  joint.followers.erase(middle, joint.followers.end());
  stay.Flush();
  services_.errands().Push(*other);
}

}  // namespace pto::engine
