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

// A handle of one execution of a graph. All copies refer to the same run. Destroying a handle does
// not end the run. Created by Session. Thread-safe.
class Run {
 public:
  // `sessions/{session}/runs/{id}`.
  const std::string& name() const { return snapshot_.name(); }
  // The run as returned by the call that created this handle. It is final if that call waited for
  // the end. Only the name is set if no call was made.
  const v1::Run& snapshot() const { return snapshot_; }

  // Waits for the run to end and returns its final state; StatusOf gives its result. CLIENT_TIMEOUT
  // if it has not ended within `timeout`; the run continues.
  absl::StatusOr<v1::Run> Wait(absl::Duration timeout = kDefaultTimeout) const;
  // Returns the current state of the run.
  absl::StatusOr<v1::Run> Get(absl::Duration timeout = kDefaultTimeout) const;
  // Requests cancellation and returns immediately; the run may still be CANCELLING.
  absl::StatusOr<v1::Run> Cancel(absl::string_view reason = "",
                                 absl::Duration timeout = kDefaultTimeout) const;
  // Explains why the run has not ended. Covers at most `max_tasks` tasks; zero means 16. Works even
  // if the daemon's scheduler hangs.
  absl::StatusOr<v1::ExplainRunResponse> Explain(uint32_t max_tasks = 0,
                                                 absl::Duration timeout = kDefaultTimeout) const;
  // All events of the run. The stream ends with the run. Does not wait for the daemon.
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
