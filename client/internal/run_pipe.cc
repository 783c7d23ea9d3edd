#include "client/internal/run_pipe.h"

#include <utility>

#include "client/internal/rpc_error.h"
#include "runtime/base/status_macros.h"

namespace pto::internal {
namespace {

constexpr absl::string_view kRpc = "StreamRun";

}  // namespace

RunPipe::RunPipe(std::shared_ptr<Core> core, std::shared_ptr<SessionState> session)
    : core_(std::move(core)), session_(std::move(session)) {
  MutexLock lock(driver_.mutex());
  writer_ = core_->transport().bulk_run.stub->PrepareAsyncStreamRun(&context_, &response_,
                                                                    driver_.queue());
  writer_->StartCall(driver_.Begin(start_));
}

void RunPipe::Close(std::unique_ptr<RunPipe> pipe) {
  const std::shared_ptr<Core> core = std::move(pipe->core_);
  core->transport().bulk_run.connection.Release(std::move(pipe));
}

absl::Status RunPipe::Await(const CallOp& op, const Deadline& deadline) {
  while (op.pending()) {
    if (!driver_.Step(deadline) && op.pending() && deadline.Passed()) {
      return core_->Timeout(kRpc, deadline);
    }
  }
  return absl::OkStatus();
}

absl::Status RunPipe::AwaitWritable(const Deadline& deadline) {
  PTO_RETURN_IF_ERROR(Await(start_, deadline));
  PTO_RETURN_IF_ERROR(Await(write_, deadline));
  broken_ |= !start_.ok || (write_.done() && !write_.ok);
  return absl::OkStatus();
}

absl::Status RunPipe::Write(const v1::StreamRunRequest& request, const Deadline& deadline) {
  PTO_RETURN_IF_ERROR(session_->status());
  MutexLock lock(driver_.mutex());
  PTO_RETURN_IF_ERROR(AwaitWritable(deadline));
  if (broken_ || writes_done_) {
    PTO_RETURN_IF_ERROR(AwaitAnswer(deadline).status());
    return absl::AbortedError("the run has ended");
  }
  writer_->Write(request, driver_.Begin(write_));
  return absl::OkStatus();
}

absl::StatusOr<v1::Run> RunPipe::Finish(const Deadline& deadline) {
  MutexLock lock(driver_.mutex());
  PTO_RETURN_IF_ERROR(AwaitWritable(deadline));
  if (!broken_ && !writes_done_) {
    writes_done_ = true;
    writer_->WritesDone(driver_.Begin(write_));
  }
  return AwaitAnswer(deadline);
}

absl::StatusOr<v1::Run> RunPipe::AwaitAnswer(const Deadline& deadline) {
  if (answer_.has_value()) return *answer_;
  PTO_RETURN_IF_ERROR(Await(write_, deadline));
  if (finish_.idle()) writer_->Finish(&status_, driver_.Begin(finish_));
  PTO_RETURN_IF_ERROR(Await(finish_, deadline));
  // May ask the daemon; no other thread uses the pipe.
  const absl::Status status = RpcError(status_, kRpc, core_->address(), deadline.timeout());
  if (status.ok()) {
    answer_ = response_;
  } else {
    answer_ = core_->Examine(*session_, status, deadline);
  }
  return *answer_;
}

}  // namespace pto::internal
