#include "runtime/graph/builder.h"

#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/error.h"
#include "runtime/base/status_matchers.h"
#include "runtime/graph/graph_testing.h"

namespace pto::engine {
namespace {

using ::pto::engine::testing::GraphTestTarget;
using ::pto::testing::HasReason;
using ::pto::testing::IsOk;
using ::testing::ElementsAre;

ScalarInput Float(double value) {
  ScalarInput scalar;
  scalar.kind = ScalarInput::Kind::kFloat;
  scalar.f64 = value;
  return scalar;
}

ScalarInput Integer(int64_t value) {
  ScalarInput scalar;
  scalar.kind = ScalarInput::Kind::kInteger;
  scalar.i64 = value;
  return scalar;
}

ScalarInput Named(uint32_t index) {
  ScalarInput scalar;
  scalar.kind = ScalarInput::Kind::kNamed;
  scalar.named = index;
  return scalar;
}

uint64_t BitsOf(double value) {
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

// A builder with all test kernels, two slots and three tensors: x and y in slot `a`, [2,3] F32; z
// in slot `b`, [4] F16.
class BuilderTest : public ::testing::Test {
 protected:
  BuilderTest() : builder_(GraphTestTarget()) {
    for (const char* name : {"nop", "axpy", "step", "cube", "gang"}) {
      builder_.AddKernel(name).value();
    }
    const uint32_t a = builder_.AddSlot("a");
    const uint32_t b = builder_.AddSlot("b");
    const uint32_t matrix = builder_.AddLayout(PTO_F32, {2, 3}, {}).value();
    const uint32_t half = builder_.AddLayout(PTO_F16, {4}, {}).value();
    x_ = builder_.AddTensor(a, matrix, 0).value();
    y_ = builder_.AddTensor(a, matrix, 6).value();
    z_ = builder_.AddTensor(b, half, 0).value();
  }

  // Adds a valid task after the tasks in `after`.
  uint32_t AddNop(std::vector<uint32_t> after = {}) {
    TaskInput task;
    task.kernel = kNop;
    task.dependencies = after;
    return builder_.AddTask(task).value();
  }

  void ExpectRefused(const TaskInput& task, const Reason& reason, const std::string& field) {
    const absl::StatusOr<uint32_t> index = builder_.AddTask(task);
    ASSERT_THAT(index, HasReason(reason));
    EXPECT_EQ(GetErrorDetail(index.status())->field, field) << index.status();
  }

  enum : uint32_t { kNop, kAxpy, kStep, kCube, kGang };
  GraphBuilder builder_;
  uint32_t x_ = 0, y_ = 0, z_ = 0;
};

TEST_F(BuilderTest, CountsFromZero) {
  EXPECT_EQ(x_, 0u);
  EXPECT_EQ(y_, 1u);
  EXPECT_EQ(z_, 2u);
  EXPECT_EQ(AddNop(), 0u);
  EXPECT_EQ(AddNop(), 1u);
  EXPECT_EQ(builder_.task_count(), 2u);
  EXPECT_EQ(builder_.AddSlot("a"), 0u);
  EXPECT_EQ(builder_.AddSlot("b"), 1u);
  EXPECT_EQ(builder_.AddSlot("c"), 2u);
}

TEST_F(BuilderTest, UnknownKernel) {
  const absl::StatusOr<uint32_t> kernel = builder_.AddKernel("none");
  ASSERT_THAT(kernel, HasReason(reason::kKernelUnknown));
  TaskInput task;
  task.kernel = 5;
  ExpectRefused(task, reason::kKernelUnknown, "kernel");
}

TEST_F(BuilderTest, TensorsOfUnknownParts) {
  EXPECT_THAT(builder_.AddTensor(2, 0, 0), HasReason(reason::kTensorInvalid));
  EXPECT_THAT(builder_.AddTensor(0, 2, 0), HasReason(reason::kTensorInvalid));
  EXPECT_THAT(builder_.AddTensor(0, 0, -1), HasReason(reason::kTensorInvalid));
  EXPECT_THAT(builder_.AddTensor(0, 0, std::numeric_limits<int64_t>::max()),
              HasReason(reason::kTensorInvalid));
}

TEST_F(BuilderTest, Launches) {
  TaskInput task;
  task.kernel = kNop;
  task.chip = 2;
  ExpectRefused(task, reason::kChipUnknown, "chip");
  task.chip = 0;
  // 256 and 258 would be 0 and 2 in eight bits.
  for (const uint32_t core : {4u, 255u, 256u, 258u, 0xffffffffu}) {
    task.core = core;
    ExpectRefused(task, reason::kLaunchInvalid, "launch.core");
  }
  task.core = PTO_AIC;
  task.block_num = (1u << 30) + 1;
  ExpectRefused(task, reason::kLaunchInvalid, "launch.block_num");
  task.block_num = 25;
  EXPECT_THAT(builder_.AddTask(task), IsOk());
  task.require_sync_start = true;
  ExpectRefused(task, reason::kLaunchInvalid, "launch.block_num");
  task.block_num = 24;
  EXPECT_THAT(builder_.AddTask(task), IsOk());
  task.block_num = 1;
  EXPECT_THAT(builder_.AddTask(task), IsOk());
  task.kernel = kGang;
  EXPECT_THAT(builder_.AddTask(task), IsOk());
  task.require_sync_start = false;
  ExpectRefused(task, reason::kLaunchInvalid, "launch.require_sync_start");
}

TEST_F(BuilderTest, DefaultsOfALaunch) {
  AddNop();
  TaskInput task;
  task.kernel = kCube;
  task.args = absl::MakeConstSpan(&z_, 1);
  builder_.AddTask(task).value();
  task.core = PTO_MIX;
  task.block_num = 70;
  builder_.AddTask(task).value();
  const std::shared_ptr<const GraphImage> image = builder_.Build().value();
  EXPECT_EQ(image->tasks()[0].core, PTO_AIV);
  EXPECT_EQ(image->tasks()[0].block_num, 1u);
  EXPECT_EQ(image->tasks()[1].core, PTO_AIC);
  EXPECT_EQ(image->tasks()[2].core, PTO_MIX);
  EXPECT_EQ(image->tasks()[2].block_num, 70u);
}

TEST_F(BuilderTest, Arguments) {
  const ScalarInput alpha = Float(1);
  TaskInput task;
  task.kernel = kAxpy;
  task.scalars = absl::MakeConstSpan(&alpha, 1);
  const auto with_args = [&](const std::vector<uint32_t>& args, const Reason& reason,
                             const std::string& field) {
    task.args = args;
    ExpectRefused(task, reason, field);
  };
  with_args({}, reason::kArgumentCount, "args");
  with_args({x_, y_}, reason::kArgumentCount, "args");
  with_args({x_, y_, x_, y_}, reason::kArgumentCount, "args");
  with_args({x_, 3, y_}, reason::kTensorUnknown, "args[1]");
  with_args({x_, x_, z_}, reason::kDtypeUnsupported, "args[2]");
  const uint32_t longer = builder_.AddLayout(PTO_F32, {2, 4}, {}).value();
  const uint32_t other = builder_.AddTensor(0, longer, 0).value();
  with_args({x_, x_, other}, reason::kArgumentInvalid, "args");
}

TEST_F(BuilderTest, ABufferIsOnOneChip) {
  TaskInput task;
  task.kernel = kCube;
  task.args = absl::MakeConstSpan(&z_, 1);
  task.chip = 1;
  EXPECT_THAT(builder_.AddTask(task), IsOk());
  task.chip = 0;
  ExpectRefused(task, reason::kBufferOnOtherChip, "args[0]");
}

TEST_F(BuilderTest, Scalars) {
  TaskInput task;
  task.kernel = kStep;
  task.args = absl::MakeConstSpan(&x_, 1);
  const auto with_scalars = [&](const std::vector<ScalarInput>& scalars, const Reason& reason,
                                const std::string& field) {
    task.scalars = scalars;
    ExpectRefused(task, reason, field);
  };
  with_scalars({}, reason::kScalarCount, "scalars");
  with_scalars({Float(1)}, reason::kScalarCount, "scalars");
  with_scalars({Float(1), Integer(1), Integer(1)}, reason::kScalarCount, "scalars");
  with_scalars({Float(1), Named(0)}, reason::kScalarUnknown, "scalars[1]");
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const double value :
       {0.5, nan, 9223372036854775808.0, -9.3e18, std::numeric_limits<double>::infinity()}) {
    with_scalars({Float(1), Float(value)}, reason::kScalarInvalid, "scalars[1]");
  }
}

TEST_F(BuilderTest, ScalarBitsFollowTheSignature) {
  const uint32_t named = builder_.AddScalar("n", Float(3));
  builder_.AddScalar("unused", Integer(5));
  const auto add = [&](ScalarInput rate, ScalarInput count) {
    const std::vector<ScalarInput> scalars = {rate, count};
    TaskInput task;
    task.kernel = kStep;
    task.args = absl::MakeConstSpan(&x_, 1);
    task.scalars = scalars;
    EXPECT_THAT(builder_.AddTask(task), IsOk());
  };
  ScalarInput bits;
  bits.kind = ScalarInput::Kind::kBits;
  bits.bits = 0x8000000000000001;
  add(Integer(-2), Float(-9223372036854775808.0));
  add(Float(0.25), Named(named));
  add(bits, bits);
  const std::shared_ptr<const GraphImage> image = builder_.Build().value();
  const auto value = [&](uint32_t task, size_t i) {
    return image->scalar_values()[image->scalar_refs(task)[i]];
  };
  EXPECT_EQ(value(0, 0), BitsOf(-2.0));
  EXPECT_EQ(value(0, 1), uint64_t{1} << 63);
  EXPECT_EQ(value(1, 0), BitsOf(0.25));
  EXPECT_EQ(value(1, 1), 3u);
  EXPECT_EQ(image->scalar_refs(1)[1], named);
  EXPECT_EQ(value(2, 0), 0x8000000000000001);
  EXPECT_EQ(value(2, 1), 0x8000000000000001);
  EXPECT_EQ(image->scalar_values()[1], BitsOf(5.0));
}

TEST_F(BuilderTest, ANamedScalarIsOfOneType) {
  const uint32_t named = builder_.AddScalar("n", Float(3));
  const std::vector<ScalarInput> scalars = {Named(named), Named(named)};
  TaskInput task;
  task.kernel = kStep;
  task.args = absl::MakeConstSpan(&x_, 1);
  task.scalars = scalars;
  ExpectRefused(task, reason::kScalarInvalid, "scalars[1]");
}

TEST_F(BuilderTest, ANamedScalarIsCheckedAgainstItsUse) {
  builder_.AddScalar("first", Integer(1));
  const uint32_t named = builder_.AddScalar("n", Float(0.5));
  const std::vector<ScalarInput> scalars = {Float(1), Named(named)};
  TaskInput task;
  task.kernel = kStep;
  task.args = absl::MakeConstSpan(&x_, 1);
  task.scalars = scalars;
  ASSERT_THAT(builder_.AddTask(task), IsOk());
  const auto image = builder_.Build();
  ASSERT_THAT(image, HasReason(reason::kScalarInvalid));
  EXPECT_EQ(GetErrorDetail(image.status())->field, "scalars[1].value");
}

TEST_F(BuilderTest, DependsOnlyOnEarlierTasks) {
  AddNop();
  const std::vector<uint32_t> self = {0, 1}, later = {5};
  TaskInput task;
  task.kernel = kNop;
  task.dependencies = self;
  ExpectRefused(task, reason::kDependencyCycle, "after[1]");
  task.dependencies = later;
  ExpectRefused(task, reason::kDependencyCycle, "after[0]");
}

TEST_F(BuilderTest, ADependencyNamedTwiceCountsOnce) {
  AddNop();
  AddNop({0, 0, 0});
  const std::shared_ptr<const GraphImage> image = builder_.Build().value();
  EXPECT_EQ(image->tasks()[1].dependencies, 1u);
  EXPECT_EQ(image->edge_count(), 1u);
  EXPECT_THAT(image->successors(0), ElementsAre(1));
}

// Tasks of `step` update one tensor; tasks of `axpy` write the first tensor and read the others.
class FoundDependenciesTest : public BuilderTest {
 protected:
  uint32_t Step(uint32_t tensor, std::vector<uint32_t> after = {}) {
    const std::vector<ScalarInput> scalars = {Float(1), Integer(1)};
    return Add(kStep, {tensor}, scalars, after, 0);
  }
  uint32_t Axpy(std::vector<uint32_t> args, uint32_t no_dependency_args = 0) {
    return Add(kAxpy, args, {Float(1)}, {}, no_dependency_args);
  }
  uint32_t Add(uint32_t kernel, const std::vector<uint32_t>& args,
               const std::vector<ScalarInput>& scalars, const std::vector<uint32_t>& after,
               uint32_t no_dependency_args) {
    TaskInput task;
    task.kernel = kernel;
    task.args = args;
    task.scalars = scalars;
    task.dependencies = after;
    task.no_dependency_args = no_dependency_args;
    return builder_.AddTask(task).value();
  }
};

TEST_F(FoundDependenciesTest, FollowFromDirections) {
  const uint32_t matrix = builder_.AddLayout(PTO_F32, {2, 3}, {}).value();
  const uint32_t w = builder_.AddTensor(1, matrix, 0).value();
  Step(x_);           // 0
  Step(y_);           // 1
  Axpy({w, x_, y_});  // 2 reads what 0 and 1 wrote
  Axpy({w, x_, x_});  // 3 writes what 2 wrote
  Step(x_);           // 4 writes what 2 and 3 read
  Axpy({y_, w, w});   // 5 reads what 3 wrote, and writes what 2 read
  const std::shared_ptr<const GraphImage> image = builder_.Build().value();
  EXPECT_THAT(image->roots(), ElementsAre(0, 1));
  EXPECT_THAT(image->successors(0), ElementsAre(2, 3));
  EXPECT_THAT(image->successors(1), ElementsAre(2));
  EXPECT_THAT(image->successors(2), ElementsAre(3, 4, 5));
  EXPECT_THAT(image->successors(3), ElementsAre(4, 5));
  EXPECT_THAT(image->successors(4), ElementsAre());
}

TEST_F(FoundDependenciesTest, StandBesideNamedOnes) {
  Step(x_);
  Step(y_, {0});
  Step(x_, {0, 1});
  const std::shared_ptr<const GraphImage> image = builder_.Build().value();
  EXPECT_THAT(image->successors(0), ElementsAre(1, 2));
  EXPECT_THAT(image->successors(1), ElementsAre(2));
  EXPECT_EQ(image->tasks()[2].dependencies, 2u);
}

TEST_F(FoundDependenciesTest, AnArgumentCanStandAside) {
  Step(x_);
  Axpy({y_, x_, x_}, 1 << 1 | 1 << 2);
  Axpy({x_, y_, y_}, 1 << 0);
  Step(x_);
  const std::shared_ptr<const GraphImage> image = builder_.Build().value();
  EXPECT_THAT(image->roots(), ElementsAre(0, 1));
  EXPECT_THAT(image->successors(0), ElementsAre(3));
  EXPECT_THAT(image->successors(1), ElementsAre(2));
}

TEST_F(FoundDependenciesTest, OnlyNamedOnesIfWanted) {
  GraphBuilder::Options options;
  options.find_dependencies = false;
  GraphBuilder builder(GraphTestTarget(), options);
  TaskInput task;
  task.kernel = builder.AddKernel("cube").value();
  const uint32_t slot = builder.AddSlot("a");
  const uint32_t layout = builder.AddLayout(PTO_F16, {4}, {}).value();
  const uint32_t tensor = builder.AddTensor(slot, layout, 0).value();
  task.args = absl::MakeConstSpan(&tensor, 1);
  const uint32_t first = builder.AddTask(task).value();
  builder.AddTask(task).value();
  task.dependencies = absl::MakeConstSpan(&first, 1);
  builder.AddTask(task).value();
  EXPECT_THAT(builder.Build().value()->successors(0), ElementsAre(2));
}

TEST_F(FoundDependenciesTest, TooMany) {
  GraphTarget target = GraphTestTarget();
  target.max_dependencies = 3;
  GraphBuilder builder(target);
  TaskInput task;
  task.kernel = builder.AddKernel("cube").value();
  const uint32_t slot = builder.AddSlot("a");
  const uint32_t layout = builder.AddLayout(PTO_F16, {4}, {}).value();
  const uint32_t tensor = builder.AddTensor(slot, layout, 0).value();
  task.args = absl::MakeConstSpan(&tensor, 1);
  for (int i = 0; i < 4; ++i) ASSERT_THAT(builder.AddTask(task), IsOk());
  const absl::StatusOr<uint32_t> fifth = builder.AddTask(task);
  ASSERT_THAT(fifth, HasReason(reason::kGraphTooLarge));
  EXPECT_EQ(GetErrorDetail(fifth.status())->quota->limit, 3u);
}

TEST_F(FoundDependenciesTest, TooManyComparisons) {
  GraphTarget target = GraphTestTarget();
  target.base_work = 0;
  GraphBuilder builder(target);
  const ScalarInput alpha = Float(1);
  TaskInput task;
  task.kernel = builder.AddKernel("axpy").value();
  task.scalars = absl::MakeConstSpan(&alpha, 1);
  const uint32_t layout = builder.AddLayout(PTO_F32, {1000}, {}).value();
  const uint32_t apart = builder.AddTensor(builder.AddSlot("b"), layout, 0).value();
  // Each second argument overlaps all earlier ones, but few tasks wait for another.
  const uint32_t slot = builder.AddSlot("a");
  const uint32_t odd = builder.AddLayout(PTO_F32, {1000}, {64}).value();
  const uint32_t even = builder.AddLayout(PTO_F32, {1000}, {62}).value();
  absl::Status status;
  int64_t added = 0;
  for (; status.ok() && added < 20'000; ++added) {
    const uint32_t view = builder.AddTensor(slot, added % 2 == 0 ? odd : even, added).value();
    const uint32_t args[] = {view, apart, apart};
    task.args = args;
    status = builder.AddTask(task).status();
  }
  ASSERT_THAT(status, HasReason(reason::kGraphTooLarge));
  const absl::optional<ErrorDetail> detail = GetErrorDetail(status);
  EXPECT_EQ(detail->field, "args[0]");
  EXPECT_EQ(detail->quota->name, "max_argument_comparisons");
  EXPECT_EQ(detail->quota->limit, WorkBudget::kPerArgument);
  EXPECT_GT(added, 100);
  EXPECT_LT(added, 15'000);
}

TEST_F(FoundDependenciesTest, CompilingIsCancelled) {
  bool gone = false;
  GraphBuilder builder(GraphTestTarget(), {.cancelled = [&gone] { return gone; }});
  TaskInput task;
  task.kernel = builder.AddKernel("nop").value();
  for (uint64_t i = 0; i < 2 * WorkBudget::kCheckInterval; ++i) {
    ASSERT_THAT(builder.AddTask(task), IsOk());
  }
  gone = true;
  absl::Status status;
  for (uint64_t i = 0; status.ok() && i <= WorkBudget::kCheckInterval; ++i) {
    status = builder.AddTask(task).status();
  }
  EXPECT_THAT(status, HasReason(reason::kClientGone));
}

TEST_F(BuilderTest, TooManyTasks) {
  GraphTarget target = GraphTestTarget();
  target.max_tasks = 2;
  GraphBuilder builder(target);
  TaskInput task;
  task.kernel = builder.AddKernel("nop").value();
  EXPECT_THAT(builder.AddTask(task), IsOk());
  EXPECT_THAT(builder.AddTask(task), IsOk());
  const absl::StatusOr<uint32_t> third = builder.AddTask(task);
  ASSERT_THAT(third, HasReason(reason::kGraphTooLarge));
  EXPECT_EQ(GetErrorDetail(third.status())->quota->limit, 2u);
}

TEST_F(BuilderTest, NoTask) { EXPECT_THAT(builder_.Build(), HasReason(reason::kGraphEmpty)); }

TEST_F(BuilderTest, SlotsKnowTheirSizeAndChip) {
  TaskInput task;
  task.kernel = kCube;
  task.chip = 1;
  task.args = absl::MakeConstSpan(&z_, 1);
  builder_.AddTask(task).value();
  const std::shared_ptr<const GraphImage> image = builder_.Build().value();
  EXPECT_EQ(image->slots()[0].chip, ImageSlot::kUnused);
  EXPECT_EQ(image->slots()[0].min_bytes, 48u);
  EXPECT_EQ(image->slots()[0].largest_tensor, y_);
  EXPECT_EQ(image->slots()[1].chip, 1u);
  EXPECT_EQ(image->slots()[1].min_bytes, 8u);
  EXPECT_THAT(image->chips(), ElementsAre(1));
}

// Random graphs, compared with a list of edges.
TEST(BuilderRandomTest, EdgesAreWhatWasSaid) {
  std::mt19937 random(7);
  for (int round = 0; round < 50; ++round) {
    GraphBuilder builder(GraphTestTarget());
    const uint32_t nop = builder.AddKernel("nop").value();
    const uint32_t count = 1 + random() % 200;
    std::set<std::pair<uint32_t, uint32_t>> edges;
    for (uint32_t i = 0; i < count; ++i) {
      std::vector<uint32_t> after;
      for (uint32_t d = i == 0 ? 0 : random() % 5; d > 0; --d) {
        after.push_back(random() % i);
        edges.emplace(after.back(), i);
      }
      TaskInput task;
      task.kernel = nop;
      task.dependencies = after;
      builder.AddTask(task).value();
    }
    const std::shared_ptr<const GraphImage> image = builder.Build().value();
    std::set<std::pair<uint32_t, uint32_t>> found;
    std::vector<uint32_t> waits(count);
    for (uint32_t i = 0; i < count; ++i) {
      for (const uint32_t successor : image->successors(i)) {
        EXPECT_TRUE(found.emplace(i, successor).second);
        ++waits[successor];
      }
    }
    EXPECT_EQ(found, edges);
    std::vector<uint32_t> roots;
    for (uint32_t i = 0; i < count; ++i) {
      EXPECT_EQ(image->tasks()[i].dependencies, waits[i]);
      if (waits[i] == 0) roots.push_back(i);
    }
    EXPECT_THAT(image->roots(), ::testing::ElementsAreArray(roots));
  }
}

}  // namespace
}  // namespace pto::engine
