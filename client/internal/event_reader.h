#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "client/internal/core.h"
#include "client/internal/deadline.h"
#include "client/internal/reader_call.h"
#include "client/internal/session_state.h"
#include "client/options.h"
#include "pto/v1/event.grpc.pb.h"
#include "runtime/base/mutex.h"

namespace pto::internal {

// The implementation of EventStream: one call after another, each resuming where the previous one
// broke. Thread-safe; one thread at a time has the turn to read.
class EventReader {
 public:
  EventReader(std::shared_ptr<Core> core, std::shared_ptr<SessionState> session,
              const WatchOptions& options);
  // Cancels the call without waiting for the daemon.
  ~EventReader();

  Deadline DeadlineOf(absl::Duration timeout) const { return core_->DeadlineOf(timeout); }

  absl::StatusOr<absl::optional<v1::EventBatch>> Next(const Deadline& deadline);

  uint64_t through_sequence() const;

 private:
  // Next, for the thread that has the turn.
  absl::StatusOr<absl::optional<v1::EventBatch>> Read(const Deadline& deadline);
  void CloseCall();
  // Records where to resume, and whether this is the last wanted batch.
  void Note(const v1::EventBatch& batch, const Deadline& deadline);
  // Whether the run that ends the stream has ended: its last event may have been dropped.
  void AskForRun(const Deadline& deadline);
  void EndWell();
  // Interprets a broken call. OK: reconnect; otherwise the error to return.
  absl::Status Recover(const absl::Status& error, const Deadline& deadline,
                       const Deadline& give_up);

  const std::shared_ptr<Core> core_;
  const std::shared_ptr<SessionState> session_;
  const std::string until_run_ends_;

  mutable Mutex mutex_;
  CondVar turn_free_;
  bool turn_taken_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t through_sequence_ ABSL_GUARDED_BY(mutex_) = 0;

  // The members below are for the thread that has the turn.
  v1::WatchEventsRequest request_;
  std::unique_ptr<ReaderCall<v1::EventBatch>> call_;
  absl::Duration backoff_;
  // Events were dropped, and it is not known yet whether the run has ended.
  bool must_ask_ = false;
  // The run has ended, and its last event has this number or a smaller one.
  absl::optional<uint64_t> ended_through_;
  // The final status; OK means a normal end.
  absl::optional<absl::Status> end_;
};

}  // namespace pto::internal
