#include "runtime/graph/plan_check.h"

#include <cstdint>
#include <cstdio>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace pto::engine {
namespace {

using ::testing::HasSubstr;

const int kData = 0;

// Plans as many phases as its scalar says; refuses a negative number.
int32_t PlanPhases(const pto_launch* launch, pto_plan* plan, char* message, size_t size) {
  if (launch->scalars[0].i64 < 0) {
    std::snprintf(message, size, "less than nothing");
    return 1;
  }
  EXPECT_EQ(launch->kernel_data, &kData);
  plan->phases = static_cast<uint32_t>(launch->scalars[0].i64);
  return 0;
}

// Returns why the plan was refused; empty if it was accepted.
std::string Refused(int64_t phases) {
  pto_kernel_info kernel = {};
  kernel.struct_size = sizeof kernel;
  kernel.scalar_count = 1;
  kernel.plan = &PlanPhases;
  pto_scalar scalar = {};
  scalar.i64 = phases;
  const pto_tensor* const members[] = {nullptr};
  pto_plan plan;
  std::string refused;
  const bool made = MakePlan(kernel, &kData, members, 1, &scalar, &plan, &refused);
  EXPECT_EQ(made, refused.empty());
  return refused;
}

TEST(PlanCheckTest, PhasesHaveLimits) {
  EXPECT_EQ(Refused(1), "");
  EXPECT_EQ(Refused(16'777'215), "");
  EXPECT_THAT(Refused(0), HasSubstr("plans no phase"));
  EXPECT_THAT(Refused(16'777'216), HasSubstr("plans 16777216 phases; at most 16777215"));
  EXPECT_THAT(Refused(0xffffffff), HasSubstr("plans 4294967295 phases"));
}

TEST(PlanCheckTest, SaysWhatTheKernelSays) { EXPECT_EQ(Refused(-1), "less than nothing"); }

}  // namespace
}  // namespace pto::engine
