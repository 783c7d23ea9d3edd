#include "kernels/kernel_info.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "runtime/base/error.h"
#include "runtime/base/status_matchers.h"

namespace pto {
namespace {

using ::pto::testing::HasReason;
using ::pto::testing::IsOk;

int32_t Nothing(const pto_context*) { return 0; }

constexpr pto_argument_info kArguments[] = {{"in", PTO_INPUT, PTO_DTYPE_ALL},
                                            {"out", PTO_OUTPUT, PTO_DTYPE_BIT(PTO_F32)}};
constexpr pto_scalar_info kScalars[] = {{"alpha", PTO_FLOAT}, {"count", PTO_INTEGER}};

pto_kernel_info Valid(const char* name = "scale_2") {
  return {
      .struct_size = sizeof(pto_kernel_info),
      .name = name,
      .description = "For tests.",
      .function = Nothing,
      .check = nullptr,
      .default_core = PTO_MIX,
      .arguments = kArguments,
      .argument_count = 2,
      .scalars = kScalars,
      .scalar_count = 2,
      .requires_sync_start = 1,
      .flags = 0,
      .control = PTO_CONTROL_NONE,
  };
}

// Checks the valid info after `change`, and returns the field of the error.
std::string RefusedField(const std::function<void(pto_kernel_info&)>& change) {
  pto_kernel_info info = Valid();
  change(info);
  const absl::Status status = CheckKernelInfo(info);
  EXPECT_THAT(status, HasReason(reason::kFieldInvalid));
  const absl::optional<ErrorDetail> detail = GetErrorDetail(status);
  return detail.has_value() ? detail->field : "";
}

TEST(KernelInfoTest, RefusesMalformedNames) {
  const std::string longest(63, 'a');
  const std::string too_long(64, 'a');
  for (const char* name : {"", "2scale", "_scale", "Scale", "scale-2", "scale 2", "sc\xc3\xa4le",
                           too_long.c_str(), static_cast<const char*>(nullptr)}) {
    EXPECT_EQ(RefusedField([&](pto_kernel_info& info) { info.name = name; }), "name");
  }
  const pto_kernel_info info = Valid(longest.c_str());
  EXPECT_THAT(CheckKernelInfo(info), IsOk());
}

TEST(KernelInfoTest, RefusesMalformedInfos) {
  using Info = pto_kernel_info;
  EXPECT_EQ(RefusedField([](Info& info) { info.struct_size = offsetof(Info, overlaps) - 1; }),
            "struct_size");
  EXPECT_EQ(RefusedField([](Info& info) { info.description = nullptr; }), "description");
  EXPECT_EQ(RefusedField([](Info& info) { info.function = nullptr; }), "function");
  EXPECT_EQ(RefusedField([](Info& info) { info.default_core = pto_core{}; }), "default_core");
  EXPECT_EQ(RefusedField([](Info& info) { info.requires_sync_start = 2; }), "requires_sync_start");
  EXPECT_EQ(RefusedField([](Info& info) { info.arguments = nullptr; }), "arguments");
  EXPECT_EQ(RefusedField([](Info& info) { info.argument_count = PTO_MAX_ARGS + 1; }), "arguments");
  EXPECT_EQ(RefusedField([](Info& info) { info.scalars = nullptr; }), "scalars");
  EXPECT_EQ(RefusedField([](Info& info) { info.scalar_count = PTO_MAX_SCALARS + 1; }), "scalars");
}

TEST(KernelInfoTest, RefusesMalformedArguments) {
  const auto refused = [](pto_argument_info second) {
    const pto_argument_info arguments[] = {kArguments[0], second};
    return RefusedField([&](pto_kernel_info& info) { info.arguments = arguments; });
  };
  EXPECT_EQ(refused({"out!", PTO_OUTPUT, PTO_DTYPE_ALL}), "arguments[1].name");
  EXPECT_EQ(refused({nullptr, PTO_OUTPUT, PTO_DTYPE_ALL}), "arguments[1].name");
  EXPECT_EQ(refused({"in", PTO_OUTPUT, PTO_DTYPE_ALL}), "arguments[1].name");
  EXPECT_EQ(refused({"out", pto_direction{}, PTO_DTYPE_ALL}), "arguments[1].direction");
  EXPECT_EQ(refused({"out", PTO_OUTPUT, 0}), "arguments[1].dtypes");
  EXPECT_EQ(refused({"out", PTO_OUTPUT, 1}), "arguments[1].dtypes");
  EXPECT_EQ(refused({"out", PTO_OUTPUT, PTO_DTYPE_ALL | PTO_DTYPE_BIT(14)}), "arguments[1].dtypes");
}

TEST(KernelInfoTest, RefusesMalformedOverlaps) {
  const auto refused = [](pto_overlap_info in, pto_overlap_info out) {
    const pto_overlap_info overlaps[] = {in, out};
    return RefusedField([&](pto_kernel_info& info) { info.overlaps = overlaps; });
  };
  EXPECT_EQ(refused({2, 0}, {0, 0}), "overlaps[0]");
  EXPECT_EQ(refused({0, 0}, {4, 0}), "overlaps[1]");
  EXPECT_EQ(refused({0, 0}, {0, 4}), "overlaps[1]");
  EXPECT_EQ(refused({0, 0}, {2, 0}), "overlaps[1].same");
}

// The description was built before overlaps existed: memory behind its fields is not read.
TEST(KernelInfoTest, AnOlderKernelHasNoOverlaps) {
  const pto_overlap_info overlaps[] = {{0, 0}, {1, 0}};
  pto_kernel_info info = Valid();
  info.overlaps = overlaps;
  EXPECT_EQ(OverlapOf(info, 1).same, 1u);
  info.struct_size = offsetof(pto_kernel_info, overlaps);
  EXPECT_THAT(CheckKernelInfo(info), IsOk());
  EXPECT_EQ(OverlapOf(info, 1).same, 0u);
}

TEST(KernelInfoTest, RefusesMalformedScalars) {
  const auto refused = [](pto_scalar_info second) {
    const pto_scalar_info scalars[] = {kScalars[0], second};
    return RefusedField([&](pto_kernel_info& info) { info.scalars = scalars; });
  };
  EXPECT_EQ(refused({"", PTO_FLOAT}), "scalars[1].name");
  EXPECT_EQ(refused({"alpha", PTO_FLOAT}), "scalars[1].name");
  EXPECT_EQ(refused({"beta", pto_scalar_type{}}), "scalars[1].type");
}

TEST(KernelInfoTest, TakesAsManyArgumentsAndScalarsAsTheLimits) {
  std::vector<std::string> names;
  for (int i = 0; i < PTO_MAX_ARGS; ++i) names.push_back(absl::StrCat("a", i));
  std::vector<pto_argument_info> arguments;
  for (const std::string& name : names)
    arguments.push_back({name.c_str(), PTO_INOUT, PTO_DTYPE_ALL});
  std::vector<pto_scalar_info> scalars;
  for (int i = 0; i < PTO_MAX_SCALARS; ++i) scalars.push_back({names[i].c_str(), PTO_FLOAT});
  pto_kernel_info info = Valid();
  info.arguments = arguments.data();
  info.argument_count = PTO_MAX_ARGS;
  info.scalars = scalars.data();
  info.scalar_count = PTO_MAX_SCALARS;
  EXPECT_THAT(CheckKernelInfo(info), IsOk());
}

}  // namespace
}  // namespace pto
