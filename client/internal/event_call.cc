#include "client/internal/event_call.h"

#include <utility>

namespace pto::internal {

EventCall::EventCall(v1::EventService::Stub& stub, const v1::WatchEventsRequest& request) {
  MutexLock lock(driver_.mutex());
  reader_ = stub.PrepareAsyncWatchEvents(&context_, request, driver_.queue());
  reader_->StartCall(driver_.Begin(start_));
}

EventCall::~EventCall() {
  context_.TryCancel();
  MutexLock lock(driver_.mutex());
  driver_.Drain();
}

EventCall::Result EventCall::Next(const Deadline& deadline, v1::EventBatch& batch) {
  MutexLock lock(driver_.mutex());
  while (true) {
    if (finish_.done()) return Result::kEnded;
    if (read_.done() && read_.ok) {
      read_.state = CallOp::State::kIdle;
      batch = std::move(incoming_);
      return Result::kBatch;
    }
    if (read_.done() && finish_.idle()) reader_->Finish(&status_, driver_.Begin(finish_));
    // When the start failed, so does the first read, and then there is a status.
    if (start_.done() && read_.idle()) reader_->Read(&incoming_, driver_.Begin(read_));
    if (!driver_.Step(deadline) && deadline.Passed()) return Result::kTimeout;
  }
}

}  // namespace pto::internal
