#include "runtime/engine/exec/joint_starter.h"

#include <algorithm>

namespace pto::engine {
namespace {

// How many ended JointTasks are kept for the next ones.
constexpr size_t kSpareJoints = 4;

}  // namespace

JointStarter::~JointStarter() {
  for (const JointTask* const joint : spare_) delete joint;
}

JointTask* JointStarter::New(Run& run, uint32_t task) {
  if (spare_.empty()) return new JointTask(run, task, {});
  JointTask* const joint = spare_.back();
  spare_.pop_back();
  joint->Renew(run, task);
  return joint;
}

void JointStarter::Leave(JointTask& joint) {
  if (!joint.Leave()) return;
  if (spare_.size() < kSpareJoints) {
    joint.Rest();
    spare_.push_back(&joint);
  } else {
    delete &joint;
  }
}

bool JointStarter::Begin(CoreStay& stay, uint32_t task) {
  // To begin more tasks than there are threads would only keep cores from others.
  const size_t leaders = begun_.size();
  JointTask* leader = nullptr;
  for (size_t i = 0; i < leaders && leader == nullptr; ++i) {
    JointTask* const begun = begun_[next_leader_++ % leaders];
    if (begun->Fits(task)) leader = begun;
  }
  if (leader == nullptr || leaders < scheduler_.executors()) {
    if (JointTask* const joint = Take(stay, task)) {
      begun_.push_back(joint);
      return true;
    }
  }
  if (leader == nullptr) return false;
  leader->followers.push_back(task);
  return true;
}

JointTask* JointStarter::Take(CoreStay& stay, uint32_t task) {
  Run& run = *stay.ticket.run;
  JointTask* const joint = New(run, task);
  if (!scheduler_.TakeGang(run, task, joint->mutable_places())) {
    Leave(*joint);
    return nullptr;
  }
  joint->Show(scheduler_.queue(joint->places()[0].chip));
  if (scheduler_.trace() != nullptr) {
    for (const BlockPlace& place : joint->places()) {
      scheduler_.trace()->OnPlaced(joint->TicketOf(place));
    }
  }
  // From now on other threads may have a part of the run.
  stay.alone = false;
  run.life().Add();
  return joint;
}

void JointStarter::Publish(CoreStay& stay) {
  for (JointTask* const joint : begun_) {
    // The last follower runs first; that is to be the first in the order of the graph.
    std::reverse(joint->followers.begin(), joint->followers.end());
    // An executor without other work keeps one task for itself, and wakes nobody for it.
    if (keeps_one_ && stay.next_joint == nullptr && stay.released.local.empty()) {
      stay.next_joint = joint;
    } else {
      stay.Flush();
      services_.errands().Push(*joint);
    }
  }
  begun_.clear();
}

}  // namespace pto::engine
