// Features that only few tasks use: members, vector kernels, predicates, timeouts, tasks without a
// core.

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

ScalarInput Integer(int64_t value) {
  ScalarInput scalar;
  scalar.kind = ScalarInput::Kind::kInteger;
  scalar.i64 = value;
  return scalar;
}

// Three chips, each with a buffer of F16 elements: a, b and c. Words are I32 of the slot `words`.
class BuilderDetailTest : public ::testing::Test {
 protected:
  BuilderDetailTest() : builder_(GraphTestTarget({24, 24, 24})) {
    half_ = builder_.AddLayout(PTO_F16, {4}, {}).value();
    word_ = builder_.AddLayout(PTO_I32, {}, {}).value();
    a_ = builder_.AddTensor(builder_.AddSlot("a"), half_, 0).value();
    b_ = builder_.AddTensor(builder_.AddSlot("b"), half_, 0).value();
    c_ = builder_.AddTensor(builder_.AddSlot("c"), half_, 0).value();
    signal_ = builder_.AddTensor(builder_.AddSlot("words"), word_, 0).value();
    token_ = builder_.AddTensor(builder_.AddSlot("words"), word_, 1).value();
    nop_ = builder_.AddKernel("nop").value();
    cube_ = builder_.AddKernel("cube").value();
    step_ = builder_.AddKernel("step").value();
  }

  TaskInput Cube(const uint32_t& tensor, uint32_t chip) {
    TaskInput task;
    task.kernel = cube_;
    task.chip = chip;
    task.args = absl::MakeConstSpan(&tensor, 1);
    return task;
  }
  TaskInput Nop() {
    TaskInput task;
    task.kernel = nop_;
    return task;
  }

  void ExpectRefused(const TaskInput& task, const Reason& reason, const std::string& field) {
    const absl::StatusOr<uint32_t> index = builder_.AddTask(task);
    ASSERT_THAT(index, HasReason(reason)) << field;
    EXPECT_EQ(GetErrorDetail(index.status())->field, field) << index.status();
  }

  GraphBuilder builder_;
  uint32_t half_, word_, a_, b_, c_, signal_, token_, nop_, cube_, step_;
};

TEST_F(BuilderDetailTest, MostTasksHaveNone) {
  builder_.AddTask(Nop()).value();
  builder_.AddTask(Cube(a_, 0)).value();
  const std::shared_ptr<const GraphImage> image = builder_.Build().value();
  EXPECT_TRUE(image->details().empty());
  EXPECT_EQ(image->detail(0), nullptr);
  EXPECT_FALSE(image->has_multi_block_tasks());
}

TEST_F(BuilderDetailTest, Members) {
  builder_.AddTask(Nop()).value();
  builder_.AddTask(Cube(b_, 1)).value();
  const std::vector<TaskInput::Member> members = {{2, absl::MakeConstSpan(&c_, 1)},
                                                  {1, absl::MakeConstSpan(&b_, 1)}};
  TaskInput group;
  group.kernel = cube_;
  group.block_num = 3;
  group.members = members;
  ASSERT_THAT(builder_.AddTask(group), IsOk());
  builder_.AddTask(Cube(c_, 2)).value();
  const std::shared_ptr<const GraphImage> image = builder_.Build().value();
  const ImageDetail* const detail = image->detail(2);
  ASSERT_NE(detail, nullptr);
  EXPECT_EQ(image->detail(1), nullptr);
  EXPECT_THAT(image->members(*detail), ElementsAre(2, 1));
  EXPECT_THAT(image->args(2, 0), ElementsAre(c_));
  EXPECT_THAT(image->args(2, 1), ElementsAre(b_));
  EXPECT_THAT(image->args(3), ElementsAre(c_));
  EXPECT_EQ(image->tasks()[2].traits, kTaskGang | kTaskHasDetail);
  EXPECT_EQ(image->blocks(2), 6u);
  EXPECT_TRUE(image->has_multi_block_tasks());
  EXPECT_THAT(image->chips(), ElementsAre(0, 1, 2));
  // The task waits for the dependencies of all its members, and its successors wait for all
  // members.
  EXPECT_THAT(image->successors(1), ElementsAre(2));
  EXPECT_THAT(image->successors(2), ElementsAre(3));
  EXPECT_EQ(image->slots()[1].chip, 1u);
  EXPECT_EQ(image->slots()[2].chip, 2u);
}

TEST_F(BuilderDetailTest, BadMembers) {
  TaskInput group;
  group.kernel = cube_;
  std::vector<TaskInput::Member> members = {{0, absl::MakeConstSpan(&a_, 1)}, {1, {}}};
  group.members = members;
  ExpectRefused(group, reason::kArgumentCount, "members[1].args");
  const uint32_t none = 99;
  members[1].args = absl::MakeConstSpan(&none, 1);
  ExpectRefused(group, reason::kTensorUnknown, "members[1].args[0]");
  members[1].args = absl::MakeConstSpan(&signal_, 1);
  ExpectRefused(group, reason::kDtypeUnsupported, "members[1].args[0]");
  // The slot of the first member was bound to its chip above.
  members[1].args = absl::MakeConstSpan(&a_, 1);
  ExpectRefused(group, reason::kBufferOnOtherChip, "members[1].args[0]");
}

TEST_F(BuilderDetailTest, VectorKernels) {
  const std::vector<ScalarInput> scalars = {Integer(1), Integer(1)};
  const std::vector<uint32_t> vector = {step_};
  TaskInput task;
  task.kernel = step_;
  task.args = absl::MakeConstSpan(&a_, 1);
  task.scalars = scalars;
  task.vector_kernels = vector;
  ASSERT_THAT(builder_.AddTask(task), IsOk());
  const std::shared_ptr<const GraphImage> image = builder_.Build().value();
  const ImageDetail* const detail = image->detail(0);
  ASSERT_NE(detail, nullptr);
  EXPECT_EQ(image->tasks()[0].traits, kTaskMixed | kTaskHasDetail);
  EXPECT_THAT(detail->vector_kernels, ElementsAre(step_, uint32_t{ImageDetail::kNone}));
  EXPECT_THAT(image->members(*detail), ElementsAre(0));
  EXPECT_EQ(image->blocks(0), 1u);
}

// The vector kernels get the same tensors, so the tensors must suit them too.
TEST_F(BuilderDetailTest, VectorKernelsLookAtTheTensors) {
  const uint32_t axpy = builder_.AddKernel("axpy").value();
  TaskInput task = Cube(a_, 0);
  task.core = PTO_MIX;
  task.vector_kernels = absl::MakeConstSpan(&axpy, 1);
  ExpectRefused(task, reason::kLaunchInvalid, "launch.vector_kernels[0]");
  const uint32_t floats = builder_.AddLayout(PTO_F32, {4}, {}).value();
  const uint32_t tensor = builder_.AddTensor(builder_.AddSlot("f"), floats, 0).value();
  const std::vector<ScalarInput> scalars = {Integer(1), Integer(1)};
  task.args = absl::MakeConstSpan(&tensor, 1);
  task.kernel = step_;
  task.scalars = scalars;
  task.vector_kernels = absl::MakeConstSpan(&step_, 1);
  EXPECT_THAT(builder_.AddTask(task), IsOk());
}

TEST_F(BuilderDetailTest, Predicates) {
  TaskInput writer;
  writer.kernel = step_;
  writer.args = absl::MakeConstSpan(&signal_, 1);
  const std::vector<ScalarInput> scalars = {Integer(1), Integer(1)};
  writer.scalars = scalars;
  builder_.AddTask(writer).value();
  TaskInput task = Nop();
  task.predicate = PredicateInput{signal_, PTO_GE, -7};
  builder_.AddTask(task).value();
  builder_.AddTask(writer).value();
  const std::shared_ptr<const GraphImage> image = builder_.Build().value();
  const ImageDetail* const detail = image->detail(1);
  ASSERT_NE(detail, nullptr);
  EXPECT_EQ(image->tasks()[1].traits, kTaskPredicated | kTaskHasDetail);
  EXPECT_EQ(detail->predicate_tensor, signal_);
  EXPECT_EQ(detail->predicate_compare, static_cast<uint32_t>(PTO_GE));
  EXPECT_EQ(detail->predicate_value, -7);
  // The predicate reads the tensor: after the first write, before the second.
  EXPECT_THAT(image->successors(0), ElementsAre(1));
  EXPECT_THAT(image->successors(1), ElementsAre(2));
}

TEST_F(BuilderDetailTest, BadPredicates) {
  const auto refused = [this](PredicateInput predicate, const Reason& reason,
                              const std::string& field) {
    TaskInput task = Nop();
    task.predicate = predicate;
    ExpectRefused(task, reason, field);
  };
  refused({99, PTO_EQ, 0}, reason::kTensorUnknown, "predicate.tensor");
  refused({a_, PTO_EQ, 0}, reason::kArgumentInvalid, "predicate.tensor");
  const uint32_t empty = builder_.AddLayout(PTO_I32, {0}, {}).value();
  refused({builder_.AddTensor(0, empty, 0).value(), PTO_EQ, 0}, reason::kArgumentInvalid,
          "predicate.tensor");
  const uint32_t one_float = builder_.AddLayout(PTO_F64, {1}, {}).value();
  refused({builder_.AddTensor(0, one_float, 0).value(), PTO_EQ, 0}, reason::kDtypeUnsupported,
          "predicate.tensor");
  refused({signal_, 0, 0}, reason::kFieldInvalid, "predicate.compare");
  refused({signal_, 7, 0}, reason::kFieldInvalid, "predicate.compare");
  builder_.AddTask(Cube(c_, 2)).value();
  const uint32_t bytes = builder_.AddLayout(PTO_U8, {1, 1}, {}).value();
  refused({builder_.AddTensor(2, bytes, 0).value(), PTO_EQ, 0}, reason::kBufferOnOtherChip,
          "predicate.tensor");
}

TEST_F(BuilderDetailTest, TimesOfTheirOwn) {
  TaskInput task = Nop();
  task.timeout_ns = 1234;
  builder_.AddTask(task).value();
  const std::shared_ptr<const GraphImage> image = builder_.Build().value();
  EXPECT_EQ(image->tasks()[0].traits, kTaskTimed | kTaskHasDetail);
  EXPECT_EQ(image->detail(0)->timeout_ns, 1234);
}

TEST_F(BuilderDetailTest, ControlTasksReachAllChips) {
  const uint32_t notify = builder_.AddKernel("notify").value();
  const uint32_t copy = builder_.AddKernel("copy_async").value();
  builder_.AddTask(Cube(a_, 0)).value();
  TaskInput task;
  task.kernel = copy;
  task.chip = 1;
  std::vector<uint32_t> args = {b_, a_};
  task.args = args;
  ASSERT_THAT(builder_.AddTask(task), IsOk());
  const std::vector<ScalarInput> scalars = {Integer(PTO_ADD), Integer(1)};
  task.kernel = notify;
  task.args = absl::MakeConstSpan(&signal_, 1);
  task.scalars = scalars;
  ASSERT_THAT(builder_.AddTask(task), IsOk());
  builder_.AddTask(Cube(b_, 2)).value();
  const std::shared_ptr<const GraphImage> image = builder_.Build().value();
  EXPECT_EQ(image->slots()[0].chip, 0u);
  // A kernel that needs a core determines the chip of the buffer, whether it comes first or last.
  EXPECT_EQ(image->slots()[1].chip, 2u);
  EXPECT_EQ(image->slots()[2].chip, uint32_t{ImageSlot::kUnused});
  EXPECT_EQ(image->slots()[3].chip, uint32_t{ImageSlot::kAnyChip});
  EXPECT_EQ(image->tasks()[1].traits, kTaskControl);
  // A copy is ordered by its reads and writes; a signal orders nothing.
  EXPECT_THAT(image->successors(0), ElementsAre(1));
  EXPECT_THAT(image->successors(1), ElementsAre(3));
  EXPECT_THAT(image->successors(2), ElementsAre());
}

TEST_F(BuilderDetailTest, ATokenOrdersWhatFollowsAWait) {
  const uint32_t wait = builder_.AddKernel("wait_token").value();
  const std::vector<uint32_t> args = {signal_, token_};
  std::vector<ScalarInput> scalars = {Integer(PTO_GE), Integer(3), Integer(0)};
  TaskInput task;
  task.kernel = wait;
  task.args = args;
  task.scalars = scalars;
  builder_.AddTask(task).value();
  TaskInput consumer = Nop();
  consumer.predicate = PredicateInput{token_, PTO_NE, -1};
  builder_.AddTask(consumer).value();
  EXPECT_THAT(builder_.Build().value()->successors(0), ElementsAre(1));
}

TEST_F(BuilderDetailTest, BadScalarsOfControlTasks) {
  const uint32_t wait = builder_.AddKernel("wait").value();
  std::vector<ScalarInput> scalars = {Integer(0), Integer(3), Integer(0)};
  TaskInput task;
  task.kernel = wait;
  task.args = absl::MakeConstSpan(&signal_, 1);
  task.scalars = scalars;
  ExpectRefused(task, reason::kScalarInvalid, "scalars[0]");
  scalars[0] = Integer(PTO_EQ);
  scalars[2] = Integer(-1);
  ExpectRefused(task, reason::kScalarInvalid, "scalars[2]");
}

}  // namespace
}  // namespace pto::engine
