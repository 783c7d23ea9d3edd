#pragma once

#include <memory>

#include "client/internal/async_call.h"
#include "client/internal/deadline.h"
#include "grpcpp/support/async_stream.h"

namespace pto::internal {

// A client-streaming call. For one thread at a time.
template <typename Request, typename Response>
class WriterCall final : public AsyncCall {
 public:
  using Writer = std::unique_ptr<grpc::ClientAsyncWriter<Request>>;
  template <typename Stub>
  using Method = Writer (Stub::*)(grpc::ClientContext*, Response*, grpc::CompletionQueue*);

  template <typename Stub>
  WriterCall(Stub& stub, Method<Stub> method, const Deadline& deadline) : deadline_(deadline) {
    context_.set_deadline(deadline.ToGrpc());
    MutexLock lock(driver_.mutex());
    writer_ = (stub.*method)(&context_, &response_, driver_.queue());
    writer_->StartCall(driver_.Begin(start_));
  }

  // Sends a message after the previous one has been sent; the message is not needed afterwards.
  // False if the call is over or on timeout: see Finish.
  bool Write(const Request& request) {
    MutexLock lock(driver_.mutex());
    if (!AwaitWritable()) return false;
    writer_->Write(request, driver_.Begin(write_));
    return true;
  }

  // Half-closes the stream and waits for the answer; false on timeout.
  bool Finish() {
    MutexLock lock(driver_.mutex());
    if (AwaitWritable()) writer_->WritesDone(driver_.Begin(write_));
    if (!Await(start_) || !Await(write_)) return false;
    writer_->Finish(&status_, driver_.Begin(finish_));
    return Await(finish_);
  }

  // Valid when Finish returned true.
  const grpc::Status& status() const { return status_; }
  const Response& response() const { return response_; }

 private:
  bool AwaitWritable() ABSL_EXCLUSIVE_LOCKS_REQUIRED(driver_.mutex()) {
    return Await(start_) && start_.ok && Await(write_) && (write_.idle() || write_.ok);
  }
  // False if the operation has not ended in time.
  bool Await(CallOp& op) ABSL_EXCLUSIVE_LOCKS_REQUIRED(driver_.mutex()) {
    while (op.pending()) {
      if (!driver_.Step(deadline_) && deadline_.Passed()) return false;
    }
    return true;
  }

  const Deadline deadline_;
  Response response_;
  grpc::Status status_;
  Writer writer_;
  CallOp start_;
  CallOp write_;
  CallOp finish_;
};

}  // namespace pto::internal
