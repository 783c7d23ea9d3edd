#include "runtime/graph/launch_check.h"

#include <cstdint>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/error.h"
#include "runtime/base/status_matchers.h"
#include "runtime/graph/graph_testing.h"

namespace pto::engine {
namespace {

using ::pto::engine::testing::GraphTestKernels;
using ::pto::engine::testing::GraphTestTarget;
using ::pto::testing::HasReason;
using ::pto::testing::IsOk;
using ::testing::Contains;
using ::testing::Pair;

// Chips of 24, 3 and 24 clusters.
class LaunchCheckTest : public ::testing::Test {
 protected:
  uint32_t Kernel(const char* name) {
    const std::shared_ptr<const pto::Kernel> kernel = GraphTestKernels().Find(name);
    EXPECT_NE(kernel, nullptr) << name;
    kernels_.push_back(&kernel->info());
    return static_cast<uint32_t>(kernels_.size() - 1);
  }

  absl::Status Check(const TaskInput& task) {
    record_ = ImageTask();
    return CheckLaunch(target_, kernels_, task, record_);
  }

  // Also checks `have` and `want` of the error.
  void ExpectRefused(const TaskInput& task, const Reason& reason, const std::string& field,
                     const std::string& have = "", const std::string& want = "") {
    const absl::Status status = Check(task);
    ASSERT_THAT(status, HasReason(reason)) << field;
    const ErrorDetail detail = *GetErrorDetail(status);
    EXPECT_EQ(detail.field, field) << status;
    if (have.empty()) return;
    EXPECT_THAT(detail.metadata, Contains(Pair("have", have)));
    EXPECT_THAT(detail.metadata, Contains(Pair("want", want)));
  }

  GraphTarget target_ = GraphTestTarget({24, 3, 24});
  std::vector<const pto_kernel_info*> kernels_;
  ImageTask record_;
};

TEST_F(LaunchCheckTest, ChipsWithMemoryOfTheirOwnRunNoTasks) {
  target_.device_only = {false, true};
  TaskInput task;
  task.kernel = Kernel("nop");
  EXPECT_THAT(Check(task), IsOk());
  task.chip = 2;
  EXPECT_THAT(Check(task), IsOk());
  task.chip = 1;
  ExpectRefused(task, reason::kNotAvailable, "chip");
  const std::vector<TaskInput::Member> members = {{0, {}}, {1, {}}};
  task.members = members;
  ExpectRefused(task, reason::kNotAvailable, "members[1].chip");
}

TEST_F(LaunchCheckTest, PlainTasksHaveNoTraits) {
  TaskInput task;
  task.kernel = Kernel("nop");
  task.chip = 2;
  task.block_num = 1000;
  ASSERT_THAT(Check(task), IsOk());
  EXPECT_TRUE(record_.plain());
  EXPECT_EQ(record_.chip, 2);
  EXPECT_EQ(record_.block_num, 1000u);
}

TEST_F(LaunchCheckTest, AGangNeedsAllItsCoresAtOnce) {
  TaskInput task;
  task.kernel = Kernel("nop");
  task.chip = 1;
  task.require_sync_start = true;
  // The full capacity is accepted; one more is not.
  for (const auto& [core, capacity] :
       {std::pair{PTO_AIC, 3u}, std::pair{PTO_AIV, 6u}, std::pair{PTO_MIX, 3u}}) {
    task.core = core;
    task.block_num = capacity;
    ASSERT_THAT(Check(task), IsOk()) << core;
    EXPECT_EQ(record_.traits, kTaskGang);
    ++task.block_num;
    ExpectRefused(task, reason::kLaunchInvalid, "launch.block_num", std::to_string(capacity),
                  std::to_string(capacity + 1));
  }
  task.require_sync_start = false;
  EXPECT_THAT(Check(task), IsOk());
  EXPECT_TRUE(record_.plain());
}

TEST_F(LaunchCheckTest, OneBlockIsNoGang) {
  TaskInput task;
  task.kernel = Kernel("gang");
  ExpectRefused(task, reason::kLaunchInvalid, "launch.require_sync_start");
  task.require_sync_start = true;
  ASSERT_THAT(Check(task), IsOk());
  EXPECT_TRUE(record_.plain());
}

TEST_F(LaunchCheckTest, FlagsOfTheKernelBecomeTraits) {
  TaskInput task;
  task.kernel = Kernel("waiter");
  ASSERT_THAT(Check(task), IsOk());
  EXPECT_EQ(record_.traits, kTaskWaits);
  task.kernel = Kernel("blocker");
  ASSERT_THAT(Check(task), IsOk());
  EXPECT_EQ(record_.traits, kTaskBlocks);
  // The kernels of the vector cores count too.
  const std::vector<uint32_t> vector = {0, 1};
  task.kernel = Kernel("nop");
  task.core = PTO_MIX;
  task.vector_kernels = vector;
  ASSERT_THAT(Check(task), IsOk());
  EXPECT_EQ(record_.traits, kTaskWaits | kTaskBlocks);
  const uint32_t gang = Kernel("gang");
  task.vector_kernels = absl::MakeConstSpan(&gang, 1);
  ExpectRefused(task, reason::kLaunchInvalid, "launch.require_sync_start");
}

TEST_F(LaunchCheckTest, MembersStartTogether) {
  TaskInput task;
  task.kernel = Kernel("nop");
  task.chip = 77;  // ignored
  task.block_num = 6;
  std::vector<TaskInput::Member> members = {{2, {}}, {1, {}}, {0, {}}};
  task.members = members;
  ASSERT_THAT(Check(task), IsOk());
  EXPECT_EQ(record_.traits, kTaskGang);
  EXPECT_EQ(record_.chip, 2);
  // The smallest chip limits the number.
  task.block_num = 7;
  ExpectRefused(task, reason::kLaunchInvalid, "launch.block_num", "6", "7");
  // The same with and without require_sync_start.
  task.require_sync_start = true;
  ExpectRefused(task, reason::kLaunchInvalid, "launch.block_num", "6", "7");

  members[2].chip = 3;
  ExpectRefused(task, reason::kChipUnknown, "members[2].chip");
  members[2].chip = 2;
  ExpectRefused(task, reason::kLaunchInvalid, "members[2].chip");
  // The blocks of all members count.
  members[2].chip = 0;
  task.block_num = (1u << 29) / 3 + 1;
  ExpectRefused(task, reason::kLaunchInvalid, "launch.block_num", std::to_string((1 << 29) + 1),
                std::to_string(1 << 29));
}

TEST_F(LaunchCheckTest, OneMemberIsAnOrdinaryTask) {
  TaskInput task;
  task.kernel = Kernel("nop");
  task.block_num = 100;
  const std::vector<TaskInput::Member> members = {{1, {}}};
  task.members = members;
  ASSERT_THAT(Check(task), IsOk());
  EXPECT_TRUE(record_.plain());
  EXPECT_EQ(record_.chip, 1);
}

TEST_F(LaunchCheckTest, VectorKernels) {
  TaskInput task;
  task.kernel = Kernel("step");  // on MIX
  const uint32_t nop = Kernel("nop"), twist = Kernel("twist"), join = Kernel("join");
  std::vector<uint32_t> vector = {task.kernel, task.kernel};
  task.vector_kernels = vector;
  EXPECT_THAT(Check(task), IsOk());
  vector = {task.kernel, task.kernel, task.kernel};
  task.vector_kernels = vector;
  ExpectRefused(task, reason::kLaunchInvalid, "launch.vector_kernels", "3", "2");
  vector = {task.kernel};
  task.vector_kernels = vector;
  for (const uint32_t core : {PTO_AIC, PTO_AIV}) {
    task.core = core;
    ExpectRefused(task, reason::kLaunchInvalid, "launch.vector_kernels", "1", "0");
  }
  task.core = 0;
  const auto second = [&](uint32_t kernel) {
    vector = {task.kernel, kernel};
    task.vector_kernels = vector;
  };
  second(nop);  // takes no arguments
  ExpectRefused(task, reason::kLaunchInvalid, "launch.vector_kernels[1]");
  second(twist);  // takes different scalars
  ExpectRefused(task, reason::kLaunchInvalid, "launch.vector_kernels[1]");
  second(99);
  ExpectRefused(task, reason::kKernelUnknown, "launch.vector_kernels[1]");
  task.kernel = nop;
  task.core = PTO_MIX;
  second(join);  // needs no core
  ExpectRefused(task, reason::kLaunchInvalid, "launch.vector_kernels[1]");
}

TEST_F(LaunchCheckTest, ControlNeedsNoCore) {
  TaskInput task;
  task.kernel = Kernel("join");
  ASSERT_THAT(Check(task), IsOk());
  EXPECT_EQ(record_.traits, kTaskControl);
  const auto refused = [this](const TaskInput& wrong, const std::string& field) {
    ExpectRefused(wrong, reason::kLaunchInvalid, field);
  };
  TaskInput wrong = task;
  wrong.core = PTO_AIV;
  refused(wrong, "launch.core");
  wrong = task;
  wrong.block_num = 2;
  refused(wrong, "launch.block_num");
  wrong = task;
  wrong.require_sync_start = true;
  refused(wrong, "launch.require_sync_start");
  wrong = task;
  const std::vector<TaskInput::Member> members = {{0, {}}, {1, {}}};
  wrong.members = members;
  refused(wrong, "members");
  wrong = task;
  wrong.vector_kernels = absl::MakeConstSpan(&task.kernel, 1);
  refused(wrong, "launch.vector_kernels");
  // A timeout of the task itself is accepted.
  task.timeout_ns = 5;
  task.block_num = 1;
  EXPECT_THAT(Check(task), IsOk());
}

TEST_F(LaunchCheckTest, NoNegativeTime) {
  TaskInput task;
  task.kernel = Kernel("nop");
  task.timeout_ns = -1;
  ExpectRefused(task, reason::kFieldInvalid, "launch.timeout");
}

TEST(ControlScalarTest, WhatTheEngineCanDo) {
  const pto_kernel_info& notify = GraphTestKernels().Find("notify")->info();
  const pto_kernel_info& wait = GraphTestKernels().Find("wait_token")->info();
  const pto_kernel_info& step = GraphTestKernels().Find("step")->info();
  EXPECT_THAT(CheckControlScalar(notify, 0, PTO_SET), IsOk());
  EXPECT_THAT(CheckControlScalar(notify, 0, PTO_ADD), IsOk());
  EXPECT_THAT(CheckControlScalar(notify, 0, 0), HasReason(reason::kScalarInvalid));
  EXPECT_THAT(CheckControlScalar(notify, 0, 3), HasReason(reason::kScalarInvalid));
  EXPECT_THAT(CheckControlScalar(notify, 1, -3), IsOk());
  for (int64_t compare = PTO_EQ; compare <= PTO_LE; ++compare) {
    EXPECT_THAT(CheckControlScalar(wait, 0, compare), IsOk());
  }
  EXPECT_THAT(CheckControlScalar(wait, 0, 0), HasReason(reason::kScalarInvalid));
  EXPECT_THAT(CheckControlScalar(wait, 0, 7), HasReason(reason::kScalarInvalid));
  EXPECT_THAT(CheckControlScalar(wait, 1, -1), IsOk());
  EXPECT_THAT(CheckControlScalar(wait, 2, 0), IsOk());
  EXPECT_THAT(CheckControlScalar(wait, 2, -1), HasReason(reason::kScalarInvalid));
  EXPECT_THAT(CheckControlScalar(step, 0, -1), IsOk());
}

}  // namespace
}  // namespace pto::engine
