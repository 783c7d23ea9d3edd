// The kernels of a Device.

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
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

absl::optional<uint32_t> Device::IdleStream() const {
  for (uint32_t i = 0; i < streams(); ++i) {
    if (streams_[i]->pending() == 0) return i;
  }
  return absl::nullopt;
}

absl::StatusOr<absl::optional<uint64_t>> Device::Launch(LaunchSpec spec) {
  if (failed()) return calls_.Refuse("a launch");
  if (kernels_.count(spec.kernel) == 0) {
    return Error(reason::kDeviceFailed, "the kernel is not loaded; the chip was reset meanwhile");
  }
  const uint64_t total = std::max(spec.total_bytes, spec.upload_bytes);
  if (total > options_.arena_bytes) {
    return Error(reason::kNotAvailable,
                 absl::StrCat("a launch needs ", total, " bytes for its arguments, and there are ",
                              options_.arena_bytes));
  }
  const uint32_t number = spec.stream % streams();
  DeviceStream& stream = *streams_[number];
  PTO_RETURN_IF_ERROR(stream.Reserve());
  absl::optional<uint64_t> offset = arena_.Take(total);
  if (!offset.has_value() && tickets_.empty()) {
    // Nothing uses it: it is only cut into parts that are too small.
    arena_.Clear();
    offset = arena_.Take(total);
  }
  if (!offset.has_value()) return absl::optional<uint64_t>();
  bool begun = false;
  const absl::Status enqueued = Enqueue(spec, stream, *offset, &begun);
  if (!begun) {
    arena_.Give(*offset, total);
    return enqueued;
  }
  const uint64_t ticket = ++last_ticket_;
  const int64_t timeout_ns = spec.timeout == absl::InfiniteDuration()
                                 ? 0
                                 : absl::ToInt64Nanoseconds(spec.timeout + options_.launch_slack);
  auto done = [this, ticket, enqueued, offset = *offset, total,
               mirror = arena_mirror_ + *offset + spec.readback_offset, bytes = spec.readback_bytes,
               done = std::move(spec.done)](const absl::Status& ended) {
    tickets_.erase(ticket);
    const absl::Status& status = enqueued.ok() ? ended : enqueued;
    done(status, status.ok() ? absl::MakeConstSpan(mirror, bytes) : absl::Span<const std::byte>());
    // A stream that failed may still write there; a reset clears the arena.
    if (!failed()) arena_.Give(offset, total);
  };
  PTO_ASSIGN_OR_RETURN(const cann::AclEvent event,
                       stream.Track("a kernel", timeout_ns, std::move(done)));
  tickets_[ticket] = {event, number};
  return absl::optional<uint64_t>(ticket);
}

absl::Status Device::Enqueue(const LaunchSpec& spec, DeviceStream& stream, uint64_t offset,
                             bool* begun) {
  const DeviceAddress address = arena_address_ + offset;
  std::byte* const mirror = arena_mirror_ + offset;
  spec.fill(address, mirror);
  PTO_RETURN_IF_ERROR(calls_.Check(
      calls_->aclrtMemcpyAsync(Pointer(address), std::max(spec.total_bytes, spec.upload_bytes),
                               mirror, spec.upload_bytes, cann::kHostToDevice, stream.handle()),
      "uploading the arguments"));
  *begun = true;
  for (const uint64_t ticket : spec.after) {
    const auto before = tickets_.find(ticket);
    if (before == tickets_.end()) continue;  // it has ended
    PTO_RETURN_IF_ERROR(calls_.Check(
        calls_->aclrtStreamWaitEvent(stream.handle(), before->second.event), "an edge"));
  }
  PTO_RETURN_IF_ERROR(EnqueueKernel(spec, stream, address));
  if (spec.readback_bytes == 0) return absl::OkStatus();
  return calls_.Check(
      calls_->aclrtMemcpyAsync(mirror + spec.readback_offset, spec.readback_bytes,
                               Pointer(address + spec.readback_offset), spec.readback_bytes,
                               cann::kDeviceToHost, stream.handle()),
      "reading back what a kernel says");
}

absl::Status Device::EnqueueKernel(const LaunchSpec& spec, DeviceStream& stream,
                                   DeviceAddress address) {
  cann::AclLaunchAttr attrs[2];
  cann::AclLaunchConfig config{attrs, 0};
  if (spec.together) attrs[config.count++] = {cann::kSchemMode, {1}};
  if (spec.timeout != absl::InfiniteDuration()) {
    const double seconds =
        std::clamp(std::ceil(absl::ToDoubleSeconds(spec.timeout)), 1.0, kMostSeconds);
    attrs[config.count++] = {cann::kLaunchTimeout, {static_cast<uint32_t>(seconds)}};
  }
  uint64_t argument = address;
  const cann::AclError code = calls_->aclrtLaunchKernelWithHostArgs(
      kernels_.at(spec.kernel).function, spec.blocks, stream.handle(),
      config.count == 0 ? nullptr : &config, &argument, sizeof argument, nullptr, 0);
  const absl::Status status = calls_.Check(code, "a launch");
  if (code != cann::kAclMemoryAllocation) return status;
  // A launch allocates nothing: the kernel's module is gone, which an operator that has timed out
  // leaves behind. Only a reset helps.
  const absl::Status gone =
      Error(reason::kDeviceFailed,
            absl::StrCat("a kernel that is loaded is gone: ", std::string(status.message())));
  calls_.NoteFailure(gone);
  return gone;
}

absl::Status Device::Cancel(uint64_t ticket, const absl::Status& why) {
  const auto found = tickets_.find(ticket);
  if (found == tickets_.end()) return absl::OkStatus();
  DeviceStream& stream = *streams_[found->second.stream];
  if (stream.pending() > 1) {
    return Error(reason::kNotAvailable, "other launches are behind it in its stream");
  }
  return stream.Abort(why);
}

}  // namespace pto::ascend
