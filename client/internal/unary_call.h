#pragma once

#include <atomic>
#include <memory>
#include <type_traits>

#include "absl/time/time.h"
#include "client/internal/async_call.h"
#include "client/internal/deadline.h"
#include "grpcpp/support/async_unary_call.h"

namespace pto::internal {

// A unary call. For one thread at a time.
template <typename Response>
class UnaryCall final : public AsyncCall {
 public:
  using Reader = std::unique_ptr<grpc::ClientAsyncResponseReader<Response>>;
  template <typename Stub, typename Request>
  using Method = Reader (Stub::*)(grpc::ClientContext*, const Request&, grpc::CompletionQueue*);

  template <typename Stub, typename Request>
  UnaryCall(Stub& stub, Method<Stub, Request> method, const Request& request,
            const Deadline& deadline) {
    context_.set_deadline(deadline.ToGrpc());
    MutexLock lock(driver_.mutex());
    // The request is serialized here and not needed afterwards.
    reader_ = (stub.*method)(&context_, request, driver_.queue());
    reader_->StartCall();
    reader_->Finish(&response_, &status_, driver_.Begin(finish_));
  }

  // Waits for the answer; false if the deadline passed first, or if `stop` became true.
  bool Await(const Deadline& deadline, const std::atomic<bool>* stop = nullptr) {
    constexpr absl::Duration kLook = absl::Milliseconds(50);
    MutexLock lock(driver_.mutex());
    while (!finish_.done()) {
      if (stop != nullptr && stop->load()) return false;
      const Deadline until = stop == nullptr ? deadline : deadline.AtMost(kLook);
      if (!driver_.Step(until) && deadline.Passed()) return false;
    }
    return true;
  }

  // Valid when Await returned true.
  const grpc::Status& status() const { return status_; }
  Response& response() { return response_; }

 private:
  Response response_;
  grpc::Status status_;
  Reader reader_;
  CallOp finish_;
};

}  // namespace pto::internal
