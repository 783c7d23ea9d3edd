#pragma once

#include <memory>

#include "absl/status/status.h"
#include "absl/types/optional.h"
#include "client/internal/call_driver.h"
#include "client/internal/deadline.h"
#include "grpcpp/client_context.h"
#include "grpcpp/support/async_stream.h"
#include "pto/v1/event.grpc.pb.h"

namespace pto::internal {

// One WatchEvents call. Reads when it is asked to and not ahead. For one thread at a time.
class EventCall {
 public:
  EventCall(v1::EventService::Stub& stub, const v1::WatchEventsRequest& request);
  // Cancels the call; does not wait for the daemon.
  ~EventCall();

  enum class Result { kBatch, kEnded, kTimeout };
  // Waits for the next batch. A read that timed out goes on, and the next call takes it up.
  Result Next(const Deadline& deadline, v1::EventBatch& batch);

  // How the call ended; valid after kEnded.
  const grpc::Status& status() const { return status_; }

 private:
  CallDriver driver_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientAsyncReader<v1::EventBatch>> reader_;
  CallOp start_;
  CallOp read_;
  CallOp finish_;
  v1::EventBatch incoming_;
  grpc::Status status_;
};

}  // namespace pto::internal
