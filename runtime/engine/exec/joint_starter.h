#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/engine/exec/core_stay.h"
#include "runtime/engine/exec/joint_task.h"
#include "runtime/engine/exec/services.h"

namespace pto::engine {

// Gives ready tasks that work in phases their cores. JointLoop runs them. Belongs to one worker,
// and keeps a few JointTasks for its next ones. Not thread-safe.
class JointStarter {
 public:
  // `keeps_one`: its worker may keep a task for itself instead of passing it to others.
  JointStarter(Services& services, bool keeps_one)
      : services_(services), scheduler_(services.scheduler()), keeps_one_(keeps_one) {}
  ~JointStarter();
  JointStarter(const JointStarter&) = delete;
  JointStarter& operator=(const JointStarter&) = delete;

  // Takes the cores for a ready task, or lets it follow another one that was begun here. Returns
  // false when its cores are not free. Other threads know of it only after Publish.
  bool Begin(CoreStay& stay, uint32_t task);
  bool has_begun() const { return !begun_.empty(); }
  void Publish(CoreStay& stay);

  // Takes the cores for one task. Returns nullptr when they are not free, or others wait for them.
  JointTask* Take(CoreStay& stay, uint32_t task);
  // This thread works on it no more.
  void Leave(JointTask& joint);

 private:
  JointTask* New(Run& run, uint32_t task);

  Services& services_;
  Scheduler& scheduler_;
  const bool keeps_one_;
  std::vector<JointTask*> begun_;
  size_t next_leader_ = 0;  // of these, for the next follower
  std::vector<JointTask*> spare_;
};

}  // namespace pto::engine
