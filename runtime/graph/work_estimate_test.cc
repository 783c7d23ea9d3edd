#include "runtime/graph/work_estimate.h"

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/builtin_kernels.h"
#include "runtime/base/error.h"
#include "runtime/base/status_matchers.h"
#include "runtime/graph/builder.h"

namespace pto::engine {
namespace {

using ::pto::testing::HasReason;
using ::pto::testing::IsOk;

constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kMany = int64_t{1} << 20;

class WorkEstimateTest : public ::testing::Test {
 protected:
  WorkEstimateTest() {
    target_.kernels = &BuiltinKernels();
    target_.chip_clusters = {4};
    builder_ = std::make_unique<GraphBuilder>(target_);
  }

  uint32_t Tensor(const char* slot, const std::vector<int64_t>& shape,
                  const std::vector<int64_t>& strides = {}) {
    const uint32_t layout = builder_->AddLayout(PTO_F32, shape, strides).value();
    return builder_->AddTensor(builder_->AddSlot(slot), layout, 0).value();
  }
  void Task(const char* kernel, const std::vector<uint32_t>& args, uint32_t blocks = 1,
            int64_t timeout_ns = 0) {
    TaskInput task;
    task.kernel = builder_->AddKernel(kernel).value();
    task.args = args;
    const std::array<ScalarInput, 1> scalars{};
    if (std::string(kernel) == "fill" || std::string(kernel) == "spin") task.scalars = scalars;
    task.block_num = blocks;
    task.timeout_ns = timeout_ns;
    ASSERT_THAT(builder_->AddTask(task), IsOk());
  }
  std::shared_ptr<const GraphImage> Build() { return builder_->Build().value(); }

  // A product of matrices whose inputs overlap themselves: 2^40 * size products, some hours.
  void Product(uint32_t blocks = 1, int64_t timeout_ns = 0) {
    Task("matmul",
         {Tensor("a", {1024, kMany}, {1, 1}), Tensor("b", {kMany, 1024}, {1, 1}),
          Tensor("c", {1024, 1024})},
         blocks, timeout_ns);
  }

  GraphTarget target_;
  std::unique_ptr<GraphBuilder> builder_;
};

TEST_F(WorkEstimateTest, RefusesATaskThatCannotEndInTimeByFar) {
  Task("fill", {Tensor("x", {kMany})});
  Product();  // 2^40 products: 22,000 s at 50 per ns, less at any real speed
  const std::shared_ptr<const GraphImage> image = Build();
  const double longest = LongestTaskNs(*image);
  EXPECT_NEAR(longest, 0.02 * 0x1p40, 1e6);
  for (const double known : {-1.0, longest}) {
    EXPECT_THAT(CheckWork(*image, {}, known), IsOk());
    EXPECT_THAT(CheckWork(*image, {.call_ns = 2 * kSecond}, known), IsOk());
    const absl::Status refused = CheckWork(*image, {.call_ns = kSecond}, known);
    EXPECT_THAT(refused, HasReason(reason::kTaskTooLong));
    EXPECT_EQ(refused.message(),
              "task 1: matmul would take at least 21.99s, and a call of a kernel has 1s");
    EXPECT_THAT(CheckWork(*image, {.run_ns = kSecond}, known), HasReason(reason::kTaskTooLong));
    EXPECT_THAT(CheckWork(*image, {.task_ns = kSecond}, known), HasReason(reason::kTaskTooLong));
    // The task's own limit counts, and not that of a call.
    EXPECT_THAT(CheckWork(*image, {.task_ns = 2 * kSecond, .call_ns = kSecond}, known), IsOk());
  }
}

TEST_F(WorkEstimateTest, BlocksShareTheWorkOfATask) {
  Product(/*blocks=*/4);
  const std::shared_ptr<const GraphImage> image = Build();
  EXPECT_THAT(CheckWork(*image, {.task_ns = kSecond, .threads = 2}), IsOk());
  EXPECT_THAT(CheckWork(*image, {.task_ns = kSecond / 2, .threads = 2}),
              HasReason(reason::kTaskTooLong));
  EXPECT_THAT(CheckWork(*image, {.task_ns = kSecond / 2, .threads = 3}), IsOk());
  EXPECT_THAT(CheckWork(*image, {.call_ns = kSecond / 3, .threads = 1}), IsOk());
}

TEST_F(WorkEstimateTest, TheOwnLimitOfATask) {
  Product(/*blocks=*/1, /*timeout_ns=*/kSecond / 2);
  const std::shared_ptr<const GraphImage> image = Build();
  EXPECT_THAT(CheckWork(*image, {}, LongestTaskNs(*image)), HasReason(reason::kTaskTooLong));
}

TEST_F(WorkEstimateTest, ALongOwnLimitOverridesThoseOfTheRunsTasks) {
  Product(/*blocks=*/1, /*timeout_ns=*/2 * kSecond);
  const std::shared_ptr<const GraphImage> image = Build();
  EXPECT_THAT(CheckWork(*image, {.task_ns = kSecond / 2, .call_ns = kSecond / 2}), IsOk());
  EXPECT_THAT(CheckWork(*image, {.run_ns = kSecond / 2}), HasReason(reason::kTaskTooLong));
}

TEST_F(WorkEstimateTest, NothingIsKnownOfOtherKernels) {
  Task("spin", {});
  const std::shared_ptr<const GraphImage> image = Build();
  EXPECT_EQ(LongestTaskNs(*image), 0);
  EXPECT_THAT(CheckWork(*image, {.run_ns = 1, .task_ns = 1, .call_ns = 1}), IsOk());
}

}  // namespace
}  // namespace pto::engine
