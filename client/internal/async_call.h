#pragma once

#include "client/internal/call_driver.h"
#include "client/internal/deadline.h"
#include "grpcpp/client_context.h"

namespace pto::internal {

// One asynchronous call, whatever its kind: what it owns must stay until gRPC is done with it.
// So calls live on the heap, and are given to Connection::Release instead of being destroyed.
//
// Why not gRPC's synchronous calls: a deadline does not end those when the connection itself is
// stuck, as it is when the daemon is stopped and the socket is full. gRPC then keeps the call's
// operations until the socket takes their bytes, and the thread waits with them.
class AsyncCall {
 public:
  AsyncCall() = default;
  virtual ~AsyncCall() = default;
  AsyncCall(const AsyncCall&) = delete;
  AsyncCall& operator=(const AsyncCall&) = delete;

  void Cancel() { context_.TryCancel(); }

  // Waits until gRPC is done with the call; false when the deadline passed first.
  bool Drain(const Deadline& deadline) {
    MutexLock lock(driver_.mutex());
    return driver_.Drain(deadline);
  }

 protected:
  CallDriver driver_;
  grpc::ClientContext context_;
};

}  // namespace pto::internal
