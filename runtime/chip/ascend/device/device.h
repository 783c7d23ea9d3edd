#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "runtime/base/clock.h"
#include "runtime/chip/ascend/cann/loader.h"
#include "runtime/chip/ascend/device/acl_calls.h"
#include "runtime/chip/ascend/device/arena.h"
#include "runtime/chip/ascend/device/device_stream.h"

namespace pto::ascend {

struct DeviceOptions {
  int32_t device = 0;
  uint32_t streams = 0;                             // for kernels; 0: one for each core
  uint64_t staging_bytes = uint64_t{4} << 20;       // of each of the two buffers
  uint64_t arena_bytes = uint64_t{16} << 20;        // for what kernels are called with
  absl::Duration copy_timeout = absl::Seconds(30);  // of a chunk of a copy
  // Beyond the timeout of a launch, which the device itself watches.
  absl::Duration launch_slack = absl::Seconds(5);
  const Clock* clock = &Clock::Real();
};

// What a chip says of itself.
struct DeviceShape {
  std::string soc;
  uint32_t cube_cores = 0;
  uint32_t vector_cores = 0;
  uint64_t memory_bytes = 0;
  uint64_t free_bytes = 0;
  int64_t physical_id = -1;
  bool is_virtual = false;
};

// An address of the device's memory. No type of this code turns it into a pointer of the host.
using DeviceAddress = uint64_t;

// How to call a kernel: `payload` goes to the device, and the kernel gets its device address. The
// payload has addresses of its own parts, so it is made when those are known.
struct LaunchSpec {
  uint32_t kernel = 0;
  uint32_t blocks = 1;
  // No block starts before there are cores for all.
  bool together = false;
  absl::Duration timeout = absl::InfiniteDuration();
  uint32_t stream = 0;
  // Tickets of launches in other streams that must have ended before. A launch can be cancelled
  // only while it is alone in its stream.
  std::vector<uint64_t> after;
  // Bytes that are uploaded, and all that the kernel may use from their address on.
  uint64_t upload_bytes = 0;
  uint64_t total_bytes = 0;
  std::function<void(DeviceAddress address, std::byte* upload)> fill;
  // Which of the uploaded bytes are read back before the launch counts as ended.
  uint64_t readback_offset = 0;
  uint64_t readback_bytes = 0;
  // Gets what was read back; empty after an error.
  std::function<void(const absl::Status&, absl::Span<const std::byte> readback)> done;
};

// One chip, in the process that is its host. One thread opens it and makes all calls; none of them
// waits for the device. What was begun ends in Poll. Not thread-safe.
//
// After an error that the device does not survive everything fails with DEVICE_FAILED, and quotes
// that first error, until Reset. If even that does not work (`lost`), only the end of the process
// helps.
class Device {
 public:
  // CANN_UNUSABLE or DEVICE_FAILED with what went wrong. `count`, unless it is nullptr, becomes the
  // number of devices, also if this one cannot be used.
  static absl::StatusOr<std::unique_ptr<Device>> Open(const cann::Cann& cann,
                                                      const DeviceOptions& options,
                                                      uint32_t* count = nullptr);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const DeviceShape& shape() const { return shape_; }
  // Changes with each reset: memory and kernels of former epochs are gone.
  uint32_t epoch() const { return epoch_; }
  bool failed() const { return calls_.failed(); }
  bool lost() const { return lost_; }
  const absl::Status& first_error() const { return calls_.first_error(); }
  const cann::Functions& functions() const { return calls_.functions(); }
  AclCalls& calls() { return calls_; }

  // ---- memory. Not zeroed. CHIP_MEMORY_EXHAUSTED if there is no more.
  absl::StatusOr<DeviceAddress> Allocate(uint64_t bytes);
  // Memory that fills and copies may still use is freed behind them.
  absl::Status Free(DeviceAddress address);

  // ---- copies, through two pinned buffers that are in flight at the same time. `from` and `to`
  // must live until `done`.
  void Write(DeviceAddress to, const void* from, uint64_t bytes, Done done);
  void Read(DeviceAddress from, void* to, uint64_t bytes, Done done);
  void Fill(DeviceAddress to, uint64_t bytes, uint8_t value, Done done);
  void Copy(DeviceAddress to, DeviceAddress from, uint64_t bytes, Done done);

  // ---- kernels
  // `path` is absolute, and `entry` a __global__ function of the binary.
  absl::StatusOr<uint32_t> LoadKernel(const std::string& path, const std::string& entry);
  absl::Status UnloadKernel(uint32_t kernel);
  uint32_t streams() const { return static_cast<uint32_t>(streams_.size()) - 1; }
  // A stream for kernels in which there is nothing.
  absl::optional<uint32_t> IdleStream() const;
  // Returns a ticket for LaunchSpec::after. nullopt: the arena is full, and nothing was begun; try
  // again after Poll. `done` is called in Poll, unless this fails. It fails only as long as nothing
  // was begun: later errors, too, end in `done`, when the device does not use the arguments any
  // more.
  absl::StatusOr<absl::optional<uint64_t>> Launch(LaunchSpec spec);
  // Ends one launch and nothing else: `done` gets `why`, before this returns. NOT_AVAILABLE if it
  // is not alone in its stream, or if the release cannot abort a stream.
  absl::Status Cancel(uint64_t ticket, const absl::Status& why);

  // Ends what the device has finished. Returns how many things ended.
  size_t Poll();
  bool busy() const;

  // ---- health
  // Empty, or what is wrong; then the device has failed. Takes nothing of the device, so that it
  // can be done while kernels run.
  std::string Probe();
  // Forces a reset and probes. Ends all that is pending. Memory and kernels are gone.
  absl::Status Reset();

 private:
  struct Kernel {
    cann::AclBinary binary = nullptr;
    cann::AclFunction function = nullptr;
  };
  struct Transfer {
    bool upload = false;
    DeviceAddress device = 0;
    std::byte* host = nullptr;
    uint64_t bytes = 0;
    uint64_t begun = 0;
    uint64_t ended = 0;
    absl::Status status;
    Done done;
  };
  struct Launched {
    cann::AclEvent event = nullptr;
    uint32_t stream = 0;
  };
  struct Staging {
    std::byte* data = nullptr;
    bool busy = false;
  };

  Device(const cann::Cann& cann, const DeviceOptions& options)
      : options_(options), calls_(cann.functions), arena_(options.arena_bytes) {}

  absl::Status Start(uint32_t* count);
  absl::Status Describe();
  uint32_t WantedStreams() const;
  // Streams, staging and arena.
  absl::Status Prepare();
  void TearDown(const absl::Status& why);
  absl::Status CheckStatus();
  absl::Status ProbeCalls();

  // Begins chunks of transfers while there are free staging buffers.
  void Advance();
  void BeginChunk(const std::shared_ptr<Transfer>& transfer, Staging& staging);
  void EndChunk(const std::shared_ptr<Transfer>& transfer, uint64_t bytes,
                const absl::Status& status);
  void AddTransfer(Transfer transfer);
  // Puts `call` into the stream of copies.
  void BeginCopy(const char* what, absl::FunctionRef<cann::AclError()> call, Done done);
  absl::Status FreeNow(DeviceAddress address);
  // Puts a launch into a stream. Sets `begun` as soon as the device has something of it.
  absl::Status Enqueue(const LaunchSpec& spec, DeviceStream& stream, uint64_t offset, bool* begun);
  absl::Status EnqueueKernel(const LaunchSpec& spec, DeviceStream& stream, DeviceAddress address);
  void HandleLate(DeviceStream& stream);
  DeviceStream& copies() { return *streams_.back(); }

  const DeviceOptions options_;
  AclCalls calls_;
  DeviceShape shape_;
  uint32_t epoch_ = 0;
  bool initialised_ = false;
  bool set_ = false;
  bool lost_ = false;
  std::vector<cann::AclEvent> free_events_;
  // Those for kernels, and one for copies at the end.
  std::vector<std::unique_ptr<DeviceStream>> streams_;

  Staging staging_[2];
  std::deque<std::shared_ptr<Transfer>> transfers_;

  Arena arena_;
  DeviceAddress arena_address_ = 0;
  std::byte* arena_mirror_ = nullptr;  // pinned

  std::map<uint32_t, Kernel> kernels_;
  uint32_t last_kernel_ = 0;
  uint64_t last_ticket_ = 0;
  std::map<uint64_t, Launched> tickets_;  // of launches that have not ended
};

}  // namespace pto::ascend
