#include "runtime/graph/open_graph.h"

#include <algorithm>
#include <bitset>
#include <memory>
#include <random>
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
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// axpy on 4 floats of one slot: `out` from `x` and `y`, given by their first elements.
class OpenGraphTest : public ::testing::Test {
 protected:
  static constexpr uint32_t kElements = 16;

  OpenGraphTest() {
    axpy_ = graph_.AddKernel("axpy").value();
    const uint32_t layout = graph_.AddLayout(PTO_F32, {4}, {}).value();
    const uint32_t slot = graph_.AddSlot("data");
    for (uint32_t i = 0; i + 4 <= kElements; ++i) {
      tensors_.push_back(graph_.AddTensor(slot, layout, i).value());
    }
  }

  absl::StatusOr<uint32_t> Axpy(uint32_t out, uint32_t x, uint32_t y,
                                std::vector<uint32_t> after = {}) {
    const std::vector<uint32_t> args = {tensors_[out], tensors_[x], tensors_[y]};
    const ScalarInput alpha;
    TaskInput task;
    task.kernel = axpy_;
    task.args = args;
    task.scalars = absl::MakeConstSpan(&alpha, 1);
    task.dependencies = after;
    return graph_.AddTask(task);
  }

  OpenGraph graph_{GraphTestTarget()};
  uint32_t axpy_ = 0;
  std::vector<uint32_t> tensors_;
};

MATCHER_P2(LinkIs, task, before, "") { return arg.task == task && arg.before == before; }

TEST_F(OpenGraphTest, DependenciesReachBackOverCuts) {
  EXPECT_EQ(Axpy(0, 4, 8).value(), 0u);
  EXPECT_EQ(Axpy(12, 0, 8).value(), 1u);
  EXPECT_EQ(graph_.uncut_tasks(), 2u);
  const GraphSegment first = graph_.Cut().value();
  EXPECT_EQ(first.first_task, 0u);
  EXPECT_THAT(first.image->successors(0), ElementsAre(1));
  EXPECT_THAT(first.links, IsEmpty());

  Axpy(4, 8, 8).value();   // after 0, which reads element 4
  Axpy(8, 4, 12).value();  // after 1 and 2
  const GraphSegment second = graph_.Cut().value();
  EXPECT_EQ(second.first_task, 2u);
  EXPECT_EQ(second.image->task_count(), 2u);
  EXPECT_EQ(second.image->args(0).size(), 3u);
  EXPECT_THAT(second.slots, ElementsAre(0));
  EXPECT_THAT(second.image->successors(0), ElementsAre(1));
  EXPECT_THAT(second.links, ElementsAre(LinkIs(0u, 0u), LinkIs(1u, 0u), LinkIs(1u, 1u)));
}

TEST_F(OpenGraphTest, WhatHasEndedIsNotWaitedFor) {
  Axpy(0, 4, 4).value();
  Axpy(8, 4, 4).value();
  graph_.Cut().value();
  graph_.ForgetBefore(1);
  Axpy(12, 0, 8, {0, 1}).value();
  EXPECT_THAT(graph_.Cut().value().links, ElementsAre(LinkIs(0u, 1u)));
}

TEST_F(OpenGraphTest, ASegmentHasOnlyWhatItUses) {
  Axpy(0, 4, 8).value();
  const GraphSegment first = graph_.Cut().value();
  EXPECT_EQ(first.image->tensors().size(), 3u);
  EXPECT_EQ(first.image->kernels().size(), 1u);
}

TEST_F(OpenGraphTest, BadTasksAreRefused) {
  EXPECT_THAT(Axpy(0, 4, 8, {0}), HasReason(reason::kDependencyCycle));
  TaskInput task;
  task.kernel = 7;
  EXPECT_THAT(graph_.AddTask(task), HasReason(reason::kKernelUnknown));
  const uint32_t args[] = {1000, 0, 0};
  task.kernel = axpy_;
  task.args = args;
  EXPECT_THAT(graph_.AddTask(task), HasReason(reason::kTensorUnknown));
  EXPECT_THAT(graph_.Cut(), HasReason(reason::kGraphEmpty));
}

TEST_F(OpenGraphTest, ErrorsNameTheFieldsOfABuilder) {
  const auto field_of = [&](const TaskInput& task) {
    OpenGraph graph(GraphTestTarget());
    graph.AddKernel("axpy").value();
    return GetErrorDetail(graph.AddTask(task).status())->field;
  };
  TaskInput task;
  task.kernel = 7;
  EXPECT_EQ(field_of(task), "kernel");
  task.kernel = 0;
  const uint32_t vector_kernels[] = {9};
  task.vector_kernels = vector_kernels;
  EXPECT_EQ(field_of(task), "launch.vector_kernels[0]");
  task.vector_kernels = {};
  const uint32_t args[] = {3};
  task.args = args;
  EXPECT_EQ(field_of(task), "args[0]");
  task.args = {};
  const TaskInput::Member members[] = {{0, args}};
  task.members = members;
  EXPECT_EQ(field_of(task), "members[0].args[0]");
  task.members = {};
  task.predicate = PredicateInput{5, PTO_EQ, 0};
  EXPECT_EQ(field_of(task), "predicate.tensor");
}

TEST_F(OpenGraphTest, ABufferIsOnOneChipOverAllSegments) {
  Axpy(0, 4, 8).value();
  graph_.Cut().value();
  const uint32_t args[] = {tensors_[0], tensors_[4], tensors_[8]};
  const ScalarInput alpha;
  TaskInput task;
  task.kernel = axpy_;
  task.chip = 1;
  task.args = args;
  task.scalars = absl::MakeConstSpan(&alpha, 1);
  const absl::Status other = graph_.AddTask(task).status();
  EXPECT_THAT(other, HasReason(reason::kBufferOnOtherChip));
  EXPECT_EQ(GetErrorDetail(other)->field, "args[0]");
}

TEST_F(OpenGraphTest, WhatIsKnownOfABufferIsHeldAgainstItsTensorsAndTasks) {
  const uint32_t layout = graph_.AddLayout(PTO_F32, {4}, {}).value();
  const uint32_t slot = graph_.AddSlot("known", {.chip = 1, .bytes = 32});
  EXPECT_EQ(graph_.AddSlot("known"), slot);
  const uint32_t tensor = graph_.AddTensor(slot, layout, 4).value();
  EXPECT_THAT(graph_.AddTensor(slot, layout, 5), HasReason(reason::kTensorOutOfBounds));
  const uint32_t args[] = {tensor, tensor, tensor};
  const ScalarInput alpha;
  TaskInput task;
  task.kernel = axpy_;
  task.args = args;
  task.scalars = absl::MakeConstSpan(&alpha, 1);
  task.chip = 1;
  EXPECT_EQ(graph_.AddTask(task).value(), 0u);
  task.chip = 0;
  EXPECT_THAT(graph_.AddTask(task), HasReason(reason::kBufferOnOtherChip));
}

TEST_F(OpenGraphTest, DependenciesOfASegmentAreLimited) {
  GraphTarget target = GraphTestTarget();
  target.max_dependencies = 3;
  OpenGraph graph(target);
  TaskInput task;
  task.kernel = graph.AddKernel("join").value();
  graph.AddTask(task).value();
  graph.AddTask(task).value();
  const uint32_t after[] = {0, 1};
  task.dependencies = after;
  graph.AddTask(task).value();
  graph.Cut().value();
  // Dependencies of the previous segment no longer count, but links do.
  graph.AddTask(task).value();
  EXPECT_THAT(graph.AddTask(task), HasReason(reason::kGraphTooLarge));
}

TEST_F(OpenGraphTest, OnlyExplicitDependenciesOnRequest) {
  OpenGraph graph(GraphTestTarget(), {.find_dependencies = false});
  const uint32_t layout = graph.AddLayout(PTO_F32, {4}, {}).value();
  const uint32_t tensor = graph.AddTensor(graph.AddSlot("data"), layout, 0).value();
  const uint32_t args[] = {tensor, tensor, tensor};
  const ScalarInput alpha;
  TaskInput task;
  task.kernel = graph.AddKernel("axpy").value();
  task.args = args;
  task.scalars = absl::MakeConstSpan(&alpha, 1);
  graph.AddTask(task).value();
  graph.AddTask(task).value();
  const uint32_t after[] = {1};
  task.dependencies = after;
  graph.AddTask(task).value();
  const GraphSegment segment = graph.Cut().value();
  EXPECT_THAT(segment.image->successors(0), IsEmpty());
  EXPECT_THAT(segment.image->successors(1), ElementsAre(2));
}

// Many tasks on few tensors: the state depends on how many tasks have not ended.
TEST_F(OpenGraphTest, WhatIsKeptIsBounded) {
  size_t most = 0;
  for (uint32_t i = 0; i < 20'000; ++i) {
    Axpy(i % 50 == 0 ? 12 : 8, 0, 4).value();
    if (i % 64 != 63) continue;
    graph_.Cut().value();
    graph_.ForgetBefore(i - std::min(i, 100u));
    most = std::max(most, graph_.live_readers());
  }
  EXPECT_LT(most, 5000u);
}

TEST_F(OpenGraphTest, NoHazardIsMissed) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    std::minstd_rand random(seed + 1);
    OpenGraph graph(GraphTestTarget());
    const uint32_t axpy = graph.AddKernel("axpy").value();
    const uint32_t layout = graph.AddLayout(PTO_F32, {4}, {}).value();
    const uint32_t slot = graph.AddSlot("data");
    for (uint32_t i = 0; i + 4 <= kElements; ++i) graph.AddTensor(slot, layout, i).value();
    struct Task {
      std::bitset<kElements> read, written;
      uint32_t ended = 0;  // tasks below this had ended when it was added
    };
    std::vector<Task> tasks;
    std::vector<uint64_t> before;  // bit i: task i precedes this task
    uint32_t ended = 0;
    const auto cut = [&] {
      const GraphSegment segment = graph.Cut().value();
      for (const GraphSegment::Link& link : segment.links) {
        ASSERT_LT(link.before, segment.first_task);
        ASSERT_GE(link.before, ended);
        before[segment.first_task + link.task] |= before[link.before] | uint64_t{1} << link.before;
      }
      for (uint32_t i = 0; i < segment.image->task_count(); ++i) {
        const uint32_t own = segment.first_task + i;
        for (const uint32_t next : segment.image->successors(i)) {
          before[segment.first_task + next] |= before[own] | uint64_t{1} << own;
        }
      }
      if (random() % 2 == 0) {
        ended += random() % (graph.task_count() - ended + 1);
        graph.ForgetBefore(ended);
      }
    };
    for (uint32_t i = 0; i < 60; ++i) {
      uint32_t args[3];
      for (uint32_t& arg : args) arg = static_cast<uint32_t>(random() % (kElements - 3));
      const ScalarInput alpha;
      TaskInput task;
      task.kernel = axpy;
      task.args = args;
      task.scalars = absl::MakeConstSpan(&alpha, 1);
      graph.AddTask(task).value();
      tasks.push_back({{}, {}, ended});
      before.push_back(0);
      for (uint32_t element = 0; element < 4; ++element) {
        tasks.back().written.set(args[0] + element);
        tasks.back().read.set(args[1] + element);
        tasks.back().read.set(args[2] + element);
      }
      if (random() % 6 == 0) cut();
    }
    if (graph.uncut_tasks() > 0) cut();
    for (uint32_t i = 0; i < tasks.size(); ++i) {
      for (uint32_t earlier = tasks[i].ended; earlier < i; ++earlier) {
        const Task &a = tasks[earlier], &b = tasks[i];
        const bool hazard = ((a.written & (b.read | b.written)) | (a.read & b.written)).any();
        ASSERT_TRUE(!hazard || (before[i] >> earlier & 1) != 0)
            << "seed " << seed << ": " << earlier << " and " << i;
      }
    }
  }
}

}  // namespace
}  // namespace pto::engine
