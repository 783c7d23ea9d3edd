#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "runtime/base/error.h"
#include "runtime/base/status_matchers.h"
#include "runtime/chip/ascend/device/device.h"
#include "runtime/chip/ascend/device/payload.h"
#include "tests/fake_cann/testing/fake_machine.h"

namespace pto::ascend::testing {

using ::pto::testing::HasReason;
using ::pto::testing::IsOk;

// A device of the fake, closed and checked for breaches of the rules at the end.
class DeviceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    FakeCann();
    SetPlan("");
    TakeBreaches(true);
    Open();
  }
  void TearDown() override {
    SetPlan("");
    device_.reset();
    EXPECT_THAT(TakeBreaches(reset_), ::testing::IsEmpty());
  }

  void Open() {
    DeviceOptions options;
    options.streams = 4;
    options.staging_bytes = uint64_t{1} << 20;
    options.arena_bytes = uint64_t{2} << 20;
    options.copy_timeout = copy_timeout_;
    options.launch_slack = absl::Seconds(1);
    absl::StatusOr<std::unique_ptr<Device>> device = Device::Open(FakeCann(), options);
    ASSERT_THAT(device, IsOk());
    device_ = *std::move(device);
  }

  bool can_launch() const { return FakeCann().functions.Has(cann::Capability::kLaunch); }

  // Polls until the condition holds. What takes longer is a hang.
  template <typename Condition>
  bool Await(Condition condition) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!condition()) {
      if (std::chrono::steady_clock::now() > until) return false;
      if (device_->Poll() == 0) std::this_thread::yield();
    }
    return true;
  }

  // Runs something that ends in a Done.
  absl::Status Run(const std::function<void(Done)>& begin) {
    bool ended = false;
    absl::Status result;
    begin([&](const absl::Status& status) {
      ended = true;
      result = status;
    });
    EXPECT_TRUE(Await([&] { return ended; }));
    return result;
  }

  template <typename T>
  DeviceAddress Upload(const std::vector<T>& values) {
    const absl::StatusOr<DeviceAddress> address = device_->Allocate(values.size() * sizeof(T));
    EXPECT_THAT(address, IsOk());
    allocated_.push_back(*address);
    EXPECT_THAT(Run([&](Done done) {
                  device_->Write(*address, values.data(), values.size() * sizeof(T), done);
                }),
                IsOk());
    return *address;
  }

  template <typename T>
  std::vector<T> Download(DeviceAddress address, size_t count) {
    std::vector<T> values(count);
    EXPECT_THAT(
        Run([&](Done done) { device_->Read(address, values.data(), count * sizeof(T), done); }),
        IsOk());
    return values;
  }

  void FreeAll() {
    for (const DeviceAddress address : allocated_) EXPECT_THAT(device_->Free(address), IsOk());
    allocated_.clear();
  }

  static std::string KernelPath(const std::string& name) {
    char folder[4096];
    EXPECT_NE(getcwd(folder, sizeof folder), nullptr);
    return absl::StrCat(folder,
                        name == "pto_faulty" ? "/tests/fake_cann/kernels/" : "/tests/kernels/",
                        name, "_gcc.so");
  }

  uint32_t LoadKernel(const std::string& name) {
    const absl::StatusOr<uint32_t> kernel = device_->LoadKernel(KernelPath(name), "kernel_entry");
    EXPECT_THAT(kernel, IsOk());
    return kernel.ok() ? *kernel : 0;
  }

  static host::PtoTensor Vector(DeviceAddress address, uint32_t count, host::PtoType type) {
    host::PtoTensor tensor = {};
    tensor.buffer_address = address;
    tensor.buffer_bytes = uint64_t{count} * 4;
    tensor.owner_task = host::kPtoNoTask;
    tensor.ndim = 1;
    tensor.dtype = static_cast<uint8_t>(type);
    tensor.contiguous = 1;
    tensor.address_space = 1;
    tensor.shape[0] = count;
    tensor.strides[0] = 1;
    tensor.extent = count;
    return tensor;
  }

  struct Launched {
    bool ended = false;
    absl::Status status;
    BlockHeader header;
    uint32_t block = 0;
  };

  // Launches a kernel; `launched` lives until it has ended.
  absl::StatusOr<absl::optional<uint64_t>> Launch(
      uint32_t kernel, std::vector<host::PtoTensor> tensors, std::vector<int64_t> scalars,
      Launched* launched, uint32_t stream = 0, uint32_t blocks = 1,
      std::vector<uint64_t> after = {}, bool together = false,
      absl::Duration timeout = absl::InfiniteDuration()) {
    const PayloadLayout layout = PayloadLayout::Of(tensors.size(), blocks);
    LaunchSpec spec;
    spec.kernel = kernel;
    spec.blocks = blocks;
    spec.together = together;
    spec.timeout = timeout;
    spec.stream = stream;
    spec.after = std::move(after);
    spec.upload_bytes = layout.upload_bytes;
    spec.total_bytes = layout.total_bytes;
    spec.fill = [=](DeviceAddress address, std::byte* upload) {
      FillPayload({tensors, scalars, blocks, 0, blocks}, layout, address, upload);
    };
    spec.readback_offset = layout.headers_offset;
    spec.readback_bytes = layout.headers_bytes;
    spec.done = [launched, blocks](const absl::Status& status,
                                   absl::Span<const std::byte> readback) {
      launched->ended = true;
      launched->status = status;
      launched->block = FindEvent(readback, blocks, &launched->header);
    };
    return device_->Launch(std::move(spec));
  }

  std::unique_ptr<Device> device_;
  std::vector<DeviceAddress> allocated_;
  absl::Duration copy_timeout_ = absl::Seconds(10);
  bool reset_ = false;  // a reset took what was not given back
};

}  // namespace pto::ascend::testing
