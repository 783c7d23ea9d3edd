#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "client/event_stream.h"
#include "client/options.h"
#include "client/run_state.h"
#include "pto/v1/run.pb.h"

namespace pto {

namespace internal {
class Core;
class SessionState;
}  // namespace internal

// A handle of one execution of a graph. Copies mean the same run; destroying a handle does not
// end the run. Made by Session. Thread-safe.
class Run {
 public:
  // `sessions/{session}/runs/{id}`.
  const std::string& name() const { return snapshot_.name(); }
  // The run as the call that made this handle returned it: final when that call waited long
  // enough. Only the name is set when no call was made.
  const v1::Run& snapshot() const { return snapshot_; }

  // Returns the run in its final state; StatusOf tells how it ended. CLIENT_TIMEOUT when it has
  // not ended in time; the run goes on.
  absl::StatusOr<v1::Run> Wait(absl::Duration timeout = kDefaultTimeout) const;
  // Returns the run as it is.
  absl::StatusOr<v1::Run> Get(absl::Duration timeout = kDefaultTimeout) const;
  // Asks the run to stop, and returns at once; it may still be CANCELLING.
  absl::StatusOr<v1::Run> Cancel(absl::string_view reason = "",
                                 absl::Duration timeout = kDefaultTimeout) const;
  // Why the run is not done; of at most `max_tasks` of its tasks, zero means 16. Answered also
  // while the daemon's scheduler stands still.
  absl::StatusOr<v1::ExplainRunResponse> Explain(uint32_t max_tasks = 0,
                                                 absl::Duration timeout = kDefaultTimeout) const;
  // The run's events from the first; the stream ends when the run has. Does not wait for the
  // daemon.
  absl::StatusOr<EventStream> Events() const;

 private:
  friend class Session;
  Run(std::shared_ptr<internal::Core> core, std::shared_ptr<internal::SessionState> session,
      v1::Run snapshot);

  std::shared_ptr<internal::Core> core_;
  std::shared_ptr<internal::SessionState> session_;
  v1::Run snapshot_;
};

}  // namespace pto
