#include "client/job/tensor_report.h"

#include "gtest/gtest.h"

namespace pto::job {
namespace {

TEST(TensorReportTest, SumsUp) {
  Array array = MakeArray(pto::v1::I32, {2, 3});
  for (int i = 0; i < 6; ++i) array.Set(i, i - 2);
  EXPECT_EQ(Describe(Summarize("c", array, 2)), "c: I32 2x3, min -2, max 3, mean 0.5: [-2, -1, …]");
  EXPECT_EQ(Describe(Summarize("c", array, 6)),
            "c: I32 2x3, min -2, max 3, mean 0.5: [-2, -1, 0, 1, 2, 3]");
  EXPECT_EQ(Describe(Summarize("c", array, 0)), "c: I32 2x3, min -2, max 3, mean 0.5");
}

TEST(TensorReportTest, TakesNothingForNothing) {
  EXPECT_EQ(Describe(Summarize("c", MakeArray(pto::v1::F16, {0}), 8)),
            "c: F16 0, min 0, max 0, mean 0");
}

}  // namespace
}  // namespace pto::job
