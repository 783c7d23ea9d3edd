#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "runtime/chip/ascend/cann/acl_abi.h"
#include "runtime/chip/ascend/cann/hccl_abi.h"

namespace pto::cann {

// What a release of CANN may lack. A capability is there when all its functions are.
enum class Capability : uint32_t {
  kNone,
  kVersions,
  kDeviceInfo,
  kLogicalIds,
  kBareTgid,
  kStreamAbort,
  kForcedDestroy,
  kStreamConfig,
  kValues,
  kVirtualMemory,
  kSetAccess,
  kShareV1,
  kShareFabric,
  kPeerAccess,
  kPeerStatus,
  kLaunch,
  kCommConfigCapability,
  kHcclBarrier,
  kCount,
};

// What is missing without it, for messages: "kernel launches".
absl::string_view NameOf(Capability capability);

enum class Library { kAcl, kHccl };

// One function, as the loader and the doctor look for it.
struct FunctionInfo {
  const char* name;
  Library library;
  bool required;
  Capability capability;
};
absl::Span<const FunctionInfo> AllFunctions();

// The functions of CANN in this process; nullptr: the release does not have it. Filled by
// LoadCann, only in a chip host.
struct Functions {
#define PTO_ACL(importance, capability, name, result, arguments) result(*name) arguments = nullptr;
#define PTO_HCCL(importance, capability, name, result, arguments) result(*name) arguments = nullptr;
#include "runtime/chip/ascend/cann/functions.inc"
#undef PTO_ACL
#undef PTO_HCCL

  // Stores the address of a function by its place in AllFunctions().
  void Set(size_t index, void* address);
  bool Has(Capability capability) const;
  std::vector<Capability> Missing() const;
};

}  // namespace pto::cann
