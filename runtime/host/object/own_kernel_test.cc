// A kernel with the C++ layer, in the engine.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "runtime/base/status_matchers.h"
#include "runtime/engine/testing/slow_testing.h"
#include "runtime/host/object/loaded_kernel.h"
#include "runtime/host/object/testing/object_testing.h"

namespace pto::host {
namespace {

using ::pto::engine::RunState;
using ::pto::engine::testing::KernelBody;
using ::pto::engine::testing::SlowEngine;
using ::pto::testing::HasReason;
using ::testing::HasSubstr;

class OwnKernelTest : public ::testing::TestWithParam<const char*> {
 protected:
  // Runs the kernel of own_exercise.cc on two blocks that start together.
  std::shared_ptr<engine::Run> Exercise(int64_t mode) {
    body_ = [this, mode](uint32_t, const pto_context& context) {
      pto_scalar scalar;
      scalar.i64 = mode;
      pto_context own = context;
      own.scalars = &scalar;
      own.scalar_count = 1;
      return kernel_->info().function(&own);
    };
    std::shared_ptr<engine::Run> run =
        node_.Start({{.kernel = "waits", .block_num = 2, .together = true}}, body_);
    node_.RunAll();
    return run;
  }

  const std::unique_ptr<LoadedKernel> kernel_ =
      *LoadedKernel::Load(testing::OpenObject(absl::StrCat("own_exercise_", GetParam())).get(), "");
  SlowEngine node_{{1}};
  KernelBody body_;
};

INSTANTIATE_TEST_SUITE_P(Compilers, OwnKernelTest, ::testing::Values("gcc", "clang"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(OwnKernelTest, DescribesItself) {
  const pto_kernel_info& info = kernel_->info();
  EXPECT_STREQ(info.name, "exercise");
  EXPECT_STREQ(info.description, "Uses every call.");
  EXPECT_EQ(info.flags, static_cast<uint32_t>(PTO_KERNEL_WAITS | PTO_KERNEL_NOTIFIES));
  EXPECT_EQ(info.requires_sync_start, 1u);
  EXPECT_EQ(info.arguments[0].direction, PTO_NO_DEPENDENCY);
  EXPECT_EQ(info.scalars[0].type, PTO_INTEGER);
}

TEST_P(OwnKernelTest, UsesEveryCall) {
  const std::shared_ptr<engine::Run> run = Exercise(0);
  ASSERT_EQ(run->state(), RunState::kSucceeded)
      << (run->errors().empty() ? "" : run->errors()[0].ToString());
  for (uint32_t i = 0; i < 4; ++i) {
    EXPECT_EQ(*node_.word(16 + i), 10 + i) << "waited for";
    EXPECT_EQ(*node_.word(24 + i), 10 + i) << "deferred to its signal";
    EXPECT_EQ(*node_.word(28 + i), 10 + i) << "deferred to the copy";
  }
  EXPECT_EQ(*node_.word(0), 1);
  EXPECT_EQ(*node_.word(1), 2);
  EXPECT_EQ(*node_.word(20), 46);
  EXPECT_EQ(*node_.word(32), 46);
  EXPECT_EQ(*node_.word(33), 46);
  EXPECT_EQ(*node_.word(34), 146) << "the share of the second block";
  node_.ExpectClean();
}

TEST_P(OwnKernelTest, MistakesFailTheTaskWithTheirText) {
  const struct {
    int64_t mode;
    const char* text;
  } cases[] = {
      {1, "words: index 64 is outside of the view: dimension 0 has 64"},
      {2, "thrown"},
      {3, "tensor 0 has elements of type 8, the kernel reads type 1"},
      {4, "the kernel threw something that is no std::exception"},
      {5, "on purpose"},
      {6, "words: 2 indices for a view of 1 dimensions"},
      {7, "words: a slice of 5 indices from 60 on leaves the view: dimension 0 has 64"},
      {8, "notify: an argument is invalid"},
      {9, "there is no tensor 1: the task has 1"},
      {10, "there is no scalar 99: the task has 1"},
  };
  for (const auto& [mode, text] : cases) {
    const std::shared_ptr<engine::Run> run = Exercise(mode);
    EXPECT_EQ(run->state(), RunState::kFailed) << mode;
    ASSERT_FALSE(run->errors().empty()) << mode;
    EXPECT_THAT(run->errors()[0], HasReason(reason::kKernelFailed));
    EXPECT_THAT(std::string(run->errors()[0].message()), HasSubstr(text));
  }
}

}  // namespace
}  // namespace pto::host
