#include "daemon/rpc/stream_call.h"

#include <chrono>

#include "daemon/rpc/stream.h"
#include "proto/status/grpc_status.h"
#include "runtime/base/log.h"

namespace pto::daemon::rpc::internal {

StreamCall::StreamCall(Method& method) : alive_(method.live()), method_(method) {
  context_.AsyncNotifyWhenDone(static_cast<Tag*>(&whole_tag_));
}

bool StreamCall::gone() const {
  const bool over = (state_.load(std::memory_order_acquire) & kWhole << kArrivedShift) != 0;
  return (over && context_.IsCancelled()) || std::chrono::system_clock::now() > context_.deadline();
}

void* StreamCall::Begin(Operation operation) {
  const uint32_t bits = operation == kFinish ? kFinish | kFinishCalled : operation;
  const uint32_t before = state_.fetch_or(bits, std::memory_order_acq_rel);
  PTO_CHECK((before & operation) == 0, "the operation before has not come back");
  PTO_CHECK((before & kFinishCalled) == 0, "nothing may be started after Finish");
  OperationTag& tag = operation == kRead    ? read_tag_
                      : operation == kWrite ? write_tag_
                                            : finish_tag_;
  return static_cast<Tag*>(&tag);
}

void* StreamCall::BeginLastWrite() {
  PTO_CHECK((state_.load(std::memory_order_acquire) & kWrite) == 0,
            "the write before has not come back");
  return Begin(kFinish);
}

grpc::WriteOptions StreamCall::WriteOptions(bool may_wait) {
  grpc::WriteOptions options;
  // The first message travels with the headers, and gRPC reports such a write only when the
  // headers are on the wire: with the hint that would be never, since the next message waits
  // for the report.
  if (may_wait && wrote_) options.set_buffer_hint();
  wrote_ = true;
  return options;
}

grpc::Status StreamCall::NoteEnd(const absl::Status& status) {
  const FailAction chaos =
      refused_ != FailAction::kNone ? refused_ : method_.Chaos(ChaosPlace::kAfter);
  const grpc::Status end = chaos == FailAction::kNone ? ToGrpcStatus(status) : ChaosStatus(chaos);
  method_.Ended(chaos == FailAction::kNone ? status : FromGrpcStatus(end), began_);
  return end;
}

void StreamCall::Proceed(bool ok) {
  if (!ok) {
    // The server stops before a client called. gRPC then never returns the other tag.
    delete this;
    return;
  }
  Method& method = method_;
  const Alive until_armed(method.live());
  began_ = method.Now();
  refused_ = method.Chaos(ChaosPlace::kBefore);
  reactor_ = MakeReactor(refused_ != FailAction::kNone);
  reactor_->OnStart();
  Run();
  method.Arm();
}

void StreamCall::Arrive(uint32_t operation, bool ok) {
  const uint32_t bits = operation << kArrivedShift | (ok ? operation << kOkShift : 0);
  if ((state_.fetch_or(bits | kRunning, std::memory_order_acq_rel) & kRunning) == 0) Run();
}

void StreamCall::Run() {
  uint32_t state = state_.load(std::memory_order_acquire);
  while (true) {
    const uint32_t arrived = state >> kArrivedShift & kOperations;
    if (arrived != 0) {
      const uint32_t ok = state >> kOkShift & arrived;
      // Free the operations before the callbacks, which may start them again.
      state_.fetch_and(~(arrived | arrived << kArrivedShift | arrived << kOkShift),
                       std::memory_order_acq_rel);
      Deliver(arrived, ok);
      state = state_.load(std::memory_order_acquire);
    } else if ((state & kFinishCalled) != 0 && (state & kOperations) == 0) {
      reactor_->OnDone();
      delete this;
      return;
    } else if (state_.compare_exchange_weak(state, state & ~kRunning, std::memory_order_acq_rel)) {
      return;
    }
  }
}

void StreamCall::Deliver(uint32_t arrived, uint32_t ok) {
  if ((ok & (kRead | kWrite)) != 0 && method_.Chaos(ChaosPlace::kDuring) != FailAction::kNone) {
    context_.TryCancel();
  }
  if ((arrived & kRead) != 0) reactor_->OnReadDone((ok & kRead) != 0);
  if ((arrived & kWrite) != 0) reactor_->OnWriteDone((ok & kWrite) != 0);
  if ((arrived & kWhole) != 0 && context_.IsCancelled() &&
      (state_.load(std::memory_order_acquire) & kFinishCalled) == 0) {
    reactor_->OnCancel();
  }
}

}  // namespace pto::daemon::rpc::internal
