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

// A bidirectional stream for many launches: launches in, completions out. Created by
// Session::OpenLaunchStream. The calling thread does all the work; there is no other thread.
// Completions stay at the daemon until the client reads them.
//
// Thread-safe: one thread may launch while another reads completions. The stream stays usable after
// a call timed out. If the stream breaks, launched runs continue and all later calls return the
// error; open another stream. The destructor closes the stream immediately.
class LaunchStream {
 public:
  ~LaunchStream();
  LaunchStream(LaunchStream&&) noexcept;
  LaunchStream& operator=(LaunchStream&&) noexcept;

  // Sends a launch and returns its tag; the completion carries the same tag. Waits for the daemon
  // only if it has not accepted earlier launches yet; CLIENT_TIMEOUT then means that nothing was
  // sent. `request.graph` is a full name; `request.wait` has no effect.
  absl::StatusOr<uint64_t> Launch(const v1::LaunchGraphRequest& request,
                                  absl::Duration timeout = kDefaultTimeout);

  // Returns the next completion, in the order in which runs end. A rejected launch also produces a
  // completion; see StatusOf. Returns OUT_OF_RANGE / STREAM_ENDED after Done and the last
  // completion.
  absl::StatusOr<v1::LaunchCompletion> Next(absl::Duration timeout = kDefaultTimeout);

  // Launches and returns the completion of this launch; Next returns the others.
  absl::StatusOr<v1::LaunchCompletion> LaunchAndWait(const v1::LaunchGraphRequest& request,
                                                     absl::Duration timeout = kDefaultTimeout);

  // Ends the sending side: no more launches follow. The stream ends after the last completion.
  absl::Status Done(absl::Duration timeout = kDefaultTimeout);

 private:
  friend class Session;
  explicit LaunchStream(std::unique_ptr<internal::LaunchPipe, internal::LaunchPipeCloser> pipe);

  std::unique_ptr<internal::LaunchPipe, internal::LaunchPipeCloser> pipe_;
};

}  // namespace pto
