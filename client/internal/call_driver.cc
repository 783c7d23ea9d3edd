#include "client/internal/call_driver.h"

#include <algorithm>

namespace pto::internal {

CallDriver::~CallDriver() {
  queue_.Shutdown();
  void* tag = nullptr;
  bool ok = false;
  while (queue_.Next(&tag, &ok)) {
  }
}

void* CallDriver::Begin(CallOp& op) {
  op.state = CallOp::State::kPending;
  ++pending_;
  return &op;
}

bool CallDriver::Step(const Deadline& deadline) {
  if (polling_) {
    const uint64_t seen = steps_;
    while (polling_ && steps_ == seen) {
      // Bounded, because a condition variable cannot wait forever with a timeout.
      const absl::Duration wait = std::min(deadline.Remaining(), absl::Hours(1));
      stepped_.WaitFor(mutex_, absl::ToChronoNanoseconds(wait));
      if (polling_ && steps_ == seen && deadline.Passed()) return false;
    }
    // Without an event, the poller's own deadline has passed; the caller returns here and polls
    // itself.
    return true;
  }
  polling_ = true;
  mutex_.Unlock();
  void* tag = nullptr;
  bool ok = false;
  const grpc::CompletionQueue::NextStatus next = queue_.AsyncNext(&tag, &ok, deadline.ToGrpc());
  mutex_.Lock();
  polling_ = false;
  const bool stepped = next == grpc::CompletionQueue::GOT_EVENT;
  if (stepped) {
    CallOp& op = *static_cast<CallOp*>(tag);
    op.state = CallOp::State::kDone;
    op.ok = ok;
    --pending_;
    ++steps_;
  }
  stepped_.NotifyAll();
  return stepped;
}

bool CallDriver::Drain(const Deadline& deadline) {
  while (pending_ > 0) {
    if (!Step(deadline) && deadline.Passed()) return false;
  }
  return true;
}

}  // namespace pto::internal
