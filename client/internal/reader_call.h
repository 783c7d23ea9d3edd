#pragma once

#include <memory>
#include <utility>

#include "client/internal/async_call.h"
#include "client/internal/deadline.h"
#include "grpcpp/support/async_stream.h"

namespace pto::internal {

// A server-streaming call. Reads only on request, not ahead. For one thread at a time.
template <typename Response>
class ReaderCall final : public AsyncCall {
 public:
  using Reader = std::unique_ptr<grpc::ClientAsyncReader<Response>>;
  template <typename Stub, typename Request>
  using Method = Reader (Stub::*)(grpc::ClientContext*, const Request&, grpc::CompletionQueue*);

  // The deadline is for the whole call; each Next has its own in addition.
  template <typename Stub, typename Request>
  ReaderCall(Stub& stub, Method<Stub, Request> method, const Request& request,
             const Deadline& deadline) {
    context_.set_deadline(deadline.ToGrpc());
    MutexLock lock(driver_.mutex());
    reader_ = (stub.*method)(&context_, request, driver_.queue());
    reader_->StartCall(driver_.Begin(start_));
  }

  enum class Result { kMessage, kEnded, kTimeout };
  // Waits for the next message. A read that timed out continues, and the next call picks it up.
  Result Next(const Deadline& deadline, Response& message) {
    MutexLock lock(driver_.mutex());
    while (true) {
      if (finish_.done()) return Result::kEnded;
      if (read_.done() && read_.ok) {
        read_.state = CallOp::State::kIdle;
        message.Swap(&incoming_);
        return Result::kMessage;
      }
      if (read_.done() && finish_.idle()) reader_->Finish(&status_, driver_.Begin(finish_));
      // If the start failed, the first read fails, too, and then there is a status.
      if (start_.done() && read_.idle()) reader_->Read(&incoming_, driver_.Begin(read_));
      if (!driver_.Step(deadline) && deadline.Passed()) return Result::kTimeout;
    }
  }

  // The final status; valid after kEnded.
  const grpc::Status& status() const { return status_; }

 private:
  Response incoming_;
  grpc::Status status_;
  Reader reader_;
  CallOp start_;
  CallOp read_;
  CallOp finish_;
};

}  // namespace pto::internal
