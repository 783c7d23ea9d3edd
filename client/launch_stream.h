#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/options.h"
#include "client/run_state.h"
#include "pto/v1/run.pb.h"

namespace pto {

namespace internal {
class LaunchPipe;
struct LaunchPipeCloser {
  void operator()(LaunchPipe* pipe) const;
};
}  // namespace internal

// One open stream for many launches: launches in, completions out. Made by
// Session::OpenLaunchStream. The calling thread does the work itself, no other thread takes
// part. Completions wait at the daemon until they are asked for.
//
// Thread-safe: one thread may launch while another takes completions. A call that timed out
// leaves the stream usable. When the stream breaks, runs that were launched go on, and every
// later call returns the error; open another stream. Destroying it closes it at once.
class LaunchStream {
 public:
  ~LaunchStream();
  LaunchStream(LaunchStream&&) noexcept;
  LaunchStream& operator=(LaunchStream&&) noexcept;

  // Sends a launch and returns its tag, which comes back with its completion. Does not wait for
  // the daemon, except when it has not yet taken the launches before; CLIENT_TIMEOUT then means
  // that nothing was sent. `request.graph` is a full name; `request.wait` has no effect.
  absl::StatusOr<uint64_t> Launch(const v1::LaunchGraphRequest& request,
                                  absl::Duration timeout = kDefaultTimeout);

  // Returns the next completion, in the order in which runs end. A launch that was refused is a
  // completion too: see StatusOf. OUT_OF_RANGE / STREAM_ENDED after Done when all were returned.
  absl::StatusOr<v1::LaunchCompletion> Next(absl::Duration timeout = kDefaultTimeout);

  // Launches and returns that launch's own completion; others are kept for Next.
  absl::StatusOr<v1::LaunchCompletion> LaunchAndWait(const v1::LaunchGraphRequest& request,
                                                     absl::Duration timeout = kDefaultTimeout);

  // Says that no launch follows; the stream ends after the last completion.
  absl::Status Done(absl::Duration timeout = kDefaultTimeout);

 private:
  friend class Session;
  explicit LaunchStream(std::unique_ptr<internal::LaunchPipe, internal::LaunchPipeCloser> pipe);

  std::unique_ptr<internal::LaunchPipe, internal::LaunchPipeCloser> pipe_;
};

}  // namespace pto
