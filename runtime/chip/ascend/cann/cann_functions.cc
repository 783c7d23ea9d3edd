#include "runtime/chip/ascend/cann/cann_functions.h"

#include <array>
#include <cstring>

namespace pto::cann {
namespace {

constexpr bool kRequired = true;
constexpr bool kOptional = false;

constexpr FunctionInfo kFunctions[] = {
#define PTO_ACL(importance, capability, name, result, arguments) \
  {#name, Library::kAcl, k##importance, Capability::capability},
#define PTO_HCCL(importance, capability, name, result, arguments) \
  {#name, Library::kHccl, k##importance, Capability::capability},
#include "runtime/chip/ascend/cann/functions.inc"
#undef PTO_ACL
#undef PTO_HCCL
};

// Where each is in a Functions.
constexpr size_t kOffsets[] = {
#define PTO_ACL(importance, capability, name, result, arguments) offsetof(Functions, name),
#define PTO_HCCL(importance, capability, name, result, arguments) offsetof(Functions, name),
#include "runtime/chip/ascend/cann/functions.inc"
#undef PTO_ACL
#undef PTO_HCCL
};

}  // namespace

absl::Span<const FunctionInfo> AllFunctions() { return kFunctions; }

void Functions::Set(size_t index, void* address) {
  std::memcpy(reinterpret_cast<char*>(this) + kOffsets[index], &address, sizeof address);
}

bool Functions::Has(Capability capability) const {
  for (size_t i = 0; i < std::size(kFunctions); ++i) {
    if (kFunctions[i].capability != capability) continue;
    void* address = nullptr;
    std::memcpy(&address, reinterpret_cast<const char*>(this) + kOffsets[i], sizeof address);
    if (address == nullptr) return false;
  }
  return true;
}

std::vector<Capability> Functions::Missing() const {
  std::vector<Capability> missing;
  for (uint32_t i = 1; i < static_cast<uint32_t>(Capability::kCount); ++i) {
    if (!Has(static_cast<Capability>(i))) missing.push_back(static_cast<Capability>(i));
  }
  return missing;
}

absl::string_view NameOf(Capability capability) {
  switch (capability) {
    case Capability::kNone:
    case Capability::kCount:
      break;
    case Capability::kVersions:
      return "versions of its packages";
    case Capability::kDeviceInfo:
      return "attributes of devices";
    case Capability::kLogicalIds:
      return "logical ids of devices";
    case Capability::kBareTgid:
      return "the pid that other processes allow";
    case Capability::kStreamAbort:
      return "aborting streams";
    case Capability::kForcedDestroy:
      return "destroying busy streams";
    case Capability::kStreamConfig:
      return "priorities of streams";
    case Capability::kValues:
      return "waits and writes of words by streams";
    case Capability::kVirtualMemory:
      return "virtual memory";
    case Capability::kSetAccess:
      return "access rights of virtual memory";
    case Capability::kShareV1:
      return "memory shared between processes";
    case Capability::kShareFabric:
      return "memory shared between servers";
    case Capability::kPeerAccess:
      return "access to other devices' memory";
    case Capability::kPeerStatus:
      return "the state of that access";
    case Capability::kLaunch:
      return "kernel launches with host arguments (CANN 8.5)";
    case Capability::kCommConfigCapability:
      return "features of communicators";
    case Capability::kHcclBarrier:
      return "HcclBarrier";
  }
  return "nothing";
}

}  // namespace pto::cann
