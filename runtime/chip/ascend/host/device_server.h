#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "runtime/chip/ascend/device/device.h"
#include "runtime/chip/ascend/wire.h"
#include "runtime/host/control_block.h"
#include "runtime/host/ring.h"

namespace pto::ascend {

// In the chip host: takes requests from the ring, gives them to the device, and sends the replies.
// For one thread, which owns the device. Ends the process if the ring is broken.
class DeviceServer {
 public:
  DeviceServer(host::ControlBlock& control, int doorbell, absl::Span<std::byte> slots);

  // The first message.
  void Refuse(const absl::Status& why);
  // Never returns.
  [[noreturn]] void Serve(std::unique_ptr<Device> device, uint32_t device_count);

 private:
  void Handle(const Request& request);
  void HandleMemory(const Request& request);
  void HandleLaunch(const Request& request);
  // What a kernel has said through its headers.
  static absl::Status Judge(absl::Span<const std::byte> headers, uint32_t blocks);

  void Send(const Reply& reply);
  void Finish(uint64_t id, const absl::Status& status, uint64_t value = 0);
  // Shows what was sent to the daemon.
  void Publish();
  void TellFailure();
  void Sleep();

  host::RingReader reader_;
  host::RingWriter writer_;
  const int doorbell_;
  const absl::Span<std::byte> slots_;
  std::unique_ptr<Device> device_;
  bool told_failure_ = false;
  bool unpublished_ = false;
  uint32_t idle_ = 0;  // looks without any news
  std::vector<std::byte> bytes_;
  // Launches for which the arena had no room.
  std::deque<Request> waiting_;
};

}  // namespace pto::ascend
