// The C interface of CANN as the fact tables give it: sizes, offsets, numbers and prototypes.
// Written from the tables, with nothing of the backend's declarations, so that a mistake there
// shows.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include <cstring>

namespace fake::table {

// ---- structs: sizes and offsets
inline constexpr size_t kMemLocationSize = 8, kMemLocationId = 0, kMemLocationType = 4;
inline constexpr size_t kPhysicalPropSize = 32, kPropHandleType = 0, kPropAllocationType = 4,
                        kPropMemAttr = 8, kPropLocation = 12, kPropReserve = 24;
inline constexpr size_t kAccessDescSize = 24, kAccessFlags = 0, kAccessLocation = 4,
                        kAccessReserved = 12;
inline constexpr size_t kFabricHandleSize = 128;
inline constexpr size_t kLoadOptionSize = 20, kLoadOptionType = 0, kLoadOptionValue = 4;
inline constexpr size_t kLoadOptionsSize = 16, kLoadOptionsPointer = 0, kLoadOptionsCount = 8;
inline constexpr size_t kLaunchAttrSize = 20, kLaunchAttrId = 0, kLaunchAttrValue = 4;
inline constexpr size_t kLaunchCfgSize = 16, kLaunchCfgPointer = 0, kLaunchCfgCount = 8;
inline constexpr size_t kPlaceHolderSize = 8, kPlaceHolderAddr = 0, kPlaceHolderData = 4;
inline constexpr size_t kRootInfoSize = 4108;
inline constexpr size_t kSendRecvSize = 32, kSendRecvType = 0, kSendRecvBuf = 8,
                        kSendRecvCount = 16, kSendRecvDataType = 24, kSendRecvRemote = 28;
inline constexpr size_t kCfgSize = 0, kCfgMagic = 8, kCfgVersion = 12, kCfgBufferSize = 24,
                        kCfgDeterministic = 28, kCfgName = 32, kCfgUdi = 160, kCfgExpansion = 288,
                        kCfgTrafficClass = 292, kCfgServiceLevel = 296, kCfgWorldRank = 300,
                        kCfgJobId = 304, kCfgZeroCopy = 312, kCfgExecTimeout = 316, kCfgAlgo = 320,
                        kCfgRetryEnable = 1920, kCfgRetryParams = 1970;
inline constexpr size_t kCfgSizeV5 = 300, kCfgSizeV8 = 2104;
inline constexpr uint32_t kCfgMagicValue = 0xf0f0f0f0;

// ---- numbers
enum Memcpy { kH2H = 0, kH2D = 1, kD2H = 2, kD2D = 3 };
enum DeviceStatus { kNormal = 0, kAbnormal = 1 };
enum StreamStatus { kStreamComplete = 0, kStreamNotReady = 1 };
enum RecordedStatus { kRecordNotReady = 0, kRecordComplete = 1 };
enum Compare { kGeq = 0, kEq = 1, kAnd = 2, kNor = 3 };
enum LaunchAttr { kSchemMode = 1, kTimeout = 7, kTimeoutUs = 8 };
enum DeviceAttr {
  kCubeCoreNum = 102,
  kVectorCoreNum = 201,
  kTotalMem = 301,
  kPhyChip = 402,
  kVirtual = 501,
  kNpuArch = 601
};
enum HcclType {
  kInt8 = 0,
  kInt16 = 1,
  kInt32 = 2,
  kFp16 = 3,
  kFp32 = 4,
  kInt64 = 5,
  kUint64 = 6,
  kUint8 = 7,
  kUint16 = 8,
  kUint32 = 9,
  kFp64 = 10,
  kBfp16 = 11
};
enum HcclOp { kSum = 0, kProd = 1, kMax = 2, kMin = 3 };

// Reads a field at a literal offset.
template <typename T>
T Field(const void* base, size_t offset) {
  T value;
  std::memcpy(&value, static_cast<const char*>(base) + offset, sizeof value);
  return value;
}

}  // namespace fake::table

extern "C" {
int aclInit(const char* config);
int aclFinalize();
const char* aclGetRecentErrMsg();
int aclsysGetVersionNum(char* package, int32_t* number);
int aclrtGetDeviceCount(uint32_t* count);
int aclrtSetDevice(int32_t device);
int aclrtGetDevice(int32_t* device);
int aclrtResetDevice(int32_t device);
int aclrtResetDeviceForce(int32_t device);
int aclrtQueryDeviceStatus(int32_t device, int32_t* status);
const char* aclrtGetSocName();
int aclrtGetDeviceInfo(uint32_t device, int32_t attr, int64_t* value);
int aclrtGetMemInfo(int32_t attr, size_t* free, size_t* total);
int aclrtGetLogicDevIdByUserDevId(int32_t user, int32_t* logic);
int aclrtDeviceGetBareTgid(int32_t* pid);
int aclrtCreateStream(void** stream);
int aclrtCreateStreamWithConfig(void** stream, uint32_t priority, uint32_t flags);
int aclrtDestroyStream(void* stream);
int aclrtDestroyStreamForce(void* stream);
int aclrtSynchronizeStreamWithTimeout(void* stream, int32_t ms);
int aclrtStreamQuery(void* stream, int32_t* status);
int aclrtStreamAbort(void* stream);
int aclrtMalloc(void** pointer, size_t bytes, int32_t policy);
int aclrtFree(void* pointer);
int aclrtMallocHost(void** pointer, size_t bytes);
int aclrtFreeHost(void* pointer);
int aclrtMemcpy(void* to, size_t max, const void* from, size_t bytes, int32_t kind);
int aclrtMemcpyAsync(void* to, size_t max, const void* from, size_t bytes, int32_t kind,
                     void* stream);
int aclrtMemset(void* to, size_t max, int32_t value, size_t bytes);
int aclrtMemsetAsync(void* to, size_t max, int32_t value, size_t bytes, void* stream);
int aclrtCreateEventExWithFlag(void** event, uint32_t flag);
int aclrtRecordEvent(void* event, void* stream);
int aclrtQueryEventStatus(void* event, int32_t* status);
int aclrtSynchronizeEventWithTimeout(void* event, int32_t ms);
int aclrtStreamWaitEvent(void* stream, void* event);
int aclrtDestroyEvent(void* event);
int aclrtValueWrite(void* address, uint64_t value, uint32_t flag, void* stream);
int aclrtValueWait(void* address, uint64_t value, uint32_t flag, void* stream);
int aclrtMallocPhysical(void** handle, size_t bytes, const void* prop, uint64_t flags);
int aclrtFreePhysical(void* handle);
int aclrtReserveMemAddress(void** pointer, size_t bytes, size_t align, void* want, uint64_t flags);
int aclrtReleaseMemAddress(void* pointer);
int aclrtMapMem(void* pointer, size_t bytes, size_t offset, void* handle, uint64_t flags);
int aclrtUnmapMem(void* pointer);
int aclrtMemSetAccess(void* pointer, size_t bytes, void* descs, size_t count);
int aclrtMemGetAllocationGranularity(void* prop, int32_t option, size_t* bytes);
int aclrtMemExportToShareableHandle(void* handle, int32_t type, uint64_t flags, uint64_t* out);
int aclrtMemImportFromShareableHandle(uint64_t shareable, int32_t device, void** handle);
int aclrtMemSetPidToShareableHandle(uint64_t shareable, int32_t* pids, size_t count);
int aclrtMemExportToShareableHandleV2(void* handle, uint64_t flags, int32_t type, void* out);
int aclrtMemImportFromShareableHandleV2(void* in, int32_t type, uint64_t flags, void** handle);
int aclrtDeviceEnablePeerAccess(int32_t peer, uint32_t flags);
int aclrtDevicePeerAccessStatus(int32_t device, int32_t peer, int32_t* status);
int aclrtBinaryLoadFromFile(const char* path, void* options, void** binary);
int aclrtBinaryGetFunction(void* binary, const char* name, void** function);
int aclrtBinaryUnLoad(void* binary);
int aclrtLaunchKernelWithHostArgs(void* function, uint32_t blocks, void* stream, void* config,
                                  void* args, size_t bytes, void* holders, size_t count);

int HcclGetRootInfo(void* root);
int HcclCommInitRootInfo(uint32_t ranks, const void* root, uint32_t rank, void** comm);
int HcclCommInitRootInfoConfig(uint32_t ranks, const void* root, uint32_t rank, const void* config,
                               void** comm);
int HcclCommDestroy(void* comm);
int HcclGetRankId(void* comm, uint32_t* rank);
int HcclGetRankSize(void* comm, uint32_t* size);
const char* HcclGetErrorString(int code);
int HcclGetCommAsyncError(void* comm, int* error);
uint32_t HcclGetCommConfigCapability();
int HcclAllReduce(void* from, void* to, uint64_t count, int type, int op, void* comm, void* stream);
int HcclBroadcast(void* data, uint64_t count, int type, uint32_t root, void* comm, void* stream);
int HcclAllGather(void* from, void* to, uint64_t count, int type, void* comm, void* stream);
int HcclReduceScatter(void* from, void* to, uint64_t count, int type, int op, void* comm,
                      void* stream);
int HcclAlltoAllV(const void* from, const void* from_counts, const void* from_places, int from_type,
                  const void* to, const void* to_counts, const void* to_places, int to_type,
                  void* comm, void* stream);
int HcclBarrier(void* comm, void* stream);
}
