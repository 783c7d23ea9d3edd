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

// The events of a session, in order, none lost and none twice. Made by Session::Watch and
// Run::Events. Reads from the daemon only inside Next, so it holds one batch at most; it runs no
// thread. When the connection breaks, Next reconnects and resumes after the last batch.
//
// Thread-safe; calls at the same time share the stream's batches. Destroying it closes it at
// once.
class EventStream {
 public:
  ~EventStream();
  EventStream(EventStream&&) noexcept;
  EventStream& operator=(EventStream&&) noexcept;

  // Returns the next batch, never an empty one; nullopt when the stream has ended: its session
  // was closed, or its run has ended (WatchOptions::until_run_ends).
  //
  // After CLIENT_TIMEOUT (nothing happened in time) and DAEMON_UNREACHABLE (no way to reconnect
  // within ClientOptions::connect_timeout) it can be called again and nothing is lost. Other
  // errors are final and returned again: ABORTED / BOOT_ID_CHANGED after a restart of the
  // daemon, NOT_FOUND / SESSION_ENDED, and refusals of what was asked for.
  absl::StatusOr<absl::optional<v1::EventBatch>> Next(absl::Duration timeout = kDefaultTimeout);

  // Everything up to this number was returned: the place to resume with another stream.
  uint64_t through_sequence() const;

 private:
  friend class Run;
  friend class Session;
  explicit EventStream(std::unique_ptr<internal::EventReader> reader);

  std::unique_ptr<internal::EventReader> reader_;
};

}  // namespace pto
