#pragma once

#include "absl/status/status.h"
#include "runtime/engine/run/run.h"

namespace pto {

// What others can end: a run of whatever kind.
class Stoppable {
 public:
  virtual ~Stoppable() = default;
  // Stops what has not ended: the run ends as `as` with `error`, unless it has. From any thread,
  // with no lock held.
  virtual void Stop(RunState as, const absl::Status& error) = 0;
};

}  // namespace pto
