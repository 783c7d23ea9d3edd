#pragma once

#include <memory>

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

// The call behind an OpenRun. For one thread at a time.
class RunPipe final : public AsyncCall {
 public:
  RunPipe(std::shared_ptr<Core> core, std::shared_ptr<SessionState> session);

  // Use this instead of destroying a pipe: cancels the call unless it is over. Does not wait for
  // the daemon.
  static void Close(std::unique_ptr<RunPipe> pipe);

  Deadline DeadlineOf(absl::Duration timeout) const { return core_->DeadlineOf(timeout); }
  const std::string& session_name() const { return session_->name(); }

  // Sends a message after the previous one has been sent. CLIENT_TIMEOUT means that it was not
  // sent; another error that the call is over, or ABORTED without a reason if it was answered
  // early: see Finish.
  absl::Status Write(const v1::StreamRunRequest& request, const Deadline& deadline);
  // Half-closes the stream, once, and waits for the answer.
  absl::StatusOr<v1::Run> Finish(const Deadline& deadline);

 private:
  // Waits until the operation has ended.
  absl::Status Await(const CallOp& op, const Deadline& deadline)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(driver_.mutex());
  // Waits until a message can be sent. Sets `broken_` if that is not possible any more.
  absl::Status AwaitWritable(const Deadline& deadline)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(driver_.mutex());
  absl::StatusOr<v1::Run> AwaitAnswer(const Deadline& deadline)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(driver_.mutex());

  // Null when closed: the core keeps a stuck call.
  std::shared_ptr<Core> core_;
  const std::shared_ptr<SessionState> session_;

  v1::Run response_;
  grpc::Status status_;
  std::unique_ptr<grpc::ClientAsyncWriter<v1::StreamRunRequest>> writer_;
  CallOp start_;
  CallOp write_;
  CallOp finish_;
  // A start or a write failed: the call is over.
  bool broken_ = false;
  bool writes_done_ = false;
  // The answer, once it has arrived and was interpreted.
  absl::optional<absl::StatusOr<v1::Run>> answer_;
};

}  // namespace pto::internal
