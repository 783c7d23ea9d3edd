#pragma once

#include "runtime/engine/lane/lane.h"

namespace pto::engine {

struct PostSlot;
class Waiter;

// Does what kernels on lanes call the engine for. The part of the engine above the lanes implements
// it. Thread-safe.
class LaneCallHandler {
 public:
  virtual ~LaneCallHandler() = default;

  // A call of the post, which stays until PostTable::EndCall. Calls LanePort::Answer once, from any
  // thread, perhaps before this returns; not if the post ends before the call does.
  virtual void Handle(PostSlot& slot, const LaneCall& call) = 0;
  // The post has ended while its kernel waits; the caller has claimed the wait.
  virtual void EndWait(Waiter& waiter) = 0;
};

}  // namespace pto::engine
