#include <chrono>
#include <cstdint>
#include <limits>

#include "gtest/gtest.h"
#include "kernels/kernel_tester.h"

namespace pto::kernels {
namespace {

using std::chrono::steady_clock;

TEST(NoopTest, Succeeds) { EXPECT_EQ(RunKernel(Builtin("noop"), {}, {}, 3).code, 0); }

TEST(SpinTest, TakesAsLongAsAsked) {
  const steady_clock::time_point start = steady_clock::now();
  EXPECT_EQ(RunKernel(Builtin("spin"), {}, {IntegerScalar(2000)}).code, 0);
  EXPECT_GE(steady_clock::now() - start, std::chrono::microseconds(2000));
}

TEST(SpinTest, ZeroDoesNotAsk) {
  int asked = 0;
  EXPECT_EQ(RunKernel(Builtin("spin"), {}, {IntegerScalar(0)}, 1, [&] { return ++asked > 0; }).code,
            0);
  EXPECT_EQ(asked, 0);
}

TEST(SpinTest, StopsWhenCancelled) {
  // Would go on for 292,000 years.
  int asked = 0;
  const RunResult result =
      RunKernel(Builtin("spin"), {}, {IntegerScalar(std::numeric_limits<int64_t>::max())}, 1,
                [&] { return ++asked == 1000; });
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.error, "");
  EXPECT_EQ(asked, 1000);
}

TEST(SpinTest, NegativeTimeFails) {
  const RunResult result = RunKernel(Builtin("spin"), {}, {IntegerScalar(-5)});
  EXPECT_NE(result.code, 0);
  EXPECT_EQ(result.error, "spin: microseconds is -5, expected 0 or more");
}

TEST(FailTest, FailsWithTheCode) {
  const RunResult result = RunKernel(Builtin("fail"), {}, {IntegerScalar(7)});
  EXPECT_EQ(result.code, 7);
  EXPECT_EQ(result.error, "fail: asked to return 7");
  EXPECT_EQ(RunKernel(Builtin("fail"), {}, {IntegerScalar(-1)}).code, -1);
}

TEST(FailTest, ZeroSucceeds) {
  const RunResult result = RunKernel(Builtin("fail"), {}, {IntegerScalar(0)});
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.error, "");
}

TEST(FailTest, LargeCodesDoNotBecomeSuccess) {
  EXPECT_EQ(RunKernel(Builtin("fail"), {}, {IntegerScalar(int64_t{1} << 32)}).code,
            std::numeric_limits<int32_t>::max());
  EXPECT_EQ(
      RunKernel(Builtin("fail"), {}, {IntegerScalar(std::numeric_limits<int64_t>::min())}).code,
      std::numeric_limits<int32_t>::min());
}

TEST(FailTest, WorksWithoutAnApi) {
  const pto_scalar code = IntegerScalar(3);
  pto_context context{};
  context.block_count = 1;
  context.scalar_count = 1;
  context.scalars = &code;
  EXPECT_EQ(Builtin("fail").function(&context), 3);
}

}  // namespace
}  // namespace pto::kernels
