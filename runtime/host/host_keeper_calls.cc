// Calls of kernels in a host: what they ask the engine for. And threads of the engine that look for
// reports.

#include <cstring>
#include <utility>

#include "runtime/host/host_keeper.h"

namespace pto::host {
namespace {

using engine::LaneCall;

// A thread that polls takes all that comes: the host need not wake anybody.
constexpr uint32_t kPollWeight = 1 << 16;

static_assert(CallMessage::kWait == static_cast<uint32_t>(LaneCall::Kind::kWait));
static_assert(CallMessage::kNotify == static_cast<uint32_t>(LaneCall::Kind::kNotify));
static_assert(CallMessage::kBarrier == static_cast<uint32_t>(LaneCall::Kind::kBarrier));
static_assert(CallMessage::kCopy == static_cast<uint32_t>(LaneCall::Kind::kCopy));
static_assert(CallMessage::kWaitCopy == static_cast<uint32_t>(LaneCall::Kind::kWaitCopy));
static_assert(CallMessage::kDefer == static_cast<uint32_t>(LaneCall::Kind::kDefer));
static_assert(CallMessage::kDeferCopy == static_cast<uint32_t>(LaneCall::Kind::kDeferCopy));

// Where the view is in this process. What it is, the engine checks.
pto_tensor ViewOf(const RegionMap& regions, const TensorMessage& message) {
  pto_tensor tensor = {};
  tensor.data = regions.ByteAt(message.region, message.offset);
  tensor.dtype = message.dtype;
  tensor.ndim = message.ndim;
  std::memcpy(tensor.shape, message.shape, sizeof tensor.shape);
  std::memcpy(tensor.strides, message.strides, sizeof tensor.strides);
  return tensor;
}

// In place of a word that is not there: not aligned, so the engine refuses it. Without an address a
// copy would be one that notifies nobody.
void* NoSignal() {
  alignas(8) static char word[2];
  return word + 1;
}

}  // namespace

absl::optional<LaneCall> HostKeeper::BeginCall(const Report& report, Slot& slot, Cause* cause) {
  if (slot.in_call) {
    cause->text = "it made a call in the middle of another one";
    cause->slot = report.slot;
    return {};
  }
  const CallMessage& message = *report.call;
  slot.in_call = true;
  slot.call = message.number;
  LaneCall call;
  call.id = report.id;
  call.token = report.slot;
  call.kind = static_cast<LaneCall::Kind>(message.kind);
  if (message.signal_region != TensorMessage::kNoRegion) {
    call.signal.address = regions_.ByteAt(message.signal_region, message.signal_offset);
    if (call.signal.address == nullptr) call.signal.address = NoSignal();
  }
  call.signal.dtype = message.signal_dtype;
  call.how = message.how;
  call.value = message.value;
  call.timeout_ns = message.timeout_ns;
  call.event = message.event;
  if (!report.tensors.empty()) {
    call.to = ViewOf(regions_, report.tensors[0]);
    call.from = ViewOf(regions_, report.tensors[1]);
  }
  return call;
}

bool HostKeeper::BeginPoll() {
  if (polling_.exchange(true, std::memory_order_acquire)) return false;
  if (reading_.TryLock()) {
    const bool has_host = reader_.has_value();
    if (has_host) reader_->BeginSpin(kPollWeight);
    polled_number_ = reader_number_;
    reading_.Unlock();
    if (has_host) return true;
  }
  polling_.store(false, std::memory_order_release);
  return false;
}

void HostKeeper::Poll() {
  if (!reading_.TryLock()) return;
  Cause cause;
  const bool handled =
      reader_.has_value() && reader_->has_more() && HandleReportsLocked(&cause) > 0;
  const bool broken = !cause.text.empty();
  if (broken) {
    // As long as the reader is locked, the process is the one that is the cause.
    MutexLock lock(mutex_);
    if (give_up_.text.empty()) give_up_ = std::move(cause);
  }
  reading_.Unlock();
  if (!broken && !handled) return;
  MutexLock lock(mutex_);
  // The thread sends what there is room for now.
  if (!give_up_.text.empty() || !backlog_.empty()) Wake();
}

void HostKeeper::EndPoll() {
  {
    MutexLock lock(reading_);
    if (reader_.has_value() && polled_number_ == reader_number_) {
      reader_->EndSpin(kPollWeight);
      // The host has woken nobody for it.
      if (reader_->has_more()) Wake();
    }
  }
  polling_.store(false, std::memory_order_release);
}

}  // namespace pto::host
