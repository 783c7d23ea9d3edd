#pragma once

#include <cstddef>
#include <cstdint>

// The part of AscendCL's C interface that this backend uses, declared from its documented numbers:
// no header of the toolkit is needed to build. The layouts are the same in all releases from 8.1
// on; abi_test.cc compares them with the tables, and with the real headers where there are any.
namespace pto::cann {

using AclError = int;
inline constexpr AclError kAclOk = 0;
inline constexpr AclError kAclUninitialized = 100001;
inline constexpr AclError kAclRepeatInit = 100002;
inline constexpr AclError kAclStubLibrary = 100039;
inline constexpr AclError kAclFeatureUnsupported = 207000;
inline constexpr AclError kAclMemoryAllocation = 207001;
inline constexpr AclError kAclStreamTimeout = 507046;
inline constexpr AclError kAclEventTimeout = 507047;
// What all calls return after a fault of the device, whatever it was.
inline constexpr AclError kAclFallout = 507899;

// Pointers to what the vendor owns.
using AclStream = void*;
using AclEvent = void*;
using AclPhysical = void*;
using AclBinary = void*;
using AclFunction = void*;
// An address of the device's memory. Never dereferenced on the host.
using DevicePointer = void*;

enum AclMallocPolicy : int {
  kHugeFirst = 0,
  kHugeOnly = 1,
  kNormalOnly = 2,
  kHugeFirstP2p = 3,
  kHugeOnlyP2p = 4,
  kNormalOnlyP2p = 5,
};

enum AclCopyKind : int {
  kHostToHost = 0,
  kHostToDevice = 1,
  kDeviceToHost = 2,
  kDeviceToDevice = 3,
};

enum AclMemAttr : int {
  kDdr = 0,
  kHbm = 1,
  kHbmHuge = 4,
  kHbmNormal = 5,
  kHbmP2pHuge = 8,
  kHbmP2pNormal = 9,
};

enum AclDeviceStatus : int { kDeviceNormal = 0, kDeviceAbnormal = 1, kDeviceEnd = 0xffff };
enum AclStreamStatus : int { kStreamComplete = 0, kStreamNotReady = 1 };
// Not those of the older aclrtEventStatus, which mean the opposite.
enum AclRecordedStatus : int { kEventNotReady = 0, kEventComplete = 1 };

enum AclDeviceAttr : int {
  kCubeCores = 102,
  kVectorCores = 201,
  kGlobalMemory = 301,
  kPhysicalChip = 402,
  kIsVirtual = 501,
  kNpuArch = 601,
};

inline constexpr uint32_t kStreamFastLaunch = 1;
inline constexpr uint32_t kStreamFastSync = 2;
inline constexpr uint32_t kEventSync = 1;

enum AclValueCompare : uint32_t { kValueGe = 0, kValueEq = 1, kValueAnd = 2, kValueNor = 3 };

// ---- virtual memory

enum AclLocationType : uint32_t { kAtHost = 0, kAtDevice = 1 };
enum AclAccess : int { kNoAccess = 0, kReadAccess = 1, kReadWriteAccess = 3 };
enum AclGranularity : int { kMinimum = 0, kRecommended = 1 };
enum AclShareType : int { kShareDefault = 1, kShareFabric = 2 };
inline constexpr uint64_t kShareNoPidCheck = 1;

struct AclLocation {
  uint32_t id = 0;
  uint32_t type = kAtDevice;
};
static_assert(sizeof(AclLocation) == 8 && offsetof(AclLocation, type) == 4);

struct AclPhysicalProp {
  int32_t handle_type = 0;
  int32_t allocation_type = 0;
  int32_t mem_attr = kHbmHuge;
  AclLocation location;
  uint64_t reserve = 0;
};
static_assert(sizeof(AclPhysicalProp) == 32 && offsetof(AclPhysicalProp, mem_attr) == 8 &&
              offsetof(AclPhysicalProp, location) == 12 &&
              offsetof(AclPhysicalProp, reserve) == 24);

struct AclAccessDesc {
  int32_t flags = kReadWriteAccess;
  AclLocation location;
  uint8_t reserved[12] = {};
};
static_assert(sizeof(AclAccessDesc) == 24 && offsetof(AclAccessDesc, location) == 4 &&
              offsetof(AclAccessDesc, reserved) == 12);

struct AclFabricHandle {
  uint8_t bytes[128] = {};
};
static_assert(sizeof(AclFabricHandle) == 128);

// ---- kernels

enum AclLoadOptionType : int { kLazyLoad = 1, kMagic = 2, kCpuKernelMode = 3 };
inline constexpr uint32_t kMagicAiCore = 0x43554245;
inline constexpr uint32_t kMagicVector = 0x41415246;
inline constexpr uint32_t kMagicCube = 0x41494343;

struct AclLoadOption {
  int32_t type = 0;
  uint32_t value[4] = {};
};
static_assert(sizeof(AclLoadOption) == 20 && offsetof(AclLoadOption, value) == 4);

struct AclLoadOptions {
  AclLoadOption* options = nullptr;
  size_t count = 0;
};
static_assert(sizeof(AclLoadOptions) == 16 && offsetof(AclLoadOptions, count) == 8);

enum AclLaunchAttrId : int {
  kSchemMode = 1,      // value 1: no block starts before all cores are free
  kLaunchTimeout = 7,  // seconds, 16 bits
  kLaunchTimeoutUs = 8,
};

struct AclLaunchAttr {
  int32_t id = 0;
  uint32_t value[4] = {};
};
static_assert(sizeof(AclLaunchAttr) == 20 && offsetof(AclLaunchAttr, value) == 4);

struct AclLaunchConfig {
  AclLaunchAttr* attrs = nullptr;
  size_t count = 0;
};
static_assert(sizeof(AclLaunchConfig) == 16 && offsetof(AclLaunchConfig, count) == 8);

struct AclPlaceHolder {
  uint32_t address_offset = 0;
  uint32_t data_offset = 0;
};
static_assert(sizeof(AclPlaceHolder) == 8 && offsetof(AclPlaceHolder, data_offset) == 4);

}  // namespace pto::cann
