#include "runtime/chip/ascend/cann/acl_codes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "runtime/base/error.h"

namespace pto::cann {
namespace {

using ::testing::HasSubstr;

TEST(AclCodesTest, AnErrorHasNameNumberClassVendorTextAndHint) {
  const absl::Status status = AclStatus(507015, "launching 'scale'", "EZ9999: Inner\n error!");
  EXPECT_EQ(ReasonOf(status), "DEVICE_FAILED");
  const std::string text(status.message());
  EXPECT_THAT(text, HasSubstr("launching 'scale': a kernel has caused an exception"));
  EXPECT_THAT(text, HasSubstr("ACL_ERROR_RT_AICORE_EXCEPTION 507015"));
  EXPECT_THAT(text, HasSubstr("EZ9999: Inner error!"));
  const auto detail = GetErrorDetail(status);
  ASSERT_TRUE(detail.has_value());
  EXPECT_THAT(detail->hint, HasSubstr("outside of its tensors"));
  EXPECT_THAT(detail->metadata, ::testing::Contains(::testing::Pair("class", "kernel")));
}

TEST(AclCodesTest, EachClassHasItsReason) {
  EXPECT_TRUE(AclStatus(0, "x", nullptr).ok());
  EXPECT_EQ(ReasonOf(AclStatus(207018, "x", nullptr)), "CHIP_MEMORY_EXHAUSTED");
  EXPECT_EQ(ReasonOf(AclStatus(100039, "x", nullptr)), "CANN_UNUSABLE");
  EXPECT_EQ(ReasonOf(AclStatus(207000, "x", nullptr)), "NOT_AVAILABLE");
  EXPECT_EQ(ReasonOf(AclStatus(507899, "x", nullptr)), "DEVICE_FAILED");
  EXPECT_EQ(ReasonOf(HcclStatus(24, "x", nullptr)), "CHIP_MEMORY_EXHAUSTED");
  EXPECT_EQ(ReasonOf(HcclStatus(9, "x", nullptr)), "DEVICE_FAILED");
}

TEST(AclCodesTest, UnknownCodesAreJudgedByTheirRange) {
  EXPECT_EQ(DescribeAcl(107999).fault_class, FaultClass::kCaller);
  EXPECT_EQ(DescribeAcl(207999).fault_class, FaultClass::kCapacity);
  EXPECT_EQ(DescribeAcl(507999).fault_class, FaultClass::kDevice);
  EXPECT_EQ(DescribeAcl(42).fault_class, FaultClass::kDevice);
}

TEST(AclCodesTest, OnlyFaultsOfTheDevicePoisonIt) {
  EXPECT_TRUE(PoisonsDevice(DescribeAcl(507015).fault_class));
  EXPECT_TRUE(PoisonsDevice(DescribeAcl(507899).fault_class));
  EXPECT_FALSE(PoisonsDevice(DescribeAcl(207018).fault_class));
  EXPECT_FALSE(PoisonsDevice(DescribeAcl(507046).fault_class));
  EXPECT_FALSE(PoisonsDevice(DescribeAcl(107000).fault_class));
}

TEST(AclCodesTest, ACauseOnAnotherDeviceDoesNotPoisonThisOne) {
  for (const int code : {507018, 507048, 507057, 507904, 507915}) {
    EXPECT_EQ(DescribeAcl(code).fault_class, FaultClass::kRemote) << code;
    EXPECT_FALSE(PoisonsDevice(DescribeAcl(code).fault_class)) << code;
  }
}

TEST(AclCodesTest, TimeoutsAndLinksAreNoLackOfMemory) {
  EXPECT_EQ(ReasonOf(AclStatus(207020, "x", nullptr)), "DEVICE_FAILED");
  EXPECT_EQ(ReasonOf(AclStatus(207021, "x", nullptr)), "NOT_AVAILABLE");
  EXPECT_EQ(DescribeAcl(507914).name, "RT_L3_PORT_ERROR");
}

TEST(AclCodesTest, TheTextOfHcclSaysMoreThanItsNumber) {
  // One cause with three numbers, by release.
  for (const int number : {7, 11, 19}) {
    EXPECT_EQ(ReasonOf(HcclStatus(number, "x", "EI0019: the port is in use")), "CANN_UNUSABLE");
  }
  const auto detail = GetErrorDetail(HcclStatus(4, "x", "EI0006: a link was not made in time"));
  ASSERT_TRUE(detail.has_value());
  EXPECT_THAT(detail->metadata, ::testing::Contains(::testing::Pair("class", "remote")));
  EXPECT_EQ(ClassOfText("EI0011, and later EI0006"), FaultClass::kCapacity);
  EXPECT_EQ(ClassOfText("EI9999: internal"), absl::nullopt);
}

TEST(AclCodesTest, VendorTextIsBounded) {
  const std::string text(5000, 'x');
  EXPECT_LE(VendorText(text.c_str()).size(), 600u);
  EXPECT_EQ(VendorText(nullptr), "");
}

}  // namespace
}  // namespace pto::cann
