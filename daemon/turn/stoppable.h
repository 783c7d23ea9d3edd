#pragma once

#include "absl/status/status.h"
#include "runtime/engine/run/completions.h"
#include "runtime/engine/run/run.h"

namespace pto::daemon {

// A run of any kind that can be stopped. Thread-safe.
class Stoppable {
 public:
  virtual ~Stoppable() = default;
  // Stops what has not ended: the run ends as `as` with `error`, unless it has ended. The caller
  // holds no lock, and drains `completions`.
  virtual void Stop(engine::RunState as, const absl::Status& error,
                    engine::Completions& completions) = 0;
  // The same, and returns when all that follows has been done. Not for completions.
  void Stop(engine::RunState as, const absl::Status& error) {
    engine::Completions completions;
    Stop(as, error, completions);
  }
};

}  // namespace pto::daemon
