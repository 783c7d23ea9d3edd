#include "client/ptoctl/resolve_kernel.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/error.h"
#include "runtime/base/status_matchers.h"

namespace pto::ptoctl {
namespace {

using ::pto::testing::HasReason;
using ::pto::testing::IsOk;
using ::testing::HasSubstr;

std::vector<v1::Kernel> Kernels(const std::vector<std::string>& names) {
  std::vector<v1::Kernel> kernels;
  for (const std::string& name : names) kernels.emplace_back().set_name(name);
  return kernels;
}

const std::vector<std::string> kNames = {"kernels/add", "sessions/a/kernels/scale",
                                         "sessions/a/kernels/twice", "sessions/b/kernels/twice",
                                         "sessions/b/kernels/add"};

TEST(ResolveKernelTest, FindsFullNamesAndUniqueIds) {
  for (const std::string& name : kNames) {
    const absl::StatusOr<v1::Kernel> kernel = PickKernel(Kernels(kNames), name);
    ASSERT_THAT(kernel, IsOk());
    EXPECT_EQ(kernel->name(), name);
  }
  const absl::StatusOr<v1::Kernel> kernel = PickKernel(Kernels(kNames), "scale");
  ASSERT_THAT(kernel, IsOk());
  EXPECT_EQ(kernel->name(), "sessions/a/kernels/scale");
}

TEST(ResolveKernelTest, ExplainsWhatItDoesNotFind) {
  const absl::Status twice = PickKernel(Kernels(kNames), "twice").status();
  EXPECT_THAT(twice, HasReason(reason::kKernelUnknown));
  EXPECT_THAT(std::string(twice.message()),
              HasSubstr("sessions/a/kernels/twice, sessions/b/kernels/twice"));
  const absl::Status none = PickKernel(Kernels(kNames), "scael").status();
  EXPECT_THAT(none, HasReason(reason::kKernelUnknown));
  EXPECT_EQ(GetErrorDetail(none)->hint, "did you mean 'scale'?");
}

}  // namespace
}  // namespace pto::ptoctl
