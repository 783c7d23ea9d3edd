#include "runtime/chip/ascend/device/device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <numeric>

#include "runtime/base/sanitized.h"
#include "runtime/chip/ascend/device/testing/device_world.h"

namespace pto::ascend::testing {
namespace {

TEST_F(DeviceTest, DescribesItself) {
  const DeviceShape& shape = device_->shape();
  EXPECT_EQ(shape.soc, "Ascend910B3");
  EXPECT_EQ(shape.memory_bytes, uint64_t{256} << 20);
  if (can_launch()) {
    EXPECT_EQ(shape.cube_cores, 4u);
    EXPECT_EQ(shape.vector_cores, 8u);
    EXPECT_EQ(shape.physical_id, 0);
  }
  EXPECT_EQ(device_->Probe(), "");
}

TEST_F(DeviceTest, BytesGoThereAndBackInSeveralPieces) {
  std::vector<uint32_t> numbers((5 << 20) / 4 + 3);
  std::iota(numbers.begin(), numbers.end(), 7);
  const DeviceAddress address = Upload(numbers);
  EXPECT_EQ(Download<uint32_t>(address, numbers.size()), numbers);
  FreeAll();
}

TEST_F(DeviceTest, AnAddressOfTheDeviceIsNoMemoryOfTheHost) {
  const DeviceAddress address = Upload(std::vector<int>{1, 2, 3});
  // A sanitizer turns the signal into an end of its own.
  const auto dies = [](int status) {
    return kSanitized ? status != 0 : ::testing::KilledBySignal(SIGSEGV)(status);
  };
  EXPECT_EXIT(*reinterpret_cast<volatile int*>(address) = 1, dies, "");
  FreeAll();
}

TEST_F(DeviceTest, FillsAndCopies) {
  const DeviceAddress from = Upload(std::vector<uint32_t>(1000, 5));
  const DeviceAddress to = Upload(std::vector<uint32_t>(1000, 6));
  EXPECT_THAT(Run([&](Done done) { device_->Fill(from, 2000, 0xff, done); }), IsOk());
  EXPECT_THAT(Run([&](Done done) { device_->Copy(to, from, 3000, done); }), IsOk());
  const std::vector<uint32_t> numbers = Download<uint32_t>(to, 1000);
  EXPECT_EQ(numbers[0], 0xffffffffu);
  EXPECT_EQ(numbers[500], 5u);
  EXPECT_EQ(numbers[750], 6u);
  FreeAll();
}

TEST_F(DeviceTest, MemoryThatIsNotThereIsAnErrorOfItsOwn) {
  EXPECT_THAT(device_->Allocate(uint64_t{1} << 40), HasReason(reason::kChipMemoryExhausted));
  EXPECT_EQ(device_->Probe(), "");
}

TEST_F(DeviceTest, AReleaseWithoutLaunchesSaysSo) {
  if (can_launch()) GTEST_SKIP();
  EXPECT_THAT(device_->LoadKernel(KernelPath("pto_vector_add"), "kernel_entry"),
              HasReason(reason::kNotAvailable));
}

TEST_F(DeviceTest, AChainRunsInOrderWithoutTheHost) {
  if (!can_launch()) GTEST_SKIP();
  const uint32_t add = LoadKernel("pto_vector_add");
  const uint32_t count = 256;
  const DeviceAddress one = Upload(std::vector<float>(count, 1));
  const DeviceAddress sum = Upload(std::vector<float>(count, 0));
  constexpr int kTasks = 50;
  std::vector<Launched> launched(kTasks);
  const auto tensor = [&](DeviceAddress at) { return Vector(at, count, host::PtoType::kF32); };
  for (Launched& each : launched) {
    ASSERT_THAT(Launch(add, {tensor(one), tensor(sum), tensor(sum)}, {}, &each), IsOk());
  }
  EXPECT_TRUE(Await([&] { return launched.back().ended; }));
  for (const Launched& each : launched) EXPECT_THAT(each.status, IsOk());
  EXPECT_EQ(Download<float>(sum, count), std::vector<float>(count, kTasks));
  FreeAll();
}

TEST_F(DeviceTest, EdgesBetweenStreamsAreKept) {
  if (!can_launch()) GTEST_SKIP();
  const uint32_t add = LoadKernel("pto_vector_add");
  const uint32_t count = 64;
  const DeviceAddress one = Upload(std::vector<float>(count, 1));
  const DeviceAddress sum = Upload(std::vector<float>(count, 0));
  const auto tensor = [&](DeviceAddress at) { return Vector(at, count, host::PtoType::kF32); };
  // Each in another stream than the one before, the first of which takes long.
  SetPlan("op:kernel:1=delay,50");
  constexpr int kTasks = 12;
  std::vector<Launched> launched(kTasks);
  std::vector<uint64_t> before;
  for (int i = 0; i < kTasks; ++i) {
    const auto ticket = Launch(add, {tensor(one), tensor(sum), tensor(sum)}, {}, &launched[i],
                               static_cast<uint32_t>(i), 1, before);
    ASSERT_THAT(ticket, IsOk());
    before = {**ticket};
  }
  EXPECT_TRUE(Await([&] { return launched.back().ended; }));
  EXPECT_EQ(Download<float>(sum, count), std::vector<float>(count, kTasks));
  FreeAll();
}

TEST_F(DeviceTest, EachBlockGetsItsOwnPayload) {
  if (!can_launch()) GTEST_SKIP();
  const uint32_t spmd = LoadKernel("pto_spmd");
  const uint32_t blocks = 8;
  const DeviceAddress out = Upload(std::vector<int32_t>(blocks * 16, -1));
  Launched launched;
  ASSERT_THAT(Launch(spmd, {Vector(out, blocks * 16, host::PtoType::kI32)}, {}, &launched, 0,
                     blocks, {}, /*together=*/true),
              IsOk());
  EXPECT_TRUE(Await([&] { return launched.ended; }));
  EXPECT_THAT(launched.status, IsOk());
  const std::vector<int32_t> numbers = Download<int32_t>(out, blocks * 16);
  for (uint32_t block = 0; block < blocks; ++block) {
    EXPECT_EQ(numbers[block * 16], static_cast<int32_t>(block));
    EXPECT_EQ(numbers[block * 16 + 1], static_cast<int32_t>(blocks));
  }
  FreeAll();
}

TEST_F(DeviceTest, WhatABlockReportsIsReadBack) {
  if (!can_launch()) GTEST_SKIP();
  const uint32_t conditions = LoadKernel("pto_conditions");
  Launched failed;
  ASSERT_THAT(Launch(conditions, {}, {0, 0, 0, 0, 101}, &failed), IsOk());
  Launched deferred;
  ASSERT_THAT(Launch(conditions, {}, {2, 0, 4096, 1, 0}, &deferred), IsOk());
  EXPECT_TRUE(Await([&] { return deferred.ended; }));
  EXPECT_THAT(failed.status, IsOk());
  EXPECT_EQ(failed.header.error, 101);
  EXPECT_EQ(deferred.header.error, 0);
  EXPECT_EQ(deferred.header.conditions, 2u);
}

TEST_F(DeviceTest, AKernelThatIsNotThereIsRefused) {
  if (!can_launch()) GTEST_SKIP();
  EXPECT_FALSE(device_->LoadKernel("/no/such/file", "kernel_entry").ok());
  EXPECT_FALSE(device_->LoadKernel(KernelPath("pto_vector_add"), "other_entry").ok());
  EXPECT_EQ(device_->Probe(), "");
}

TEST_F(DeviceTest, AFullArenaIsNoFault) {
  if (!can_launch()) GTEST_SKIP();
  const uint32_t spmd = LoadKernel("pto_spmd");
  const DeviceAddress out = Upload(std::vector<int32_t>(16, -1));
  std::vector<Launched> launched(2000);
  size_t begun = 0;
  bool full = false;
  SetPlan("op:kernel:1=delay,20");
  while (begun < launched.size()) {
    const auto ticket = Launch(spmd, {Vector(out, 16, host::PtoType::kI32)}, {}, &launched[begun]);
    ASSERT_THAT(ticket, IsOk());
    full = !ticket->has_value();
    if (full) break;
    ++begun;
  }
  EXPECT_TRUE(full);
  EXPECT_TRUE(Await([&] { return launched[begun - 1].ended; }));
  Launched again;
  EXPECT_THAT(Launch(spmd, {Vector(out, 16, host::PtoType::kI32)}, {}, &again), IsOk());
  EXPECT_TRUE(Await([&] { return again.ended; }));
  FreeAll();
}

TEST_F(DeviceTest, AnErrorBehindTheFirstStepIsToldWhenTheDeviceHasEnded) {
  if (!can_launch()) GTEST_SKIP();
  const uint32_t spmd = LoadKernel("pto_spmd");
  const DeviceAddress out = Upload(std::vector<int32_t>(16 * 8, -1));
  // More often than the arena has room: nothing of it is lost.
  constexpr int kTimes = 300;
  for (int i = 0; i < kTimes; ++i) {
    // The arguments are there and the kernel is under way; what it says cannot be read back.
    SetPlan("aclrtMemcpyAsync:2=207005");
    Launched launched;
    const auto ticket =
        Launch(spmd, {Vector(out, 16 * 8, host::PtoType::kI32)}, {}, &launched, 0, 8);
    ASSERT_THAT(ticket, IsOk());
    ASSERT_TRUE(ticket->has_value());
    EXPECT_TRUE(Await([&] { return launched.ended; }));
    EXPECT_THAT(launched.status, HasReason(reason::kChipMemoryExhausted));
  }
  EXPECT_EQ(CountLines("did kernel"), kTimes) << "each ran once";
  SetPlan("");
  FreeAll();
}

TEST_F(DeviceTest, ALackOfEventsIsNoticedBeforeAnythingIsBegun) {
  if (!can_launch()) GTEST_SKIP();
  const uint32_t spmd = LoadKernel("pto_spmd");
  SetPlan("aclrtCreateEventExWithFlag:*=207007");
  Launched launched;
  EXPECT_THAT(Launch(spmd, {}, {}, &launched), HasReason(reason::kChipMemoryExhausted));
  EXPECT_EQ(CountCalls("aclrtMemcpyAsync"), 0);
  std::vector<int> numbers(100);
  const absl::StatusOr<DeviceAddress> memory = device_->Allocate(400);
  ASSERT_THAT(memory, IsOk());
  EXPECT_THAT(Run([&](Done done) { device_->Write(*memory, numbers.data(), 400, done); }),
              HasReason(reason::kChipMemoryExhausted));
  EXPECT_EQ(CountCalls("aclrtMemcpyAsync"), 0);
  SetPlan("");
  // Both staging buffers can be used again.
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(Run([&](Done done) { device_->Write(*memory, numbers.data(), 400, done); }),
                IsOk());
  }
  EXPECT_THAT(device_->Free(*memory), IsOk());
}

TEST_F(DeviceTest, MemoryIsFreedBehindWhatUsesIt) {
  const DeviceAddress memory = Upload(std::vector<int>(100, 1));
  allocated_.clear();
  SetPlan("op:fill:1=delay,100");
  bool filled = false;
  device_->Fill(memory, 400, 0, [&](const absl::Status&) { filled = true; });
  // The fake tells if it is freed too early.
  EXPECT_THAT(device_->Free(memory), IsOk());
  EXPECT_FALSE(filled);
  EXPECT_TRUE(Await([&] { return !device_->busy(); }));
  EXPECT_EQ(CountCalls("aclrtFree"), 2) << "one of the probe";
}

TEST_F(DeviceTest, OneLookEndsManyTasks) {
  if (!can_launch()) GTEST_SKIP();
  const uint32_t spmd = LoadKernel("pto_spmd");
  const DeviceAddress out = Upload(std::vector<int32_t>(16, -1));
  std::vector<Launched> launched(100);
  for (Launched& each : launched) {
    ASSERT_THAT(Launch(spmd, {Vector(out, 16, host::PtoType::kI32)}, {}, &each), IsOk());
  }
  EXPECT_TRUE(Await([&] { return launched.back().ended; }));
  const int before = CountCalls("aclrtQueryEventStatus");
  std::vector<Launched> more(100);
  for (Launched& each : more) {
    ASSERT_THAT(Launch(spmd, {Vector(out, 16, host::PtoType::kI32)}, {}, &each), IsOk());
  }
  // Nobody looks before all have ended.
  while (CountLines("did kernel") < 200) std::this_thread::yield();
  EXPECT_TRUE(Await([&] { return more.back().ended; }));
  EXPECT_LE(CountCalls("aclrtQueryEventStatus") - before, 40);
  FreeAll();
}

}  // namespace
}  // namespace pto::ascend::testing
