// What the device does wrong, and that it is said, bounded, and over after a reset.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>

#include "runtime/chip/ascend/device/testing/device_world.h"

namespace pto::ascend::testing {
namespace {

using ::testing::HasSubstr;

class DeviceFaultTest : public DeviceTest {
 protected:
  DeviceFaultTest() {
    reset_ = true;
    copy_timeout_ = absl::Milliseconds(200);
  }

  // The device works: copies and kernels.
  void ExpectWorks() {
    const uint32_t spmd = LoadKernel("pto_spmd");
    const DeviceAddress out = Upload(std::vector<int32_t>(16, -1));
    Launched launched;
    ASSERT_THAT(Launch(spmd, {Vector(out, 16, host::PtoType::kI32)}, {}, &launched), IsOk());
    ASSERT_TRUE(Await([&] { return launched.ended; }));
    EXPECT_THAT(launched.status, IsOk());
    EXPECT_EQ(Download<int32_t>(out, 2), (std::vector<int32_t>{0, 1}));
    FreeAll();
  }

  void ExpectFailedUntilReset(const std::string& text) {
    EXPECT_TRUE(device_->failed());
    EXPECT_THAT(std::string(device_->first_error().message()), HasSubstr(text));
    EXPECT_THAT(device_->Probe(), HasSubstr(text));
    // Later errors quote the first.
    const absl::Status later = device_->Allocate(64).status();
    EXPECT_THAT(later, HasReason(reason::kDeviceFailed));
    EXPECT_THAT(std::string(later.message()), HasSubstr(text));
    SetPlan("");
    allocated_.clear();
    ASSERT_THAT(device_->Reset(), IsOk());
    EXPECT_EQ(device_->Probe(), "");
    ExpectWorks();
  }

  Launched RunKernel(const std::string& name, std::vector<int64_t> scalars,
                     absl::Duration timeout) {
    Launched launched;
    const auto ticket =
        Launch(LoadKernel(name), {}, std::move(scalars), &launched, 0, 1, {}, false, timeout);
    if (!ticket.ok()) {
      launched.ended = true;
      launched.status = ticket.status();
    }
    EXPECT_TRUE(Await([&] { return launched.ended; }));
    return launched;
  }
};

TEST_F(DeviceFaultTest, AKernelThatCrashesIsNamedAndTheChipRecovers) {
  for (int i = 0; i < 5; ++i) {
    const Launched launched = RunKernel("pto_faulty", {0}, absl::InfiniteDuration());
    EXPECT_THAT(launched.status, HasReason(reason::kDeviceFailed));
    EXPECT_THAT(std::string(launched.status.message()), HasSubstr("AICORE_EXCEPTION 507015"));
    EXPECT_THAT(std::string(launched.status.message()), HasSubstr("EZ9999"));
    ExpectFailedUntilReset("AICORE_EXCEPTION");
  }
}

TEST_F(DeviceFaultTest, AKernelThatDoesNotEndIsStoppedByItsTimeout) {
  // Seconds are milliseconds for the fake.
  const Launched launched = RunKernel("pto_faulty", {1}, absl::Seconds(50));
  EXPECT_THAT(std::string(launched.status.message()), HasSubstr("AICORE_TIMEOUT 507014"));
  ExpectFailedUntilReset("AICORE_TIMEOUT");
}

TEST_F(DeviceFaultTest, WhatComesBehindAFailureDidNotRun) {
  const uint32_t faults = LoadKernel("pto_faulty");
  const uint32_t spmd = LoadKernel("pto_spmd");
  const DeviceAddress out = Upload(std::vector<int32_t>(16, -1));
  Launched first;
  Launched second;
  Launched other;
  ASSERT_THAT(Launch(faults, {}, {2}, &first), IsOk());
  ASSERT_THAT(Launch(spmd, {Vector(out, 16, host::PtoType::kI32)}, {}, &second), IsOk());
  ASSERT_THAT(Launch(faults, {}, {1}, &other, 1), IsOk());
  EXPECT_TRUE(Await([&] { return first.ended && second.ended && other.ended; }));
  EXPECT_THAT(second.status, HasReason(reason::kDeviceFailed));
  EXPECT_THAT(other.status, HasReason(reason::kDeviceFailed));
  ExpectFailedUntilReset("");
}

TEST_F(DeviceFaultTest, AnEventThatNeverComesIsAbortedAtItsDeadline) {
  const DeviceAddress to = Upload(std::vector<int>(100, 1));
  const std::vector<int> from(100, 2);
  SetPlan("op:event:1=hang");
  const absl::Status late =
      Run([&](Done done) { device_->Write(to, from.data(), 400, std::move(done)); });
  EXPECT_THAT(late, HasReason(reason::kDeviceFailed));
  EXPECT_THAT(std::string(late.message()), HasSubstr("in time"));
  // The stream was aborted, so the chip goes on.
  EXPECT_FALSE(device_->failed());
  SetPlan("");
  ExpectWorks();
}

TEST_F(DeviceFaultTest, AnAbortThatFailsMakesTheChipFail) {
  const DeviceAddress to = Upload(std::vector<int>(100, 1));
  const std::vector<int> from(100, 2);
  SetPlan("op:copy:1=hang;aclrtStreamAbort:*=207000");
  const absl::Status late =
      Run([&](Done done) { device_->Write(to, from.data(), 400, std::move(done)); });
  EXPECT_THAT(late, HasReason(reason::kDeviceFailed));
  ExpectFailedUntilReset("could not be aborted");
}

TEST_F(DeviceFaultTest, PoisonHoldsUntilAForcedReset) {
  SetPlan("aclrtMalloc:1=poison,507899");
  EXPECT_THAT(device_->Allocate(64), HasReason(reason::kDeviceFailed));
  ExpectFailedUntilReset("DRV_INTERNAL_ERROR 507899");
}

TEST_F(DeviceFaultTest, ExhaustedMemoryIsNoFaultOfTheChip) {
  SetPlan("aclrtMalloc:1=207018");
  EXPECT_THAT(device_->Allocate(64), HasReason(reason::kChipMemoryExhausted));
  EXPECT_FALSE(device_->failed());
  ExpectWorks();
}

TEST_F(DeviceFaultTest, AFailedCopyFailsTheChip) {
  const DeviceAddress to = Upload(std::vector<int>(100, 1));
  const std::vector<int> from(100, 2);
  SetPlan("op:copy:1=507013");
  const absl::Status failed =
      Run([&](Done done) { device_->Write(to, from.data(), 400, std::move(done)); });
  EXPECT_THAT(std::string(failed.message()), HasSubstr("SYS_DMA_ERROR 507013"));
  ExpectFailedUntilReset("507013");
}

TEST_F(DeviceFaultTest, AMissingTextOfTheVendorIsNoProblem) {
  SetPlan("aclrtMalloc:1=507899;aclGetRecentErrMsg:*=1");
  EXPECT_THAT(device_->Allocate(64), HasReason(reason::kDeviceFailed));
  ExpectFailedUntilReset("507899");
}

TEST_F(DeviceFaultTest, AnAbnormalStatusIsFoundByAProbe) {
  SetPlan("aclrtQueryDeviceStatus:1=corrupt");
  EXPECT_THAT(device_->Probe(), HasSubstr("abnormal"));
  ExpectFailedUntilReset("abnormal");
}

TEST_F(DeviceFaultTest, AnEndThatNobodyWouldNoticeFailsTheChip) {
  const uint32_t spmd = LoadKernel("pto_spmd");
  const DeviceAddress out = Upload(std::vector<int32_t>(16, -1));
  SetPlan("aclrtRecordEvent:1=207007");
  Launched launched;
  EXPECT_THAT(Launch(spmd, {Vector(out, 16, host::PtoType::kI32)}, {}, &launched),
              HasReason(reason::kDeviceFailed));
  ExpectFailedUntilReset("nobody would notice");
}

TEST_F(DeviceFaultTest, AKernelThatIsGoneFailsTheChip) {
  const uint32_t spmd = LoadKernel("pto_spmd");
  SetPlan("aclrtLaunchKernelWithHostArgs:1=207001");
  Launched launched;
  (void)Launch(spmd, {}, {}, &launched);
  ExpectFailedUntilReset("207001");
}

TEST_F(DeviceFaultTest, ACauseOnAnotherDeviceLeavesThisOneAlone) {
  const uint32_t spmd = LoadKernel("pto_spmd");
  const DeviceAddress out = Upload(std::vector<int32_t>(16, -1));
  SetPlan("op:kernel:1=507057");
  for (int i = 0; i < 2; ++i) {
    Launched launched;
    ASSERT_THAT(Launch(spmd, {Vector(out, 16, host::PtoType::kI32)}, {}, &launched), IsOk());
    ASSERT_TRUE(Await([&] { return launched.ended; }));
    if (i == 0) {
      EXPECT_THAT(launched.status, HasReason(reason::kDeviceFailed));
    } else {
      EXPECT_THAT(launched.status, IsOk()) << "the same stream works again";
    }
  }
  EXPECT_FALSE(device_->failed());
  ExpectWorks();
}

TEST_F(DeviceFaultTest, ALaunchIsCancelledAlone) {
  const uint32_t faulty = LoadKernel("pto_faulty");
  const uint32_t spmd = LoadKernel("pto_spmd");
  const DeviceAddress out = Upload(std::vector<int32_t>(16, -1));
  SetPlan("op:kernel:2=delay,100");
  Launched endless;
  Launched other;
  const auto ticket = Launch(faulty, {}, {1}, &endless);
  ASSERT_THAT(ticket, IsOk());
  while (CountCalls("aclrtLaunchKernelWithHostArgs") < 1) std::this_thread::yield();
  ASSERT_THAT(Launch(spmd, {Vector(out, 16, host::PtoType::kI32)}, {}, &other, 1), IsOk());
  EXPECT_THAT(device_->Cancel(**ticket, Error(reason::kRunCancelled, "by the test")), IsOk());
  EXPECT_TRUE(endless.ended);
  EXPECT_THAT(endless.status, HasReason(reason::kRunCancelled));
  EXPECT_TRUE(Await([&] { return other.ended; }));
  EXPECT_THAT(other.status, IsOk());
  EXPECT_FALSE(device_->failed());
  ExpectWorks();
}

TEST_F(DeviceFaultTest, ALaunchThatIsNotAloneInItsStreamIsNotCancelled) {
  const uint32_t faulty = LoadKernel("pto_faulty");
  const uint32_t spmd = LoadKernel("pto_spmd");
  Launched endless;
  Launched behind;
  const auto ticket = Launch(faulty, {}, {1}, &endless);
  ASSERT_THAT(ticket, IsOk());
  ASSERT_THAT(Launch(spmd, {}, {}, &behind), IsOk());
  EXPECT_THAT(device_->Cancel(**ticket, absl::CancelledError()), HasReason(reason::kNotAvailable));
  EXPECT_FALSE(endless.ended);
  ASSERT_THAT(device_->Reset(), IsOk());
}

class SlowCopyTest : public DeviceFaultTest {
 protected:
  SlowCopyTest() { copy_timeout_ = absl::Milliseconds(600); }
};

TEST_F(SlowCopyTest, TheTimeOfACopyBeginsWhenItsTurnComes) {
  const DeviceAddress to = Upload(std::vector<int>(100, 1));
  SetPlan("op:fill:*=delay,250");
  int ended = 0;
  for (int i = 0; i < 4; ++i) {
    device_->Fill(to, 400, 0, [&](const absl::Status& status) {
      EXPECT_THAT(status, IsOk());
      ++ended;
    });
  }
  EXPECT_TRUE(Await([&] { return ended == 4; }));
  SetPlan("");
  ExpectWorks();
}

TEST_F(DeviceFaultTest, AResetThatFailsLosesTheChip) {
  SetPlan("aclrtResetDeviceForce:1=507899");
  EXPECT_THAT(device_->Reset(), HasReason(reason::kDeviceFailed));
  EXPECT_TRUE(device_->lost());
  allocated_.clear();
}

TEST_F(DeviceFaultTest, AResetEndsWhatIsPending) {
  const DeviceAddress to = Upload(std::vector<int>(100, 1));
  const std::vector<int> from(100, 2);
  SetPlan("op:copy:1=delay,100");
  bool ended = false;
  absl::Status status;
  device_->Write(to, from.data(), 400, [&](const absl::Status& result) {
    ended = true;
    status = result;
  });
  const uint32_t epoch = device_->epoch();
  ASSERT_THAT(device_->Reset(), IsOk());
  EXPECT_TRUE(ended);
  EXPECT_THAT(status, HasReason(reason::kDeviceFailed));
  EXPECT_EQ(device_->epoch(), epoch + 1);
  allocated_.clear();
  ExpectWorks();
}

}  // namespace
}  // namespace pto::ascend::testing
