#include <chrono>
#include <cstdint>
#include <limits>
#include <string>

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
  // Would run for 292,000 years.
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

// Runs a call of `falter` as rank 2 of 3, in a phase.
RunResult Falter(uint32_t phase, int64_t fault, int64_t* word) {
  const pto_scalar scalars[] = {IntegerScalar(2), IntegerScalar(1), IntegerScalar(fault)};
  pto_tensor signal = {};
  signal.data = word;
  signal.dtype = PTO_I64;
  RunResult result;
  pto_kernel_api api = {};
  api.notify = [](const pto_context*, const pto_signal* to, pto_notify_op, int64_t value) {
    *static_cast<int64_t*>(to->address) += value;
    return int32_t{PTO_OK};
  };
  api.cancelled = [](const pto_context*) { return 1; };
  api.set_error = [](const pto_context* context, const char* text) {
    static_cast<RunResult*>(context->engine)->error = text;
  };
  pto_context context = {};
  context.tensors = &signal;
  context.tensor_count = 1;
  context.scalars = scalars;
  context.scalar_count = 3;
  context.member_index = 2;
  context.member_count = 3;
  context.phase = phase;
  context.api = &api;
  context.engine = &result;
  result.code = Builtin("falter").function(&context);
  return result;
}

TEST(FalterTest, OnlyInItsPhase) {
  int64_t word = 0;
  EXPECT_EQ(Falter(0, 1, &word).code, 0);
  EXPECT_EQ(Falter(1, 0, &word).code, 0);
  EXPECT_EQ(word, 0);
  const RunResult failed = Falter(1, 1, &word);
  EXPECT_NE(failed.code, 0);
  EXPECT_EQ(failed.error, "falter: asked to fail");
  EXPECT_EQ(word, 1);
  EXPECT_EQ(Falter(1, 2, &word).code, 0);
  EXPECT_EQ(word, 2);
}

TEST(FalterTest, ScalarsThatNameNothing) {
  const auto refused = [](int64_t rank, int64_t phase, int64_t fault) {
    const pto_scalar scalars[] = {IntegerScalar(rank), IntegerScalar(phase), IntegerScalar(fault)};
    pto_launch launch = {};
    launch.member_count = 3;
    launch.scalars = scalars;
    launch.scalar_count = 3;
    pto_plan plan = {};
    char message[100] = "";
    if (Builtin("falter").plan(&launch, &plan, message, sizeof message) == 0) {
      EXPECT_EQ(plan.phases, 3u);
    }
    return std::string(message);
  };
  EXPECT_EQ(refused(2, 2, 2), "");
  EXPECT_EQ(refused(3, 0, 0), "falter: rank is 3, not 0 to 2");
  EXPECT_EQ(refused(0, -1, 0), "falter: phase is -1, not 0 to 2");
  EXPECT_EQ(refused(0, 0, 3), "falter: fault is 3, not 0 to 2");
}

}  // namespace
}  // namespace pto::kernels
