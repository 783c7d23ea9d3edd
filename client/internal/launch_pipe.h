#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "client/internal/async_call.h"
#include "client/internal/call_driver.h"
#include "client/internal/core.h"
#include "client/internal/deadline.h"
#include "client/internal/session_state.h"
#include "grpcpp/support/async_stream.h"
#include "pto/v1/run.grpc.pb.h"

namespace pto::internal {

// The call behind a LaunchStream. Thread-safe.
//
// Reads continue until they fail; only then the call is finished, because gRPC holds back a call's
// status until all its messages are read.
class LaunchPipe final : public AsyncCall {
 public:
  LaunchPipe(std::shared_ptr<Core> core, std::shared_ptr<SessionState> session);

  // Use this instead of destroying a pipe. Does not wait for the daemon.
  static void Close(std::unique_ptr<LaunchPipe> pipe);

  Deadline DeadlineOf(absl::Duration timeout) const { return core_->DeadlineOf(timeout); }

  absl::StatusOr<uint64_t> Launch(const v1::LaunchGraphRequest& request, const Deadline& deadline);
  absl::StatusOr<v1::LaunchCompletion> Next(const Deadline& deadline);
  absl::StatusOr<v1::LaunchCompletion> LaunchAndWait(const v1::LaunchGraphRequest& request,
                                                     const Deadline& deadline);
  absl::Status Done(const Deadline& deadline);

 private:
  using Stream = grpc::ClientAsyncReaderWriter<v1::LaunchStreamRequest, v1::LaunchCompletion>;

  // Sends a launch after the previous one has been sent.
  absl::StatusOr<uint64_t> LaunchLocked(const v1::LaunchGraphRequest& request,
                                        const Deadline& deadline)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(driver_.mutex());
  // Returns when a message can be sent: OK, the end of the stream, or CLIENT_TIMEOUT.
  absl::Status AwaitWritable(const Deadline& deadline)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(driver_.mutex());
  // Keeps a read pending, processes its result, and detects the end of the call. Returns after one
  // step: OK if something may have changed, otherwise CLIENT_TIMEOUT.
  absl::Status Advance(const Deadline& deadline) ABSL_EXCLUSIVE_LOCKS_REQUIRED(driver_.mutex());
  void TakeFinishedOps() ABSL_EXCLUSIVE_LOCKS_REQUIRED(driver_.mutex());
  // The error of an ended stream.
  absl::Status EndStatus(const Deadline& deadline) ABSL_EXCLUSIVE_LOCKS_REQUIRED(driver_.mutex());
  // Takes the completion of `tag`, or the first that no LaunchAndWait waits for.
  absl::optional<v1::LaunchCompletion> Take(absl::optional<uint64_t> tag)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(driver_.mutex());
  bool IsClaimed(uint64_t tag) ABSL_EXCLUSIVE_LOCKS_REQUIRED(driver_.mutex());

  // Null when closed: the core keeps a stuck call.
  std::shared_ptr<Core> core_;
  const std::shared_ptr<SessionState> session_;

  std::unique_ptr<Stream> stream_ ABSL_GUARDED_BY(driver_.mutex());
  CallOp start_ ABSL_GUARDED_BY(driver_.mutex());
  CallOp write_ ABSL_GUARDED_BY(driver_.mutex());
  CallOp read_ ABSL_GUARDED_BY(driver_.mutex());
  CallOp finish_ ABSL_GUARDED_BY(driver_.mutex());
  bool started_ ABSL_GUARDED_BY(driver_.mutex()) = false;
  // Whether a start or a write failed: the call is over, but messages may be left.
  bool broken_ ABSL_GUARDED_BY(driver_.mutex()) = false;
  // Whether a read failed: no message is left.
  bool exhausted_ ABSL_GUARDED_BY(driver_.mutex()) = false;
  bool writes_done_ ABSL_GUARDED_BY(driver_.mutex()) = false;
  grpc::Status finish_status_ ABSL_GUARDED_BY(driver_.mutex());
  // The final status of the stream, once it has ended.
  absl::optional<absl::Status> end_ ABSL_GUARDED_BY(driver_.mutex());

  v1::LaunchStreamRequest outgoing_ ABSL_GUARDED_BY(driver_.mutex());
  v1::LaunchCompletion incoming_ ABSL_GUARDED_BY(driver_.mutex());
  uint64_t last_tag_ ABSL_GUARDED_BY(driver_.mutex()) = 0;
  // At most one for each launch in flight.
  std::deque<v1::LaunchCompletion> ready_ ABSL_GUARDED_BY(driver_.mutex());
  // Tags that a LaunchAndWait waits for.
  std::vector<uint64_t> claimed_ ABSL_GUARDED_BY(driver_.mutex());
};

}  // namespace pto::internal
