#include "runtime/chip/ascend/cann/acl_codes.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/error.h"

namespace pto::cann {
namespace {

constexpr size_t kMaxVendorText = 600;

constexpr AclCode kCodes[] = {
#define PTO_ACL_CODE(code, name, fault_class, text, hint) \
  {code, name, FaultClass::fault_class, text, hint},
#include "runtime/chip/ascend/cann/acl_codes.inc"
#undef PTO_ACL_CODE
};

constexpr AclCode kHcclCodes[] = {
    {1, "E_PARA", FaultClass::kCaller, "an argument is invalid, or ranks disagree", ""},
    {2, "E_PTR", FaultClass::kCaller, "a pointer is empty", ""},
    {3, "E_MEMORY", FaultClass::kCapacity, "memory could not be allocated",
     "each communicator takes twice HCCL_BUFFSIZE of the device's memory"},
    {4, "E_INTERNAL", FaultClass::kDevice, "HCCL failed internally", ""},
    {5, "E_NOT_SUPPORT", FaultClass::kUnsupported, "HCCL does not support it here", ""},
    {6, "E_NOT_FOUND", FaultClass::kDevice, "something was not found", ""},
    {7, "E_UNAVAIL", FaultClass::kSetup, "a resource is not available, often a port in use",
     "end the process that holds the port, or set HCCL_HOST_SOCKET_PORT_RANGE"},
    {8, "E_SYSCALL", FaultClass::kDevice, "a system call failed", ""},
    {9, "E_TIMEOUT", FaultClass::kRemote, "a rank did not come in time",
     "see whether all ranks run, and reach each other over HCCL_IF_IP"},
    {10, "E_OPEN_FILE_FAILURE", FaultClass::kSetup, "a file cannot be opened", ""},
    {11, "E_TCP_CONNECT", FaultClass::kRemote, "a connection between hosts failed",
     "is the port in use, or filtered?"},
    {12, "E_ROCE_CONNECT", FaultClass::kRemote, "a connection between devices failed", ""},
    {13, "E_TCP_TRANSFER", FaultClass::kRemote, "a transfer between hosts failed", ""},
    {14, "E_ROCE_TRANSFER", FaultClass::kRemote, "a transfer between devices failed", ""},
    {15, "E_RUNTIME", FaultClass::kDevice, "a call of the runtime failed", ""},
    {16, "E_DRV", FaultClass::kLost, "a call of the driver failed", ""},
    {17, "E_PROFILING", FaultClass::kDevice, "profiling failed", ""},
    {18, "E_CCE", FaultClass::kDevice, "a call of the compiler's runtime failed", ""},
    {19, "E_NETWORK", FaultClass::kRemote, "the network failed", ""},
    {20, "E_AGAIN", FaultClass::kTimeout, "it is busy, try again", ""},
    {21, "E_REMOTE", FaultClass::kRemote, "another rank failed", ""},
    {22, "E_SUSPENDING", FaultClass::kReset, "the communicator is suspended", ""},
    {23, "E_OPRETRY_FAIL", FaultClass::kRemote, "a retry failed", ""},
    {24, "E_OOM", FaultClass::kCapacity, "the device has no more memory",
     "each communicator takes twice HCCL_BUFFSIZE of the device's memory"},
    {1041, "E_IN_STATUS", FaultClass::kDevice, "the communicator is in a wrong state", ""},
};

struct TextCode {
  absl::string_view code;
  FaultClass fault_class;
};

// EI: HCCL. EJ: its network.
constexpr TextCode kTextCodes[] = {
    {"EI0001", FaultClass::kSetup},    {"EI0002", FaultClass::kRemote},
    {"EI0003", FaultClass::kCaller},   {"EI0004", FaultClass::kCaller},
    {"EI0005", FaultClass::kCaller},   {"EI0006", FaultClass::kRemote},
    {"EI0007", FaultClass::kCapacity}, {"EI0008", FaultClass::kSetup},
    {"EI0009", FaultClass::kRemote},   {"EI0011", FaultClass::kCapacity},
    {"EI0012", FaultClass::kRemote},   {"EI0013", FaultClass::kRemote},
    {"EI0014", FaultClass::kCaller},   {"EI0015", FaultClass::kRemote},
    {"EI0016", FaultClass::kSetup},    {"EI0017", FaultClass::kCaller},
    {"EI0018", FaultClass::kRemote},   {"EI0019", FaultClass::kSetup},
    {"EI0020", FaultClass::kSetup},    {"EJ0001", FaultClass::kSetup},
    {"EJ0003", FaultClass::kSetup},
};

FaultClass ClassOfRange(AclError code) {
  if (code >= 507000 && code < 508000) return FaultClass::kDevice;
  if (code >= 207000 && code < 208000) return FaultClass::kCapacity;
  if (code >= 200000 && code < 300000) return FaultClass::kCapacity;
  if (code >= 100000 && code < 200000) return FaultClass::kCaller;
  return FaultClass::kDevice;
}

const Reason& ReasonFor(FaultClass fault_class) {
  switch (fault_class) {
    case FaultClass::kSetup:
      return reason::kCannUnusable;
    case FaultClass::kUnsupported:
      return reason::kNotAvailable;
    case FaultClass::kCapacity:
      return reason::kChipMemoryExhausted;
    default:
      return reason::kDeviceFailed;
  }
}

absl::Status StatusFor(const AclCode& code, absl::string_view prefix, absl::string_view what,
                       const char* recent) {
  const std::string vendor = VendorText(recent);
  Error error(ReasonFor(code.fault_class),
              absl::StrCat(what, ": ", code.text, " (", prefix, code.name, " ", code.code, ")",
                           vendor.empty() ? "" : ": ", vendor));
  error.With("code", code.code).With("class", NameOf(code.fault_class));
  if (!vendor.empty()) error.With("vendor", vendor);
  if (!code.hint.empty()) error.Hint(code.hint);
  return error;
}

}  // namespace

AclCode DescribeAcl(AclError code) {
  const auto* const found = std::find_if(std::begin(kCodes), std::end(kCodes),
                                         [code](const AclCode& row) { return row.code == code; });
  if (found != std::end(kCodes)) return *found;
  return {code, "UNKNOWN", ClassOfRange(code), "a code that this release of ptod does not know",
          ""};
}

AclCode DescribeHccl(int result) {
  const auto* const found =
      std::find_if(std::begin(kHcclCodes), std::end(kHcclCodes),
                   [result](const AclCode& row) { return row.code == result; });
  if (found != std::end(kHcclCodes)) return *found;
  return {result, "UNKNOWN", FaultClass::kDevice, "a code that this release of ptod does not know",
          ""};
}

absl::string_view NameOf(FaultClass fault_class) {
  switch (fault_class) {
    case FaultClass::kCaller:
      return "caller";
    case FaultClass::kSetup:
      return "setup";
    case FaultClass::kUnsupported:
      return "unsupported";
    case FaultClass::kCapacity:
      return "capacity";
    case FaultClass::kTimeout:
      return "timeout";
    case FaultClass::kKernel:
      return "kernel";
    case FaultClass::kKernelTimeout:
      return "kernel_timeout";
    case FaultClass::kAborted:
      return "aborted";
    case FaultClass::kReset:
      return "reset";
    case FaultClass::kDevice:
      return "device";
    case FaultClass::kLost:
      return "lost";
    case FaultClass::kRemote:
      return "remote";
  }
  return "device";
}

bool PoisonsDevice(FaultClass fault_class) {
  return fault_class == FaultClass::kKernel || fault_class == FaultClass::kKernelTimeout ||
         fault_class == FaultClass::kDevice || fault_class == FaultClass::kLost ||
         fault_class == FaultClass::kReset;
}

absl::Status AclStatus(AclError code, absl::string_view what, const char* recent) {
  if (code == kAclOk) return absl::OkStatus();
  return StatusFor(DescribeAcl(code), "ACL_ERROR_", what, recent);
}

absl::Status HcclStatus(int result, absl::string_view what, const char* recent) {
  if (result == 0) return absl::OkStatus();
  AclCode code = DescribeHccl(result);
  code.fault_class = ClassOfText(recent == nullptr ? "" : recent).value_or(code.fault_class);
  return StatusFor(code, "HCCL_", what, recent);
}

absl::optional<FaultClass> ClassOfText(absl::string_view text) {
  // The first that is named is the cause.
  absl::optional<FaultClass> found;
  size_t first = absl::string_view::npos;
  for (const TextCode& each : kTextCodes) {
    const size_t at = text.find(each.code);
    if (at >= first) continue;
    first = at;
    found = each.fault_class;
  }
  return found;
}

std::string VendorText(const char* text) {
  if (text == nullptr) return "";
  std::string out(text, strnlen(text, kMaxVendorText));
  for (char& c : out) {
    if (absl::ascii_iscntrl(static_cast<unsigned char>(c))) c = ' ';
  }
  absl::RemoveExtraAsciiWhitespace(&out);
  return out;
}

}  // namespace pto::cann
