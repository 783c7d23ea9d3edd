#include <gtest/gtest.h>

#include <string>

#include "kernels/builtin.h"
#include "kernels/registry.h"

namespace pto::kernels {
namespace {

const pto_kernel_info* Find(absl::string_view name) {
  for (const pto_kernel_info& info : ControlKernels()) {
    if (name == info.name) return &info;
  }
  return nullptr;
}

pto_tensor Tensor(uint32_t dtype, int64_t elements) {
  pto_tensor tensor = {};
  tensor.dtype = dtype;
  tensor.ndim = 1;
  tensor.shape[0] = elements;
  tensor.strides[0] = 1;
  return tensor;
}

TEST(ControlKernelsTest, AreAcceptedAndHaveNoFunction) {
  KernelRegistry registry;
  for (const pto_kernel_info& info : ControlKernels()) {
    EXPECT_TRUE(registry.Add(info).ok()) << info.name;
    EXPECT_EQ(info.function, nullptr) << info.name;
    EXPECT_NE(info.control, static_cast<uint32_t>(PTO_CONTROL_NONE)) << info.name;
  }
  for (const char* name : {"join", "notify", "wait", "wait_token", "copy_async"}) {
    EXPECT_NE(Find(name), nullptr) << name;
  }
}

TEST(ControlKernelsTest, ASignalIsOneWord) {
  for (const char* name : {"notify", "wait", "wait_token"}) {
    const pto_kernel_info& info = *Find(name);
    EXPECT_EQ(info.arguments[0].direction, PTO_NO_DEPENDENCY) << name;
    EXPECT_EQ(info.arguments[0].dtypes, PTO_DTYPE_BIT(PTO_I32) | PTO_DTYPE_BIT(PTO_I64)) << name;
    char message[100] = "";
    const pto_tensor good[] = {Tensor(PTO_I32, 1), Tensor(PTO_F16, 7)};
    EXPECT_EQ(info.check(good, info.argument_count, message, sizeof message), 0) << message;
    const pto_tensor bad[] = {Tensor(PTO_I32, 2), Tensor(PTO_F16, 7)};
    EXPECT_NE(info.check(bad, info.argument_count, message, sizeof message), 0);
    EXPECT_EQ(std::string(message),
              std::string(name) + ": signal is [2], expected one element, such as [1]");
  }
}

TEST(ControlKernelsTest, ACopyIsBetweenTensorsOfOneKind) {
  const pto_kernel_info& info = *Find("copy_async");
  char message[100] = "";
  const pto_tensor same[] = {Tensor(PTO_F32, 5), Tensor(PTO_F32, 5)};
  EXPECT_EQ(info.check(same, 2, message, sizeof message), 0);
  const pto_tensor shapes[] = {Tensor(PTO_F32, 5), Tensor(PTO_F32, 4)};
  EXPECT_NE(info.check(shapes, 2, message, sizeof message), 0);
  const pto_tensor types[] = {Tensor(PTO_F32, 5), Tensor(PTO_I32, 5)};
  EXPECT_NE(info.check(types, 2, message, sizeof message), 0);
}

}  // namespace
}  // namespace pto::kernels
