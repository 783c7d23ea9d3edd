// The backend's declarations against the tables of the fake, which were written apart from them;
// and against the real headers, where ASCEND_HOME_PATH has some.

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <type_traits>

#include "runtime/chip/ascend/cann/acl_abi.h"
#include "runtime/chip/ascend/cann/cann_functions.h"
#include "runtime/chip/ascend/cann/hccl_abi.h"
#include "tests/fake_cann/tables.h"

namespace pto::cann {
namespace {

namespace table = fake::table;

// ---- prototypes. Pointers of any kind are the same in registers, and so are enums and integers of
// one size and sign.
template <typename T>
struct Erased {
  using type = T;
};
template <typename T>
struct Erased<T*> {
  using type = std::conditional_t<std::is_const_v<T>, const void*, void*>;
};
template <typename R, typename... A>
struct Erased<R (*)(A...)> {
  using type = typename Erased<R>::type (*)(typename Erased<A>::type...);
};
template <typename T>
using ErasedOf = typename Erased<T>::type;

#define PTO_ACL(importance, capability, name, result, arguments)                                  \
  static_assert(std::is_same_v<ErasedOf<decltype(Functions::name)>, ErasedOf<decltype(&::name)>>, \
                "the prototype of " #name);
#define PTO_HCCL PTO_ACL
#include "runtime/chip/ascend/cann/functions.inc"
#undef PTO_ACL
#undef PTO_HCCL

TEST(AbiTest, LayoutsAreThoseOfTheTables) {
  EXPECT_EQ(sizeof(AclLocation), table::kMemLocationSize);
  EXPECT_EQ(offsetof(AclLocation, id), table::kMemLocationId);
  EXPECT_EQ(offsetof(AclLocation, type), table::kMemLocationType);
  EXPECT_EQ(sizeof(AclPhysicalProp), table::kPhysicalPropSize);
  EXPECT_EQ(offsetof(AclPhysicalProp, handle_type), table::kPropHandleType);
  EXPECT_EQ(offsetof(AclPhysicalProp, allocation_type), table::kPropAllocationType);
  EXPECT_EQ(offsetof(AclPhysicalProp, mem_attr), table::kPropMemAttr);
  EXPECT_EQ(offsetof(AclPhysicalProp, location), table::kPropLocation);
  EXPECT_EQ(offsetof(AclPhysicalProp, reserve), table::kPropReserve);
  EXPECT_EQ(sizeof(AclAccessDesc), table::kAccessDescSize);
  EXPECT_EQ(offsetof(AclAccessDesc, flags), table::kAccessFlags);
  EXPECT_EQ(offsetof(AclAccessDesc, location), table::kAccessLocation);
  EXPECT_EQ(offsetof(AclAccessDesc, reserved), table::kAccessReserved);
  EXPECT_EQ(sizeof(AclFabricHandle), table::kFabricHandleSize);
  EXPECT_EQ(sizeof(AclLoadOption), table::kLoadOptionSize);
  EXPECT_EQ(offsetof(AclLoadOption, type), table::kLoadOptionType);
  EXPECT_EQ(offsetof(AclLoadOption, value), table::kLoadOptionValue);
  EXPECT_EQ(sizeof(AclLoadOptions), table::kLoadOptionsSize);
  EXPECT_EQ(offsetof(AclLoadOptions, options), table::kLoadOptionsPointer);
  EXPECT_EQ(offsetof(AclLoadOptions, count), table::kLoadOptionsCount);
  EXPECT_EQ(sizeof(AclLaunchAttr), table::kLaunchAttrSize);
  EXPECT_EQ(offsetof(AclLaunchAttr, id), table::kLaunchAttrId);
  EXPECT_EQ(offsetof(AclLaunchAttr, value), table::kLaunchAttrValue);
  EXPECT_EQ(sizeof(AclLaunchConfig), table::kLaunchCfgSize);
  EXPECT_EQ(offsetof(AclLaunchConfig, attrs), table::kLaunchCfgPointer);
  EXPECT_EQ(offsetof(AclLaunchConfig, count), table::kLaunchCfgCount);
  EXPECT_EQ(sizeof(AclPlaceHolder), table::kPlaceHolderSize);
  EXPECT_EQ(offsetof(AclPlaceHolder, address_offset), table::kPlaceHolderAddr);
  EXPECT_EQ(offsetof(AclPlaceHolder, data_offset), table::kPlaceHolderData);
}

TEST(AbiTest, LayoutsOfHcclAreThoseOfTheTables) {
  EXPECT_EQ(sizeof(HcclRoot), table::kRootInfoSize);
  EXPECT_EQ(sizeof(HcclTransferItem), table::kSendRecvSize);
  EXPECT_EQ(offsetof(HcclTransferItem, type), table::kSendRecvType);
  EXPECT_EQ(offsetof(HcclTransferItem, buffer), table::kSendRecvBuf);
  EXPECT_EQ(offsetof(HcclTransferItem, count), table::kSendRecvCount);
  EXPECT_EQ(offsetof(HcclTransferItem, data_type), table::kSendRecvDataType);
  EXPECT_EQ(offsetof(HcclTransferItem, remote_rank), table::kSendRecvRemote);
  EXPECT_EQ(offsetof(HcclConfigPrologue, size), table::kCfgSize);
  EXPECT_EQ(offsetof(HcclConfigPrologue, magic), table::kCfgMagic);
  EXPECT_EQ(offsetof(HcclConfigPrologue, version), table::kCfgVersion);
  EXPECT_EQ(offsetof(HcclConfigV5, buffer_mib), table::kCfgBufferSize);
  EXPECT_EQ(offsetof(HcclConfigV5, deterministic), table::kCfgDeterministic);
  EXPECT_EQ(offsetof(HcclConfigV5, name), table::kCfgName);
  EXPECT_EQ(offsetof(HcclConfigV5, udi), table::kCfgUdi);
  EXPECT_EQ(offsetof(HcclConfigV5, expansion_mode), table::kCfgExpansion);
  EXPECT_EQ(offsetof(HcclConfigV5, traffic_class), table::kCfgTrafficClass);
  EXPECT_EQ(offsetof(HcclConfigV5, service_level), table::kCfgServiceLevel);
  EXPECT_EQ(offsetof(HcclConfigV5, world_rank), table::kCfgWorldRank);
  EXPECT_EQ(kHcclConfigV5Bytes, table::kCfgSizeV5);
  EXPECT_EQ(offsetof(HcclConfigV8, job_id), table::kCfgJobId);
  EXPECT_EQ(offsetof(HcclConfigV8, zero_copy), table::kCfgZeroCopy);
  EXPECT_EQ(offsetof(HcclConfigV8, exec_timeout_s), table::kCfgExecTimeout);
  EXPECT_EQ(offsetof(HcclConfigV8, algorithm), table::kCfgAlgo);
  EXPECT_EQ(offsetof(HcclConfigV8, retry_enable), table::kCfgRetryEnable);
  EXPECT_EQ(offsetof(HcclConfigV8, retry_params), table::kCfgRetryParams);
  EXPECT_EQ(kHcclConfigV8Bytes, table::kCfgSizeV8);
  EXPECT_EQ(kHcclConfigMagic, table::kCfgMagicValue);
}

TEST(AbiTest, NumbersAreThoseOfTheTables) {
  const std::pair<int, int> numbers[] = {
      {kHostToHost, table::kH2H},
      {kHostToDevice, table::kH2D},
      {kDeviceToHost, table::kD2H},
      {kDeviceToDevice, table::kD2D},
      {kDeviceNormal, table::kNormal},
      {kDeviceAbnormal, table::kAbnormal},
      {kStreamComplete, table::kStreamComplete},
      {kStreamNotReady, table::kStreamNotReady},
      {kEventNotReady, table::kRecordNotReady},
      {kEventComplete, table::kRecordComplete},
      {kValueGe, table::kGeq},
      {kValueEq, table::kEq},
      {kValueAnd, table::kAnd},
      {kValueNor, table::kNor},
      {kSchemMode, table::kSchemMode},
      {kLaunchTimeout, table::kTimeout},
      {kLaunchTimeoutUs, table::kTimeoutUs},
      {kCubeCores, table::kCubeCoreNum},
      {kVectorCores, table::kVectorCoreNum},
      {kGlobalMemory, table::kTotalMem},
      {kPhysicalChip, table::kPhyChip},
      {kIsVirtual, table::kVirtual},
      {kNpuArch, table::kNpuArch},
      {kHcclI8, table::kInt8},
      {kHcclI16, table::kInt16},
      {kHcclI32, table::kInt32},
      {kHcclF16, table::kFp16},
      {kHcclF32, table::kFp32},
      {kHcclI64, table::kInt64},
      {kHcclU64, table::kUint64},
      {kHcclU8, table::kUint8},
      {kHcclU16, table::kUint16},
      {kHcclU32, table::kUint32},
      {kHcclF64, table::kFp64},
      {kHcclBf16, table::kBfp16},
      {kHcclSum, table::kSum},
      {kHcclProd, table::kProd},
      {kHcclMax, table::kMax},
      {kHcclMin, table::kMin},
  };
  for (size_t i = 0; i < std::size(numbers); ++i) {
    EXPECT_EQ(numbers[i].first, numbers[i].second) << "row " << i;
  }
}

TEST(AbiTest, RealHeadersAgree) {
  const char* const home = std::getenv("ASCEND_HOME_PATH");
  const std::string header = std::string(home == nullptr ? "" : home) + "/include/acl/acl_rt.h";
  FILE* const file = home == nullptr ? nullptr : std::fopen(header.c_str(), "r");
  if (file == nullptr) GTEST_SKIP() << "ASCEND_HOME_PATH has no headers";
  std::fclose(file);
  const std::string folder = ::testing::TempDir();
  const std::string source = folder + "/check.cc";
  FILE* const out = std::fopen(source.c_str(), "w");
  ASSERT_NE(out, nullptr);
  std::fprintf(
      out,
      "#include \"acl/acl_rt.h\"\n#include \"hccl/hccl_types.h\"\n#include <cstddef>\n"
      "static_assert(sizeof(aclrtMemLocation) == %zu && sizeof(aclrtPhysicalMemProp) == %zu &&\n"
      "  sizeof(aclrtMemAccessDesc) == %zu && sizeof(aclrtMemFabricHandle) == %zu &&\n"
      "  sizeof(aclrtBinaryLoadOption) == %zu && sizeof(aclrtBinaryLoadOptions) == %zu &&\n"
      "  sizeof(aclrtLaunchKernelAttr) == %zu && sizeof(aclrtLaunchKernelCfg) == %zu &&\n"
      "  sizeof(aclrtPlaceHolderInfo) == %zu && sizeof(HcclRootInfo) == %zu &&\n"
      "  offsetof(aclrtMemAccessDesc, location) == %zu &&\n"
      "  offsetof(aclrtPhysicalMemProp, location) == %zu &&\n"
      "  ACL_MEMCPY_DEVICE_TO_HOST == %d && ACL_EVENT_RECORDED_STATUS_COMPLETE == %d &&\n"
      "  HCCL_DATA_TYPE_FP32 == %d && HCCL_REDUCE_MAX == %d);\n",
      sizeof(AclLocation), sizeof(AclPhysicalProp), sizeof(AclAccessDesc), sizeof(AclFabricHandle),
      sizeof(AclLoadOption), sizeof(AclLoadOptions), sizeof(AclLaunchAttr), sizeof(AclLaunchConfig),
      sizeof(AclPlaceHolder), sizeof(HcclRoot), offsetof(AclAccessDesc, location),
      offsetof(AclPhysicalProp, location), static_cast<int>(kDeviceToHost),
      static_cast<int>(kEventComplete), static_cast<int>(kHcclF32), static_cast<int>(kHcclMax));
  std::fclose(out);
  const std::string command =
      "g++ -std=c++17 -fsyntax-only -I" + std::string(home) + "/include " + source;
  EXPECT_EQ(std::system(command.c_str()), 0);
}

}  // namespace
}  // namespace pto::cann
