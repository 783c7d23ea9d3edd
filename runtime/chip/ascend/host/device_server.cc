#include "runtime/chip/ascend/host/device_server.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "runtime/base/error.h"
#include "runtime/base/pause.h"
#include "runtime/chip/ascend/device/payload.h"
#include "runtime/host/futex.h"

namespace pto::ascend {
namespace {

constexpr int kBatch = 64;
// Looks without news before the thread lets others run, and before it rests between looks. The
// device tells nobody when it has finished, so it is asked; the longer it takes, the less often.
constexpr uint32_t kSpins = 200;
constexpr uint32_t kYields = 400;
constexpr std::chrono::microseconds kRest(50);

[[noreturn]] void GiveUp(const std::string& what) {
  const std::string line = absl::StrCat("chip host: ", what, "\n");
  (void)!write(STDERR_FILENO, line.data(), line.size());
  _exit(3);
}

}  // namespace

DeviceServer::DeviceServer(host::ControlBlock& control, int doorbell, absl::Span<std::byte> slots,
                           uint64_t epoch)
    : reader_(control.to_host_ring()),
      writer_(control.to_daemon_ring()),
      doorbell_(doorbell),
      slots_(slots),
      epoch_(epoch) {}

void DeviceServer::Send(const Reply& reply) {
  bytes_.clear();
  Encode(reply, &bytes_);
  while (true) {
    const absl::StatusOr<bool> written = writer_.Write(bytes_);
    if (!written.ok()) GiveUp(std::string(written.status().message()));
    if (*written) break;
    // The daemon reads all replies, so this waits only for a moment.
    Publish();
    std::this_thread::sleep_for(kRest);
  }
  unpublished_ = true;
}

void DeviceServer::Publish() {
  if (!unpublished_) return;
  unpublished_ = false;
  if (writer_.Publish() == 0) return;
  const uint64_t one = 1;
  (void)!write(doorbell_, &one, sizeof one);
}

void DeviceServer::Refuse(const absl::Status& why, uint32_t device_count) {
  Reply reply;
  reply.device_count = device_count;
  reply.kind = Reply::kRefused;
  reply.status = why;
  Send(reply);
  Publish();
}

void DeviceServer::Finish(uint64_t id, const absl::Status& status, uint64_t value) {
  Reply reply;
  reply.id = id;
  reply.status = status;
  reply.value = value;
  Send(reply);
}

void DeviceServer::Serve(std::unique_ptr<Device> device, uint32_t device_count) {
  device_ = std::move(device);
  Reply ready;
  ready.kind = Reply::kReady;
  ready.device_count = device_count;
  ready.cube_cores = device_->shape().cube_cores;
  ready.vector_cores = device_->shape().vector_cores;
  ready.memory_bytes = device_->shape().free_bytes;
  ready.text = device_->shape().soc;
  Send(ready);
  Publish();
  std::vector<std::byte> message;
  while (true) {
    size_t news = 0;
    for (int i = 0; i < kBatch; ++i) {
      const absl::StatusOr<bool> read = reader_.Read(&message);
      if (!read.ok()) GiveUp(std::string(read.status().message()));
      if (!*read) break;
      const absl::StatusOr<Request> request = ParseRequest(message);
      if (!request.ok()) GiveUp(std::string(request.status().message()));
      Handle(*request);
      ++news;
    }
    if (device_->busy()) news += device_->Poll();
    if (news > 0) LaunchWaiting();
    TellFailure();
    Publish();
    if (news > 0) {
      idle_ = 0;
      continue;
    }
    Sleep();
  }
}

void DeviceServer::Sleep() {
  ++idle_;
  if (idle_ < kSpins) return Pause();
  if (idle_ < kYields) return std::this_thread::yield();
  if (device_->busy() || !waiting_.empty()) return std::this_thread::sleep_for(kRest);
  const uint32_t ticket = reader_.word().load(std::memory_order_seq_cst);
  if (reader_.BeginOnlySleep()) host::FutexWait(reader_.word(), ticket);
  reader_.EndOnlySleep();
  idle_ = 0;
}

void DeviceServer::TellFailure() {
  if (!device_->failed()) {
    told_failure_ = false;
    return;
  }
  if (device_->lost()) {
    // Only a new process helps.
    Reply reply;
    reply.kind = Reply::kFailed;
    reply.status = device_->first_error();
    Send(reply);
    Publish();
    GiveUp(absl::StrCat("the device is lost: ", std::string(device_->first_error().message())));
  }
  if (told_failure_) return;
  told_failure_ = true;
  // Everything that was pending fails before the daemon hears why.
  device_->Poll();
  FailWaiting();
  Reply reply;
  reply.kind = Reply::kFailed;
  reply.status = device_->first_error();
  Send(reply);
}

void DeviceServer::FailWaiting() {
  for (const Request& request : std::exchange(waiting_, {})) {
    Finish(request.id, device_->failed()
                           ? device_->calls().Refuse("a launch")
                           : Error(reason::kDeviceFailed, "the chip was reset before it started"));
  }
}

void DeviceServer::Handle(const Request& request) {
  const bool any_epoch = request.kind == Request::kReset || request.kind == Request::kStop;
  if (!any_epoch && request.epoch != epoch_) {
    return Finish(request.id, Error(reason::kDeviceFailed,
                                    "the chip was reset, and what was there before is gone"));
  }
  switch (request.kind) {
    case Request::kLoadKernel: {
      const size_t line = request.text.find('\n');
      const absl::StatusOr<uint32_t> kernel =
          device_->LoadKernel(request.text.substr(0, line),
                              line == std::string::npos ? "" : request.text.substr(line + 1));
      return Finish(request.id, kernel.status(), kernel.ok() ? *kernel : 0);
    }
    case Request::kUnloadKernel:
      return Finish(request.id, device_->UnloadKernel(request.kernel));
    case Request::kLaunch:
      // In order: others may wait already.
      if (!waiting_.empty() || !TryLaunch(request)) waiting_.push_back(request);
      return;
    case Request::kCancel:
      return Cancel(request);
    case Request::kStop:
      // In order, so that the driver has nothing to clean up.
      device_.reset();
      _exit(0);
    case Request::kProbe: {
      const std::string what = device_->Probe();
      return Finish(request.id, what.empty() ? absl::OkStatus()
                                             : absl::Status(Error(reason::kDeviceFailed, what)));
    }
    case Request::kReset:
      return Reset(request);
    default:
      return HandleMemory(request);
  }
}

void DeviceServer::Reset(const Request& request) {
  FailWaiting();
  const absl::Status reset = device_->Reset();
  epoch_ = request.epoch;
  told_failure_ = false;
  Finish(request.id, reset);
}

void DeviceServer::Cancel(const Request& request) {
  const absl::Status why = Error(reason::kRunCancelled, "it was cancelled");
  const auto waits = std::find_if(waiting_.begin(), waiting_.end(),
                                  [&](const Request& each) { return each.id == request.target; });
  if (waits != waiting_.end()) {
    waiting_.erase(waits);
    Finish(request.target, why);
    return Finish(request.id, absl::OkStatus());
  }
  const auto found = tickets_.find(request.target);
  // It may have ended.
  Finish(request.id,
         found == tickets_.end() ? absl::OkStatus() : device_->Cancel(found->second, why));
}

void DeviceServer::HandleMemory(const Request& request) {
  const auto done = [this, id = request.id](const absl::Status& status) { Finish(id, status); };
  std::byte* const slot = slots_.data() + request.slot % kSlots * kSlotBytes;
  switch (request.kind) {
    case Request::kAllocate: {
      const absl::StatusOr<DeviceAddress> address = device_->Allocate(request.bytes);
      if (!address.ok()) return Finish(request.id, address.status());
      // Memory of this project begins as zeros; the device's does not.
      return device_->Fill(*address, request.bytes, 0,
                           [this, id = request.id, address = *address](const absl::Status& status) {
                             if (!status.ok() && !device_->failed()) (void)device_->Free(address);
                             Finish(id, status, address);
                           });
    }
    case Request::kFree:
      return Finish(request.id, device_->Free(request.address));
    case Request::kWrite:
      return device_->Write(request.address, slot, request.bytes, done);
    case Request::kRead:
      return device_->Read(request.address, slot, request.bytes, done);
    case Request::kFill:
      return device_->Fill(request.address, request.bytes, static_cast<uint8_t>(request.slot),
                           done);
    case Request::kCopy:
      return device_->Copy(request.address, request.from, request.bytes, done);
    default:
      return Finish(request.id, Error(reason::kNotAvailable, "no such request"));
  }
}

absl::Status DeviceServer::Judge(absl::Span<const std::byte> headers, uint32_t blocks) {
  BlockHeader header;
  const uint32_t block = FindEvent(headers, blocks, &header);
  if (block == blocks) return absl::OkStatus();
  if (header.error != 0) {
    return Error(reason::kKernelFailed,
                 absl::StrCat("block ", block, " reported the error ", header.error));
  }
  return Error(reason::kNotAvailable,
               absl::StrCat("block ", block, " has registered ", header.conditions,
                            " conditions: deferred completion is not supported on a chip yet"));
}

void DeviceServer::LaunchWaiting() {
  while (!waiting_.empty() && TryLaunch(waiting_.front())) waiting_.pop_front();
}

bool DeviceServer::TryLaunch(const Request& request) {
  const absl::optional<uint32_t> stream = device_->IdleStream();
  if (!stream.has_value()) return false;
  const PayloadLayout layout = PayloadLayout::Of(request.tensors.size(), request.blocks);
  LaunchSpec spec;
  spec.kernel = request.kernel;
  spec.blocks = request.blocks;
  spec.together = request.together != 0;
  if (request.timeout_ns > 0) spec.timeout = absl::Nanoseconds(request.timeout_ns);
  spec.stream = *stream;
  spec.upload_bytes = layout.upload_bytes;
  spec.total_bytes = layout.total_bytes;
  spec.fill = [&](DeviceAddress address, std::byte* upload) {
    FillPayload({request.tensors, request.scalars, request.blocks, request.first_block,
                 request.block_count},
                layout, address, upload);
  };
  spec.readback_offset = layout.headers_offset;
  spec.readback_bytes = layout.headers_bytes;
  spec.done = [this, id = request.id, blocks = request.blocks](
                  const absl::Status& status, absl::Span<const std::byte> headers) {
    tickets_.erase(id);
    Finish(id, status.ok() ? Judge(headers, blocks) : status);
  };
  const absl::StatusOr<absl::optional<uint64_t>> ticket = device_->Launch(std::move(spec));
  if (!ticket.ok()) {
    Finish(request.id, ticket.status());
    return true;
  }
  if (!ticket->has_value()) return false;
  tickets_[request.id] = **ticket;
  return true;
}

}  // namespace pto::ascend
