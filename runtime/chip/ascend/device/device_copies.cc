// The copies of a Device.

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/error.h"
#include "runtime/chip/ascend/device/device.h"

namespace pto::ascend {
namespace {

void* Pointer(DeviceAddress address) { return reinterpret_cast<void*>(address); }  // NOLINT

}  // namespace

void Device::Write(DeviceAddress to, const void* from, uint64_t bytes, Done done) {
  Transfer transfer;
  transfer.upload = true;
  transfer.device = to;
  transfer.host = static_cast<std::byte*>(const_cast<void*>(from));
  transfer.bytes = bytes;
  transfer.done = std::move(done);
  AddTransfer(std::move(transfer));
}

void Device::Read(DeviceAddress from, void* to, uint64_t bytes, Done done) {
  Transfer transfer;
  transfer.device = from;
  transfer.host = static_cast<std::byte*>(to);
  transfer.bytes = bytes;
  transfer.done = std::move(done);
  AddTransfer(std::move(transfer));
}

void Device::AddTransfer(Transfer transfer) {
  if (failed()) return transfer.done(calls_.Refuse(transfer.upload ? "an upload" : "a download"));
  if (transfer.bytes == 0) return transfer.done(absl::OkStatus());
  transfers_.push_back(std::make_shared<Transfer>(std::move(transfer)));
  Advance();
}

void Device::Advance() {
  while (!transfers_.empty()) {
    const std::shared_ptr<Transfer> transfer = transfers_.front();
    if (transfer->begun == transfer->bytes || !transfer->status.ok()) {
      // Its chunks keep it until the last has ended.
      transfers_.pop_front();
      if (transfer->begun == transfer->ended && !transfer->status.ok()) {
        transfer->done(transfer->status);
      }
      continue;
    }
    auto* const free = std::find_if(std::begin(staging_), std::end(staging_),
                                    [](const Staging& staging) { return !staging.busy; });
    if (free == std::end(staging_)) return;
    BeginChunk(transfer, *free);
  }
}

void Device::BeginChunk(const std::shared_ptr<Transfer>& transfer, Staging& staging) {
  const uint64_t at = transfer->begun;
  const uint64_t bytes = std::min(options_.staging_bytes, transfer->bytes - at);
  if (transfer->upload) std::memcpy(staging.data, transfer->host + at, bytes);
  transfer->begun += bytes;
  staging.busy = true;
  void* const device = Pointer(transfer->device + at);
  const auto call = [&] {
    return transfer->upload ? calls_->aclrtMemcpyAsync(device, bytes, staging.data, bytes,
                                                       cann::kHostToDevice, copies().handle())
                            : calls_->aclrtMemcpyAsync(staging.data, bytes, device, bytes,
                                                       cann::kDeviceToHost, copies().handle());
  };
  BeginCopy(transfer->upload ? "an upload" : "a download", call,
            [this, transfer, &staging, at, bytes](const absl::Status& ended) {
              // After a failure the device may still use it; a reset takes it back.
              staging.busy = failed();
              if (ended.ok() && !transfer->upload) {
                std::memcpy(transfer->host + at, staging.data, bytes);
              }
              EndChunk(transfer, bytes, ended);
            });
}

void Device::BeginCopy(const char* what, absl::FunctionRef<cann::AclError()> call, Done done) {
  absl::Status status = copies().Reserve();
  if (status.ok()) status = calls_.Check(call(), what);
  if (!status.ok()) return done(status);
  const auto shared = std::make_shared<Done>(std::move(done));
  status = copies()
               .Track(what, absl::ToInt64Nanoseconds(options_.copy_timeout),
                      [shared](const absl::Status& ended) { (*shared)(ended); })
               .status();
  if (!status.ok()) (*shared)(status);
}

void Device::EndChunk(const std::shared_ptr<Transfer>& transfer, uint64_t bytes,
                      const absl::Status& status) {
  transfer->ended += bytes;
  transfer->status.Update(status);
  const bool all_begun = transfer->begun == transfer->bytes || !transfer->status.ok();
  if (transfer->ended != transfer->begun || !all_begun) return;
  if (!transfers_.empty() && transfers_.front() == transfer) transfers_.pop_front();
  transfer->done(transfer->status);
}

void Device::Fill(DeviceAddress to, uint64_t bytes, uint8_t value, Done done) {
  if (failed()) return done(calls_.Refuse("a fill"));
  if (bytes == 0) return done(absl::OkStatus());
  BeginCopy(
      "a fill",
      [&] { return calls_->aclrtMemsetAsync(Pointer(to), bytes, value, bytes, copies().handle()); },
      std::move(done));
}

void Device::Copy(DeviceAddress to, DeviceAddress from, uint64_t bytes, Done done) {
  if (failed()) return done(calls_.Refuse("a copy"));
  if (bytes == 0) return done(absl::OkStatus());
  BeginCopy(
      "a copy",
      [&] {
        return calls_->aclrtMemcpyAsync(Pointer(to), bytes, Pointer(from), bytes,
                                        cann::kDeviceToDevice, copies().handle());
      },
      std::move(done));
}

}  // namespace pto::ascend
