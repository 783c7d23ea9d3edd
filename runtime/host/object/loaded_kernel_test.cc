#include "runtime/host/object/loaded_kernel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/domain_scalar.h"
#include "runtime/base/status_matchers.h"
#include "runtime/host/object/look_counter.h"
#include "runtime/host/object/pto_hooks.h"
#include "runtime/host/object/testing/object_testing.h"

namespace pto::host {
namespace {

using ::pto::host::testing::FileOf;
using ::pto::host::testing::ObjectBytes;
using ::pto::host::testing::ObjectTask;
using ::pto::host::testing::OpenObject;
using ::pto::testing::HasReason;
using ::pto::testing::IsOk;
using ::testing::HasSubstr;

TEST(LoadedKernelTest, RunsKernelsOfTheOwnAbi) {
  for (const char* compiler : {"gcc", "clang"}) {
    const FileDescriptor file = OpenObject(absl::StrCat("own_add_", compiler));
    const auto add = LoadedKernel::Load(file.get(), "");
    ASSERT_THAT(add, IsOk());
    const pto_kernel_info& info = (*add)->info();
    EXPECT_STREQ(info.name, "own_add");
    EXPECT_EQ(info.argument_count, 3u);
    EXPECT_STREQ(info.arguments[2].name, "z");
    EXPECT_EQ(info.arguments[2].direction, PTO_OUTPUT);
    ASSERT_NE(info.overlaps, nullptr);
    EXPECT_EQ(info.overlaps[2].same, 3u);
    EXPECT_EQ((*add)->data(), nullptr);
    float x[7], y[14], z[7] = {};
    for (int i = 0; i < 7; ++i) {
      x[i] = static_cast<float>(i);
      y[2 * i] = 100;
    }
    ObjectTask task;
    task.Tensor(x, PTO_F32, {7}).Tensor(y, PTO_F32, {7}, {2}).Tensor(z, PTO_F32, {7});
    for (uint32_t block = 0; block < 3; ++block) {
      EXPECT_EQ(task.Call(**add, block, 3).code, 0);
    }
    for (int i = 0; i < 7; ++i) EXPECT_EQ(z[i], static_cast<float>(100 + i));

    // The second kernel of the same file.
    const auto scale = LoadedKernel::Load(file.get(), "own_scale");
    ASSERT_THAT(scale, IsOk());
    EXPECT_STREQ((*scale)->info().name, "own_scale");
    ObjectTask scaled;
    scaled.Tensor(z, PTO_F32, {7}).Float(0.5);
    EXPECT_EQ(scaled.Call(**scale).code, 0);
    EXPECT_EQ(z[6], 53);
  }
}

TEST(LoadedKernelTest, RunsKernelsInC) {
  const auto kernel = LoadedKernel::Load(OpenObject("own_add_c_gcc").get(), "");
  ASSERT_THAT(kernel, IsOk());
  EXPECT_STREQ((*kernel)->info().name, "add_one");
  float x[2] = {1, 2};
  ObjectTask task;
  task.Tensor(x, PTO_F32, {2});
  EXPECT_EQ(task.Call(**kernel).code, 0);
  EXPECT_EQ(x[1], 3);
}

TEST(LoadedKernelTest, TheFileMayBeClosedAndChanged) {
  std::unique_ptr<LoadedKernel> kernel;
  {
    const FileDescriptor file = FileOf(ObjectBytes("own_add_c_gcc"));
    kernel = *LoadedKernel::Load(file.get(), "");
    ASSERT_EQ(ftruncate(file.get(), 0), 0);
  }
  float x[1] = {1};
  ObjectTask task;
  task.Tensor(x, PTO_F32, {1});
  EXPECT_EQ(task.Call(*kernel).code, 0);
  EXPECT_EQ(x[0], 2);
}

TEST(LoadedKernelTest, RefusesTheOtherAbi) {
  SetPtoEnvironment();
  const auto own = LoadedKernel::Load(OpenObject("pto_scale_gcc").get(), "kernel_entry");
  EXPECT_THAT(own, HasReason(reason::kFieldInvalid));
  EXPECT_EQ(own.status().message(),
            "'kernel_entry' is a function of the PTO ABI, not a pto_kernel_info");
  const auto pto =
      LoadedKernel::LoadPto(OpenObject("own_add_gcc").get(), "pto_kernel_info", "k", {});
  EXPECT_THAT(pto, HasReason(reason::kFieldInvalid));
  EXPECT_EQ(LoadedKernel::Load(OpenObject("pto_scale_gcc").get(), "").status().message(),
            "the object exports kernel_entry and no pto_kernel_info, so it is a kernel of the PTO "
            "ABI, which needs a signature");
}

TEST(LoadedKernelTest, RefusesDescriptionsThatAreWrong) {
  // The name of the kernel, in the file. It is there once.
  std::string bytes = ObjectBytes("own_add_c_gcc");
  const size_t at = bytes.find("add_one");
  ASSERT_NE(at, std::string::npos);
  bytes[at] = 'A';
  const auto kernel = LoadedKernel::Load(FileOf(bytes).get(), "");
  EXPECT_THAT(kernel, HasReason(reason::kFieldInvalid));
  EXPECT_EQ(GetErrorDetail(kernel.status())->field, "pto_kernel_info.name");
}

TEST(LoadedKernelTest, RefusesDescriptionsThatAreLongerThanTheirConstant) {
  const auto kernel = LoadedKernel::Load(OpenObject("own_too_long_gcc").get(), "");
  EXPECT_THAT(kernel, HasReason(reason::kFieldInvalid));
  EXPECT_EQ(kernel.status().message(),
            absl::StrCat(sizeof(pto_kernel_info) + 8, " is more than the ", sizeof(pto_kernel_info),
                         " bytes of the constant"));
}

TEST(LoadedKernelTest, RefusesFilesThatAreNoObjects) {
  EXPECT_THAT(LoadedKernel::Load(FileOf("").get(), ""), HasReason(reason::kFieldInvalid));
  EXPECT_THAT(LoadedKernel::Load(FileOf("text").get(), ""), HasReason(reason::kFieldInvalid));
  EXPECT_THAT(LoadedKernel::Load(-1, ""), HasReason(reason::kFieldInvalid));
}

TEST(LoadedKernelTest, DescribesPtoKernelsByTheirSignature) {
  SetPtoEnvironment();
  const absl::StatusOr<PtoSignature> signature = PtoSignature::Parse(
      "in f32|f16[] x, hidden nodep u32[] w, scalar f32 f, scalar i64 n, domain d, address(1); "
      "core aic; sync_start");
  ASSERT_THAT(signature, IsOk());
  const auto kernel =
      LoadedKernel::LoadPto(OpenObject("pto_allreduce_gcc").get(), "", "reduce", *signature);
  ASSERT_THAT(kernel, IsOk());
  const pto_kernel_info& info = (*kernel)->info();
  EXPECT_STREQ(info.name, "reduce");
  ASSERT_EQ(info.argument_count, 2u);
  EXPECT_STREQ(info.arguments[0].name, "x");
  EXPECT_EQ(info.arguments[0].dtypes, PTO_DTYPE_BIT(PTO_F32) | PTO_DTYPE_BIT(PTO_F16));
  EXPECT_EQ(info.arguments[1].direction, PTO_NO_DEPENDENCY);
  ASSERT_EQ(info.scalar_count, 3u) << "an address is no scalar of the task";
  EXPECT_STREQ(info.scalars[0].name, "f");
  EXPECT_EQ(info.scalars[0].type, PTO_FLOAT);
  EXPECT_EQ(info.scalars[1].type, PTO_INTEGER);
  EXPECT_EQ(info.scalars[2].type, kDomainScalar);
  EXPECT_EQ(info.default_core, PTO_AIC);
  EXPECT_EQ(info.requires_sync_start, 1u);
  EXPECT_EQ(info.flags, static_cast<uint32_t>(PTO_KERNEL_BLOCKS)) << "from its imports";
  EXPECT_EQ((*kernel)->report().build_id, Inspect(ObjectBytes("pto_allreduce_gcc")).build_id);
}

TEST(LoadedKernelTest, TheSignatureDecidesWhetherAKernelBlocks) {
  SetPtoEnvironment();
  const auto flags = [](const std::string& object, const std::string& signature) {
    return testing::LoadPto(object, signature)->info().flags;
  };
  EXPECT_EQ(flags("pto_scale_gcc", ""), 0u);
  EXPECT_EQ(flags("pto_scale_gcc", "; blocks yes"), static_cast<uint32_t>(PTO_KERNEL_BLOCKS));
  EXPECT_EQ(flags("pto_allreduce_gcc", "; blocks no"), 0u);
}

TEST(LoadedKernelTest, PtoKernelsNeedTheEnvironment) {
  setenv("PTO_CPU_SIM_TWAIT_MAX_SPINS", "1", 1);
  const auto kernel = LoadedKernel::LoadPto(OpenObject("pto_scale_gcc").get(), "", "k", {});
  EXPECT_THAT(kernel, HasReason(reason::kFieldInvalid));
  EXPECT_THAT(std::string(kernel.status().message()), HasSubstr("PTO_CPU_SIM_TWAIT_MAX_SPINS=0"));
  SetPtoEnvironment();
}

TEST(LoadedKernelTest, GivesTheHooksToOlderObjects) {
  SetPtoEnvironment();
  // Without them it returns at once; with them it waits.
  const auto kernel = testing::LoadPto("pto_old_wait_gcc", "scalar i64, scalar i64");
  const uint64_t before = LooksOfThread();
  EXPECT_EQ(ObjectTask().Integer(2).Integer(1).Call(*kernel).code, 0);
  EXPECT_EQ(LooksOfThread() - before, 2u);
}

TEST(LoadedKernelTest, ManyKernelsFromOneFile) {
  const FileDescriptor file = OpenObject("own_add_c_gcc");
  std::vector<std::unique_ptr<LoadedKernel>> kernels;
  for (int i = 0; i < 100; ++i) {
    auto kernel = LoadedKernel::Load(file.get(), "");
    ASSERT_THAT(kernel, IsOk());
    kernels.push_back(*std::move(kernel));
  }
  float x[1] = {0};
  ObjectTask task;
  task.Tensor(x, PTO_F32, {1});
  for (const auto& kernel : kernels) EXPECT_EQ(task.Call(*kernel).code, 0);
  EXPECT_EQ(x[0], 100);
}

}  // namespace
}  // namespace pto::host
