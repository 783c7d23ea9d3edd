#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/chip/ascend/cann/acl_abi.h"

// The part of HCCL's C interface that this backend uses; see acl_abi.h.
namespace pto::cann {

using HcclCommunicator = void*;

enum HcclResult : int {
  kHcclOk = 0,
  kHcclParameter = 1,
  kHcclPointer = 2,
  kHcclMemory = 3,
  kHcclInternal = 4,
  kHcclNotSupported = 5,
  kHcclNotFound = 6,
  kHcclUnavailable = 7,
  kHcclSyscall = 8,
  kHcclTimeout = 9,
  kHcclOpenFile = 10,
  kHcclTcpConnect = 11,
  kHcclRoceConnect = 12,
  kHcclTcpTransfer = 13,
  kHcclRoceTransfer = 14,
  kHcclRuntime = 15,
  kHcclDriver = 16,
  kHcclProfiling = 17,
  kHcclCce = 18,
  kHcclNetwork = 19,
  kHcclAgain = 20,
  kHcclRemote = 21,
  kHcclSuspending = 22,
  kHcclRetryFailed = 23,
  kHcclOutOfMemory = 24,
  kHcclInStatus = 1041,
};

enum HcclType : int {
  kHcclI8 = 0,
  kHcclI16 = 1,
  kHcclI32 = 2,
  kHcclF16 = 3,
  kHcclF32 = 4,
  kHcclI64 = 5,
  kHcclU64 = 6,
  kHcclU8 = 7,
  kHcclU16 = 8,
  kHcclU32 = 9,
  kHcclF64 = 10,
  kHcclBf16 = 11,
};

enum HcclReduction : int { kHcclSum = 0, kHcclProd = 1, kHcclMax = 2, kHcclMin = 3 };

// What rank 0 hands to the others. It must not be looked into.
struct HcclRoot {
  uint8_t bytes[4108];
};
static_assert(sizeof(HcclRoot) == 4108);

struct HcclTransferItem {
  int32_t type = 0;  // 0: send, 1: receive
  void* buffer = nullptr;
  uint64_t count = 0;
  int32_t data_type = 0;
  uint32_t remote_rank = 0;
};
static_assert(sizeof(HcclTransferItem) == 32 && offsetof(HcclTransferItem, buffer) == 8 &&
              offsetof(HcclTransferItem, count) == 16 &&
              offsetof(HcclTransferItem, data_type) == 24 &&
              offsetof(HcclTransferItem, remote_rank) == 28);

// The indices of HcclGetCommConfigCapability: a feature is there if the result is greater.
inline constexpr uint32_t kCapabilityCommName = 2;
inline constexpr uint32_t kCapabilityExecTimeout = 8;

// The configuration of a communicator has grown with each release. The library reads the first
// `size` bytes, and of those what `version` covers, so a shorter one suits all later releases.
// Version 5 is that of 8.1; version 8 adds the timeout of operators.
inline constexpr uint32_t kHcclConfigMagic = 0xf0f0f0f0;
inline constexpr uint32_t kHcclUnset = 0xffffffff;

struct HcclConfigPrologue {
  uint64_t size = 0;
  uint32_t magic = kHcclConfigMagic;
  uint32_t version = 0;
  uint64_t reserved = 0;
};
static_assert(sizeof(HcclConfigPrologue) == 24);

struct HcclConfigV5 {
  HcclConfigPrologue prologue;
  uint32_t buffer_mib = kHcclUnset;
  uint32_t deterministic = kHcclUnset;
  char name[128] = {};
  char udi[128] = {};
  uint32_t expansion_mode = 0;
  uint32_t traffic_class = kHcclUnset;
  uint32_t service_level = kHcclUnset;
  // Behind the part that version 5 claims, up to its alignment.
  uint32_t world_rank = 0;
};
inline constexpr uint64_t kHcclConfigV5Bytes = 300;
static_assert(offsetof(HcclConfigV5, buffer_mib) == 24 && offsetof(HcclConfigV5, name) == 32 &&
              offsetof(HcclConfigV5, udi) == 160 && offsetof(HcclConfigV5, expansion_mode) == 288 &&
              offsetof(HcclConfigV5, traffic_class) == 292 &&
              offsetof(HcclConfigV5, service_level) == 296 &&
              offsetof(HcclConfigV5, world_rank) == 300);

struct HcclConfigV8 {
  HcclConfigV5 v5;
  uint64_t job_id = 0;
  uint8_t zero_copy = 0;
  uint8_t padding[3] = {};
  uint32_t exec_timeout_s = kHcclUnset;
  char algorithm[1600] = {};
  char retry_enable[50] = {};
  char retry_params[128] = {};
  uint8_t padding_end[6] = {};
};
inline constexpr uint64_t kHcclConfigV8Bytes = 2104;
static_assert(sizeof(HcclConfigV8) == 2104 && offsetof(HcclConfigV8, job_id) == 304 &&
              offsetof(HcclConfigV8, zero_copy) == 312 &&
              offsetof(HcclConfigV8, exec_timeout_s) == 316 &&
              offsetof(HcclConfigV8, algorithm) == 320 &&
              offsetof(HcclConfigV8, retry_enable) == 1920 &&
              offsetof(HcclConfigV8, retry_params) == 1970);

}  // namespace pto::cann
