#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "runtime/chip/ascend/cann/acl_abi.h"

namespace pto::cann {

// What a code says about what must be done.
enum class FaultClass {
  kCaller,         // we have made a wrong call
  kSetup,          // the machine is not set up
  kUnsupported,    // this chip or release cannot do it
  kCapacity,       // memory, streams or events have run out
  kTimeout,        // a wait of ours has expired
  kKernel,         // a kernel failed; the device's context is unusable until a reset
  kKernelTimeout,  // the same, because it did not end
  kAborted,        // the stream was aborted
  kReset,          // the device is being reset
  kDevice,         // the device failed; try a reset
  kLost,           // the device is lost until a reset
  kRemote,         // another device is the cause
};

struct AclCode {
  AclError code = 0;
  absl::string_view name;  // without ACL_ERROR_
  FaultClass fault_class = FaultClass::kDevice;
  absl::string_view text;
  absl::string_view hint;
};

// What is known of a code. For one that is not in the table: its range, which says whose fault it
// is.
AclCode DescribeAcl(AclError code);
AclCode DescribeHccl(int result);

// The class that a code like EI0006 in the text of HCCL names. nullopt: there is none that is
// known.
absl::optional<FaultClass> ClassOfText(absl::string_view text);

absl::string_view NameOf(FaultClass fault_class);
// Whether nothing works on the device any more until it is reset.
bool PoisonsDevice(FaultClass fault_class);

// The error of a failed call. `recent` is aclGetRecentErrMsg of the thread that made the call,
// right after it; it may be nullptr. Capacity becomes CHIP_MEMORY_EXHAUSTED, setup CANN_UNUSABLE,
// what is not supported NOT_AVAILABLE, everything else DEVICE_FAILED.
absl::Status AclStatus(AclError code, absl::string_view what, const char* recent);
absl::Status HcclStatus(int result, absl::string_view what, const char* recent);

// The text of the vendor, on one line and of a bounded length. `text` may be nullptr.
std::string VendorText(const char* text);

}  // namespace pto::cann
