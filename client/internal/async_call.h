#pragma once

#include "client/internal/call_driver.h"
#include "client/internal/deadline.h"
#include "grpcpp/client_context.h"

namespace pto::internal {

// One asynchronous call of any kind. Its data must live until gRPC is done with it, so calls are
// allocated on the heap and given to Connection::Release instead of being destroyed.
//
// Why not synchronous calls: a deadline does not end them if the connection itself is stuck, for
// example if the daemon is stopped and the socket is full. gRPC then keeps the call's operations
// until the socket accepts their bytes, and the thread waits with them.
class AsyncCall {
 public:
  AsyncCall() = default;
  virtual ~AsyncCall() = default;
  AsyncCall(const AsyncCall&) = delete;
  AsyncCall& operator=(const AsyncCall&) = delete;

  void Cancel() { context_.TryCancel(); }

  // Waits until gRPC is done with the call; false if the deadline passed first.
  bool Drain(const Deadline& deadline) {
    MutexLock lock(driver_.mutex());
    return driver_.Drain(deadline);
  }

 protected:
  CallDriver driver_;
  grpc::ClientContext context_;
};

}  // namespace pto::internal
