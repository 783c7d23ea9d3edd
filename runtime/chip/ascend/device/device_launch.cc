// The kernels of a Device.

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/error.h"
#include "runtime/base/status_macros.h"
#include "runtime/chip/ascend/device/device.h"

namespace pto::ascend {
namespace {

void* Pointer(DeviceAddress address) { return reinterpret_cast<void*>(address); }  // NOLINT

// What the vendor's attribute can express.
constexpr double kMostSeconds = 65535;

}  // namespace

absl::StatusOr<uint32_t> Device::LoadKernel(const std::string& path, const std::string& entry) {
  if (failed()) return calls_.Refuse("loading a kernel");
  if (!functions().Has(cann::Capability::kLaunch)) {
    return Error(reason::kNotAvailable, "this CANN is older than 8.5, and cannot launch kernels");
  }
  Kernel kernel;
  PTO_RETURN_IF_ERROR(
      calls_.Check(calls_->aclrtBinaryLoadFromFile(path.c_str(), nullptr, &kernel.binary),
                   absl::StrCat("loading '", path, "'")));
  const absl::Status found =
      calls_.Check(calls_->aclrtBinaryGetFunction(kernel.binary, entry.c_str(), &kernel.function),
                   absl::StrCat("looking for '", entry, "' in '", path, "'"));
  if (!found.ok()) {
    (void)calls_->aclrtBinaryUnLoad(kernel.binary);
    return found;
  }
  kernels_[++last_kernel_] = kernel;
  return last_kernel_;
}

absl::Status Device::UnloadKernel(uint32_t kernel) {
  const auto found = kernels_.find(kernel);
  if (found == kernels_.end()) return absl::OkStatus();  // gone with a reset
  const cann::AclBinary binary = found->second.binary;
  kernels_.erase(found);
  return calls_.Check(calls_->aclrtBinaryUnLoad(binary), "unloading a kernel");
}

absl::StatusOr<uint64_t> Device::Launch(LaunchSpec spec) {
  if (failed()) return calls_.Refuse("a launch");
  const auto kernel = kernels_.find(spec.kernel);
  if (kernel == kernels_.end()) {
    return Error(reason::kDeviceFailed, "the kernel is not loaded; the chip was reset meanwhile");
  }
  const uint64_t total = std::max(spec.total_bytes, spec.upload_bytes);
  if (total > options_.arena_bytes) {
    return Error(reason::kNotAvailable,
                 absl::StrCat("a launch needs ", total, " bytes for its arguments, and there are ",
                              options_.arena_bytes));
  }
  const absl::optional<uint64_t> offset = arena_.Take(total);
  if (!offset.has_value()) {
    return Error(reason::kChipMemoryExhausted, "too many launches are pending");
  }
  DeviceStream& stream = *streams_[spec.stream % streams()];
  const DeviceAddress address = arena_address_ + *offset;
  std::byte* const mirror = arena_mirror_ + *offset;
  const auto begin = [&]() -> absl::Status {
    spec.fill(address, mirror);
    PTO_RETURN_IF_ERROR(
        calls_.Check(calls_->aclrtMemcpyAsync(Pointer(address), total, mirror, spec.upload_bytes,
                                              cann::kHostToDevice, stream.handle()),
                     "uploading the arguments"));
    for (const uint64_t ticket : spec.after) {
      const auto event = tickets_.find(ticket);
      if (event == tickets_.end()) continue;  // it has ended
      PTO_RETURN_IF_ERROR(
          calls_.Check(calls_->aclrtStreamWaitEvent(stream.handle(), event->second), "an edge"));
    }
    cann::AclLaunchAttr attrs[2];
    cann::AclLaunchConfig config{attrs, 0};
    if (spec.together) attrs[config.count++] = {cann::kSchemMode, {1}};
    if (spec.timeout != absl::InfiniteDuration()) {
      const double seconds =
          std::clamp(std::ceil(absl::ToDoubleSeconds(spec.timeout)), 1.0, kMostSeconds);
      attrs[config.count++] = {cann::kLaunchTimeout, {static_cast<uint32_t>(seconds)}};
    }
    uint64_t argument = address;
    PTO_RETURN_IF_ERROR(calls_.Check(
        calls_->aclrtLaunchKernelWithHostArgs(kernel->second.function, spec.blocks, stream.handle(),
                                              config.count == 0 ? nullptr : &config, &argument,
                                              sizeof argument, nullptr, 0),
        "a launch"));
    if (spec.readback_bytes == 0) return absl::OkStatus();
    return calls_.Check(
        calls_->aclrtMemcpyAsync(mirror + spec.readback_offset, spec.readback_bytes,
                                 Pointer(address + spec.readback_offset), spec.readback_bytes,
                                 cann::kDeviceToHost, stream.handle()),
        "reading back what a kernel says");
  };
  const absl::Status begun = begin();
  if (!begun.ok()) {
    // The stream may still read it, so it is not used again before a reset.
    return begun;
  }
  const uint64_t ticket = ++last_ticket_;
  const int64_t deadline_ns = Deadline(spec.timeout + options_.launch_slack);
  auto done = [this, ticket, offset = *offset, total, mirror, readback = spec.readback_offset,
               readback_bytes = spec.readback_bytes,
               done = std::move(spec.done)](const absl::Status& status) {
    tickets_.erase(ticket);
    done(status, status.ok() ? absl::MakeConstSpan(mirror + readback, readback_bytes)
                             : absl::Span<const std::byte>());
    // A stream that failed may still write there; a reset clears the arena.
    if (!failed()) arena_.Give(offset, total);
  };
  PTO_ASSIGN_OR_RETURN(const cann::AclEvent event,
                       stream.Track("a kernel", deadline_ns, std::move(done)));
  tickets_[ticket] = event;
  return ticket;
}

}  // namespace pto::ascend
