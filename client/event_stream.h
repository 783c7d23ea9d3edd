#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "client/options.h"
#include "pto/v1/event.pb.h"

namespace pto {

namespace internal {
class Core;
class EventReader;
class SessionState;
}  // namespace internal

// The events of a session: in order, without loss or duplicates. Created by Session::Watch and
// Run::Events. Reads from the daemon only inside Next, so it holds at most one batch and needs no
// thread. If the connection breaks, Next reconnects and resumes after the last batch.
//
// Thread-safe: each batch goes to one of the concurrent callers. The destructor closes the stream
// immediately.
class EventStream {
 public:
  ~EventStream();
  EventStream(EventStream&&) noexcept;
  EventStream& operator=(EventStream&&) noexcept;

  // Returns the next batch, which is never empty. Returns nullopt at the end of the stream: the
  // session was closed, or the run has ended (WatchOptions::until_run_ends).
  //
  // CLIENT_TIMEOUT (no event in time) and DAEMON_UNREACHABLE (could not reconnect within
  // ClientOptions::connect_timeout) are not final: call Next again; no event is lost. All other
  // errors are final, and later calls return them again: ABORTED / BOOT_ID_CHANGED after a restart
  // of the daemon, NOT_FOUND / SESSION_ENDED, and errors for an invalid request.
  absl::StatusOr<absl::optional<v1::EventBatch>> Next(absl::Duration timeout = kDefaultTimeout);

  // The sequence number up to which all events were returned. Another stream can resume here.
  uint64_t through_sequence() const;

 private:
  friend class Run;
  friend class Session;
  explicit EventStream(std::unique_ptr<internal::EventReader> reader);

  std::unique_ptr<internal::EventReader> reader_;
};

}  // namespace pto
