#include "runtime/chip/ascend/device/device.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/error.h"
#include "runtime/base/status_macros.h"

namespace pto::ascend {
namespace {

// If the chip does not say how many cores it has, and at most.
constexpr uint32_t kUsualStreams = 72;
constexpr uint32_t kMostStreams = 128;

void* Pointer(DeviceAddress address) { return reinterpret_cast<void*>(address); }  // NOLINT

}  // namespace

absl::StatusOr<std::unique_ptr<Device>> Device::Open(const cann::Cann& cann,
                                                     const DeviceOptions& options,
                                                     uint32_t* count) {
  std::unique_ptr<Device> device(new Device(cann, options));
  uint32_t unwanted = 0;
  PTO_RETURN_IF_ERROR(device->Start(count == nullptr ? &unwanted : count));
  return device;
}

Device::~Device() {
  TearDown(Error(reason::kDeviceFailed, "the chip is being closed"));
  if (set_) (void)calls_->aclrtResetDeviceForce(options_.device);
  if (initialised_) (void)calls_->aclFinalize();
}

absl::Status Device::Start(uint32_t* count) {
  // A call that fails may be the first to tell that a kernel has: its stream says how.
  calls_.SetCauseFinder([this] {
    for (const auto& stream : streams_) {
      if (absl::Status error = stream->FindError(); !error.ok()) return error;
    }
    return absl::OkStatus();
  });
  const cann::AclError initialised = calls_->aclInit(nullptr);
  if (initialised != cann::kAclRepeatInit) {
    PTO_RETURN_IF_ERROR(calls_.Check(initialised, "initialising AscendCL"));
  }
  initialised_ = true;
  PTO_RETURN_IF_ERROR(calls_.Check(calls_->aclrtGetDeviceCount(count), "counting the devices"));
  if (static_cast<uint32_t>(options_.device) >= *count) {
    return Error(reason::kCannUnusable,
                 absl::StrCat("there is no device ", options_.device, ": the driver has ", *count));
  }
  PTO_RETURN_IF_ERROR(calls_.Check(calls_->aclrtSetDevice(options_.device), "using the device"));
  set_ = true;
  PTO_RETURN_IF_ERROR(Describe());
  PTO_RETURN_IF_ERROR(ProbeCalls());
  return Prepare();
}

absl::Status Device::Describe() {
  const char* const soc = calls_->aclrtGetSocName();
  shape_.soc = soc == nullptr ? "" : soc;
  size_t free = 0;
  size_t total = 0;
  PTO_RETURN_IF_ERROR(
      calls_.Check(calls_->aclrtGetMemInfo(cann::kHbm, &free, &total), "asking for its memory"));
  shape_.memory_bytes = total;
  shape_.free_bytes = free;
  if (calls_->aclrtGetDeviceInfo == nullptr) return absl::OkStatus();
  const auto ask = [this](cann::AclDeviceAttr attr, auto* value) {
    int64_t number = 0;
    // A release that does not know an attribute says so, and nothing depends on it.
    if (calls_->aclrtGetDeviceInfo(static_cast<uint32_t>(options_.device), attr, &number) ==
        cann::kAclOk) {
      *value = static_cast<std::remove_reference_t<decltype(*value)>>(number);
    }
  };
  ask(cann::kCubeCores, &shape_.cube_cores);
  ask(cann::kVectorCores, &shape_.vector_cores);
  ask(cann::kPhysicalChip, &shape_.physical_id);
  ask(cann::kIsVirtual, &shape_.is_virtual);
  return absl::OkStatus();
}

uint32_t Device::WantedStreams() const {
  if (options_.streams > 0) return options_.streams;
  // As many kernels as can run: none waits behind another, so each can be ended on its own.
  const uint32_t cores = shape_.cube_cores + shape_.vector_cores;
  return std::min(cores == 0 ? kUsualStreams : cores, kMostStreams);
}

absl::Status Device::CheckStatus() {
  int32_t status = cann::kDeviceNormal;
  PTO_RETURN_IF_ERROR(calls_.Check(calls_->aclrtQueryDeviceStatus(options_.device, &status),
                                   "asking for its status"));
  if (status == cann::kDeviceNormal) return absl::OkStatus();
  return Error(reason::kDeviceFailed,
               absl::StrCat("device ", options_.device, " says that it is abnormal"));
}

absl::Status Device::ProbeCalls() {
  PTO_RETURN_IF_ERROR(CheckStatus());
  cann::AclStream stream = nullptr;
  PTO_RETURN_IF_ERROR(calls_.Check(calls_->aclrtCreateStream(&stream), "creating a stream"));
  const absl::Status destroyed =
      calls_.Check(calls_->aclrtDestroyStream(stream), "destroying a stream");
  void* memory = nullptr;
  PTO_RETURN_IF_ERROR(
      calls_.Check(calls_->aclrtMalloc(&memory, 64, cann::kHugeFirst), "allocating 64 bytes"));
  PTO_RETURN_IF_ERROR(calls_.Check(calls_->aclrtFree(memory), "freeing 64 bytes"));
  return destroyed;
}

absl::Status Device::Prepare() {
  const uint32_t streams = WantedStreams() + 1;
  for (uint32_t i = 0; i < streams; ++i) {
    auto stream = std::make_unique<DeviceStream>(calls_, free_events_);
    PTO_RETURN_IF_ERROR(stream->Create());
    streams_.push_back(std::move(stream));
  }
  const auto pin = [this](uint64_t bytes, std::byte** data) {
    void* memory = nullptr;
    const absl::Status status =
        calls_.Check(calls_->aclrtMallocHost(&memory, bytes), "allocating pinned memory");
    *data = static_cast<std::byte*>(memory);
    return status;
  };
  for (Staging& staging : staging_) PTO_RETURN_IF_ERROR(pin(options_.staging_bytes, &staging.data));
  PTO_RETURN_IF_ERROR(pin(options_.arena_bytes, &arena_mirror_));
  PTO_ASSIGN_OR_RETURN(arena_address_, Allocate(options_.arena_bytes));
  return absl::OkStatus();
}

void Device::TearDown(const absl::Status& why) {
  for (const auto& stream : streams_) {
    // Nothing must use what is freed below. Bounded: a device that hangs is reset anyway.
    if (stream->pending() > 0 && !failed()) {
      (void)calls_->aclrtSynchronizeStreamWithTimeout(stream->handle(), 1000);
    }
    stream->Destroy(why);
  }
  streams_.clear();
  for (const std::shared_ptr<Transfer>& transfer : std::exchange(transfers_, {})) {
    transfer->done(why);
  }
  for (const cann::AclEvent event : std::exchange(free_events_, {})) {
    (void)calls_->aclrtDestroyEvent(event);
  }
  for (const auto& [id, kernel] : std::exchange(kernels_, {})) {
    (void)calls_->aclrtBinaryUnLoad(kernel.binary);
  }
  tickets_.clear();
  if (arena_address_ != 0) (void)calls_->aclrtFree(Pointer(std::exchange(arena_address_, 0)));
  arena_.Clear();
  for (Staging& staging : staging_) {
    if (staging.data != nullptr) (void)calls_->aclrtFreeHost(std::exchange(staging.data, nullptr));
    staging.busy = false;
  }
  if (arena_mirror_ != nullptr) {
    (void)calls_->aclrtFreeHost(std::exchange(arena_mirror_, nullptr));
  }
}

// ---- memory

absl::StatusOr<DeviceAddress> Device::Allocate(uint64_t bytes) {
  if (failed()) return calls_.Refuse("allocating memory");
  void* memory = nullptr;
  PTO_RETURN_IF_ERROR(
      calls_.Check(calls_->aclrtMalloc(&memory, std::max<uint64_t>(bytes, 1), cann::kHugeFirst),
                   absl::StrCat("allocating ", bytes, " bytes")));
  return reinterpret_cast<DeviceAddress>(memory);
}

absl::Status Device::Free(DeviceAddress address) {
  if (failed()) return calls_.Refuse("freeing memory");
  if (copies().pending() == 0) return FreeNow(address);
  return copies()
      .Track("a fill or a copy", absl::ToInt64Nanoseconds(options_.copy_timeout),
             [this, address](const absl::Status& ended) {
               // After a failure the reset frees it.
               if (!failed()) (void)FreeNow(address);
               (void)ended;
             })
      .status();
}

absl::Status Device::FreeNow(DeviceAddress address) {
  return calls_.Check(calls_->aclrtFree(Pointer(address)), "freeing memory");
}

// ---- end of work

size_t Device::Poll() {
  const int64_t now_ns = options_.clock->NowNanos();
  size_t ended = 0;
  for (const auto& stream : streams_) {
    bool late = false;
    ended += stream->Poll(now_ns, &late);
    if (late) HandleLate(*stream);
  }
  if (failed()) {
    const absl::Status why = calls_.Refuse("it did not end");
    for (const auto& stream : streams_) {
      ended += stream->pending();
      stream->FailAll(why, why);
    }
    for (const std::shared_ptr<Transfer>& transfer : std::exchange(transfers_, {})) {
      if (transfer->begun == transfer->ended) {
        ++ended;
        transfer->done(why);
      }
    }
  } else {
    Advance();
  }
  return ended;
}

void Device::HandleLate(DeviceStream& stream) {
  const absl::Status why = Error(
      reason::kDeviceFailed, "the device did not get to it in time, and its stream was aborted");
  const absl::Status aborted = stream.Abort(why);
  if (aborted.ok()) return;
  // What the stream still does is not known, so the device is not usable.
  calls_.NoteFailure(Error(
      reason::kDeviceFailed,
      absl::StrCat("the device did not get to it in time, and its stream could not be aborted: ",
                   std::string(aborted.message()))));
}

bool Device::busy() const {
  return !transfers_.empty() ||
         std::any_of(streams_.begin(), streams_.end(),
                     [](const auto& stream) { return stream->pending() > 0; });
}

// ---- health

std::string Device::Probe() {
  if (failed()) return std::string(calls_.first_error().message());
  const absl::Status status = CheckStatus();
  if (status.ok()) return "";
  calls_.NoteFailure(status);
  return std::string(status.message());
}

absl::Status Device::Reset() {
  const absl::Status why = Error(
      reason::kDeviceFailed,
      failed() ? absl::StrCat("the chip was reset, because ", std::string(first_error().message()))
               : "the chip was reset");
  TearDown(why);
  ++epoch_;
  // A soft reset does not clear a fault, so it is not tried.
  const cann::AclError code = calls_->aclrtResetDeviceForce(options_.device);
  set_ = false;
  calls_.ForgetErrors();
  absl::Status status = calls_.Check(code, "resetting the device");
  if (status.ok()) {
    status = calls_.Check(calls_->aclrtSetDevice(options_.device), "using the device");
    set_ = status.ok();
  }
  // A drained device can look well and still fail: only a probe tells.
  if (status.ok()) status = ProbeCalls();
  if (status.ok()) status = Prepare();
  if (!status.ok()) {
    lost_ = true;
    calls_.NoteFailure(status);
  }
  return status;
}

}  // namespace pto::ascend
