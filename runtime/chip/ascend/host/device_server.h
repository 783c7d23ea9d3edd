#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
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
//
// Each launch has a stream of its own while it runs, so that it can be cancelled on its own. Those
// for which there is no stream or no memory wait here.
class DeviceServer {
 public:
  // `epoch`: of the first requests.
  DeviceServer(host::ControlBlock& control, int doorbell, absl::Span<std::byte> slots,
               uint64_t epoch);

  // The first message. `device_count`: 0 if it is not known.
  void Refuse(const absl::Status& why, uint32_t device_count);
  // Never returns.
  [[noreturn]] void Serve(std::unique_ptr<Device> device, uint32_t device_count);

 private:
  void Handle(const Request& request);
  void HandleMemory(const Request& request);
  void Cancel(const Request& request);
  void Reset(const Request& request);
  // Returns false if there is no room now.
  bool TryLaunch(const Request& request);
  // Those that wait.
  void LaunchWaiting();
  void FailWaiting();
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
  uint64_t epoch_;
  std::unique_ptr<Device> device_;
  bool told_failure_ = false;
  bool unpublished_ = false;
  uint32_t idle_ = 0;  // looks without any news
  std::vector<std::byte> bytes_;
  std::deque<Request> waiting_;
  std::map<uint64_t, uint64_t> tickets_;  // of the device, by the ids of launches
};

}  // namespace pto::ascend
