// Tasks like, or nearly like, an earlier task of the same kernel: their errors are still found.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/error.h"
#include "runtime/base/status_matchers.h"
#include "runtime/graph/builder.h"
#include "runtime/graph/graph_testing.h"

namespace pto::engine {
namespace {

using ::pto::engine::testing::GraphTestTarget;
using ::pto::testing::HasReason;
using ::pto::testing::IsOk;
using ::testing::ElementsAre;

class BuilderUsualTest : public ::testing::Test {
 protected:
  explicit BuilderUsualTest(const GraphTarget& target = GraphTestTarget()) : builder_(target) {
    nop_ = builder_.AddKernel("nop").value();
    cube_ = builder_.AddKernel("cube").value();
    axpy_ = builder_.AddKernel("axpy").value();
    slot_ = builder_.AddSlot("a");
    other_slot_ = builder_.AddSlot("b");
    half_ = builder_.AddLayout(PTO_F16, {4}, {}).value();
    short_ = builder_.AddLayout(PTO_F32, {4}, {}).value();
    long_ = builder_.AddLayout(PTO_F32, {8}, {}).value();
  }

  // The n-th of adjacent tensors with that layout.
  uint32_t Tensor(uint32_t slot, uint32_t layout, int64_t n) {
    return builder_.AddTensor(slot, layout, n * (layout == long_ ? 8 : 4)).value();
  }
  absl::StatusOr<uint32_t> AddCube(uint32_t tensor, uint32_t chip = 0) {
    TaskInput task;
    task.kernel = cube_;
    task.chip = chip;
    task.args = absl::MakeConstSpan(&tensor, 1);
    return builder_.AddTask(task);
  }
  absl::StatusOr<uint32_t> AddAxpy(std::vector<uint32_t> tensors, int scalars = 1) {
    ScalarInput alpha;
    TaskInput task;
    task.kernel = axpy_;
    task.args = tensors;
    task.scalars = absl::MakeConstSpan(&alpha, static_cast<size_t>(scalars));
    return builder_.AddTask(task);
  }
  std::shared_ptr<const GraphImage> Build() { return builder_.Build().value(); }

  GraphBuilder builder_;
  uint32_t nop_, cube_, axpy_, slot_, other_slot_, half_, short_, long_;
};

std::string FieldOf(const absl::Status& status) { return GetErrorDetail(status)->field; }

TEST_F(BuilderUsualTest, HaveTheSameRecordsButForTheirArguments) {
  for (int64_t i = 0; i < 3; ++i) ASSERT_THAT(AddCube(Tensor(slot_, half_, i)), IsOk());
  const std::shared_ptr<const GraphImage> image = Build();
  for (uint32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(image->tasks()[i].core, PTO_AIC);
    EXPECT_EQ(image->tasks()[i].kernel, cube_);
    EXPECT_THAT(image->args(i), ElementsAre(i));
  }
  EXPECT_EQ(image->edge_count(), 0u);
  EXPECT_EQ(image->slot_uses()[slot_].written, (ByteRange{0, 24}));
  EXPECT_TRUE(image->slot_uses()[slot_].read.empty());
}

TEST_F(BuilderUsualTest, AnUnknownTensorIsRefused) {
  ASSERT_THAT(AddCube(Tensor(slot_, half_, 0)), IsOk());
  const absl::Status status = AddCube(7).status();
  EXPECT_THAT(status, HasReason(reason::kTensorUnknown));
  EXPECT_EQ(FieldOf(status), "args[0]");
}

TEST_F(BuilderUsualTest, AnotherNumberOfTensorsIsRefused) {
  ASSERT_THAT(AddCube(Tensor(slot_, half_, 0)), IsOk());
  TaskInput task;
  task.kernel = cube_;
  EXPECT_THAT(builder_.AddTask(task).status(), HasReason(reason::kArgumentCount));
}

TEST_F(BuilderUsualTest, AnotherTypeIsRefused) {
  ASSERT_THAT(AddCube(Tensor(slot_, half_, 0)), IsOk());
  EXPECT_THAT(AddCube(Tensor(slot_, short_, 0)).status(), HasReason(reason::kDtypeUnsupported));
}

TEST_F(BuilderUsualTest, AnotherShapeIsShownToTheKernel) {
  const uint32_t a = Tensor(slot_, short_, 0), b = Tensor(slot_, long_, 1);
  ASSERT_THAT(AddAxpy({a, a, a}), IsOk());
  ASSERT_THAT(AddAxpy({b, b, b}), IsOk());
  EXPECT_THAT(AddAxpy({b, a, b}).status(), HasReason(reason::kArgumentInvalid));
}

TEST_F(BuilderUsualTest, AnotherChipThanThatOfTheBufferIsRefused) {
  const uint32_t first = Tensor(slot_, half_, 0), second = Tensor(other_slot_, half_, 0);
  ASSERT_THAT(AddCube(first, 0), IsOk());
  ASSERT_THAT(AddCube(second, 1), IsOk());
  // Like the previous task, except for the buffer.
  const absl::Status status = AddCube(first, 1).status();
  EXPECT_THAT(status, HasReason(reason::kBufferOnOtherChip));
  EXPECT_EQ(FieldOf(status), "args[0]");
}

TEST_F(BuilderUsualTest, BothChipsAreNamed) {
  ASSERT_THAT(AddCube(Tensor(slot_, half_, 0), 0), IsOk());
  ASSERT_THAT(AddCube(Tensor(other_slot_, half_, 0), 1), IsOk());
  ASSERT_THAT(AddCube(Tensor(other_slot_, half_, 1), 1), IsOk());
  const std::shared_ptr<const GraphImage> image = Build();
  EXPECT_THAT(image->chips(), ElementsAre(0, 1));
  EXPECT_EQ(image->tasks()[2].chip, 1);
}

TEST_F(BuilderUsualTest, ScalarsAreStillCounted) {
  const uint32_t a = Tensor(slot_, short_, 0);
  ASSERT_THAT(AddAxpy({a, a, a}), IsOk());
  ASSERT_THAT(AddAxpy({a, a, a}), IsOk());
  EXPECT_THAT(AddAxpy({a, a, a}, 0).status(), HasReason(reason::kScalarCount));
}

TEST_F(BuilderUsualTest, AnotherLaunchIsLookedAt) {
  TaskInput task;
  task.kernel = nop_;
  ASSERT_THAT(builder_.AddTask(task), IsOk());
  task.block_num = 5;
  ASSERT_THAT(builder_.AddTask(task), IsOk());
  task.require_sync_start = true;
  ASSERT_THAT(builder_.AddTask(task), IsOk());
  task.core = PTO_AIC;
  ASSERT_THAT(builder_.AddTask(task), IsOk());
  const std::shared_ptr<const GraphImage> image = Build();
  EXPECT_EQ(image->tasks()[0].block_num, 1u);
  EXPECT_EQ(image->tasks()[1].block_num, 5u);
  EXPECT_EQ(image->tasks()[1].traits, 0);
  EXPECT_EQ(image->tasks()[2].traits, kTaskGang);
  EXPECT_EQ(image->tasks()[2].core, PTO_AIV);
  EXPECT_EQ(image->tasks()[3].core, PTO_AIC);
  EXPECT_EQ(image->traits(), kTaskGang);
  EXPECT_TRUE(image->has_multi_block_tasks());
}

TEST_F(BuilderUsualTest, WhatSetsATaskApartDoesNotStick) {
  TaskInput task;
  task.kernel = nop_;
  ASSERT_THAT(builder_.AddTask(task), IsOk());
  TaskInput timed = task;
  timed.timeout_ns = 5;
  ASSERT_THAT(builder_.AddTask(timed), IsOk());
  ASSERT_THAT(builder_.AddTask(task), IsOk());
  const std::shared_ptr<const GraphImage> image = Build();
  EXPECT_EQ(image->tasks()[1].traits, kTaskTimed | kTaskHasDetail);
  ASSERT_NE(image->detail(1), nullptr);
  EXPECT_EQ(image->detail(1)->timeout_ns, 5);
  EXPECT_EQ(image->tasks()[2].traits, 0);
  EXPECT_EQ(image->traits(), kTaskTimed | kTaskHasDetail);
}

TEST_F(BuilderUsualTest, OnlyEarlierTasksCanBeWaitedFor) {
  TaskInput task;
  task.kernel = nop_;
  ASSERT_THAT(builder_.AddTask(task), IsOk());
  const std::vector<uint32_t> after = {0, 1};
  task.dependencies = after;
  const absl::Status status = builder_.AddTask(task).status();
  EXPECT_THAT(status, HasReason(reason::kDependencyCycle));
  EXPECT_EQ(FieldOf(status), "after[1]");
}

TEST_F(BuilderUsualTest, ReadsOfOtherTensorsCountForTheirSlots) {
  const uint32_t a = Tensor(slot_, short_, 0);
  for (int64_t i = 1; i < 4; ++i) {
    ASSERT_THAT(AddAxpy({a, Tensor(slot_, short_, i), Tensor(other_slot_, short_, i)}), IsOk());
  }
  const std::shared_ptr<const GraphImage> image = Build();
  EXPECT_EQ(image->slot_uses()[slot_].written, (ByteRange{0, 16}));
  EXPECT_EQ(image->slot_uses()[slot_].read, (ByteRange{16, 64}));
  EXPECT_EQ(image->slot_uses()[other_slot_].read, (ByteRange{16, 64}));
}

class BuilderFullTest : public BuilderUsualTest {
 protected:
  static GraphTarget Small() {
    GraphTarget target = GraphTestTarget();
    target.max_tasks = 2;
    return target;
  }
  BuilderFullTest() : BuilderUsualTest(Small()) {}
};

TEST_F(BuilderFullTest, OneTaskTooManyIsRefused) {
  TaskInput task;
  task.kernel = nop_;
  ASSERT_THAT(builder_.AddTask(task), IsOk());
  ASSERT_THAT(builder_.AddTask(task), IsOk());
  EXPECT_THAT(builder_.AddTask(task).status(), HasReason(reason::kGraphTooLarge));
}

}  // namespace
}  // namespace pto::engine
