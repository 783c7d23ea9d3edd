#include "client/graph_builder.h"

#include <bit>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/error.h"
#include "runtime/base/status_matchers.h"

namespace pto {
namespace {

using ::pto::testing::HasReason;
using ::pto::testing::IsOk;
using ::testing::ElementsAre;

TEST(GraphBuilderTest, BuildsAGraphWithNames) {
  GraphBuilder graph;
  const TensorRef a = graph.Tensor("a", "", v1::F32, {16, 4});
  const TensorRef b = graph.Tensor("b", "shared", v1::I32, {8}, {2}, 3);
  const ScalarRef factor = graph.Scalar("factor", 2);
  const TaskRef first = graph.Task("fill", 0, {a}).Scalar(1.5);
  const TaskRef second =
      graph.Task("scale", 3, {a, b}).Name("second").Scalar(factor).Scalar(7).After(first);
  graph.Task("add", 3, {b}).Blocks(4).Core(v1::AIV).SyncStart().After({first, second});

  const absl::StatusOr<v1::GraphSpec> built = graph.Build();
  ASSERT_THAT(built, IsOk());
  ASSERT_EQ(built->tensors_size(), 2);
  EXPECT_EQ(built->tensors(0).buffer(), "a");
  EXPECT_THAT(built->tensors(0).shape(), ElementsAre(16, 4));
  EXPECT_EQ(built->tensors(1).buffer(), "shared");
  EXPECT_EQ(built->tensors(1).dtype(), v1::I32);
  EXPECT_THAT(built->tensors(1).strides(), ElementsAre(2));
  EXPECT_EQ(built->tensors(1).offset(), 3);
  ASSERT_EQ(built->scalars_size(), 1);
  EXPECT_EQ(built->scalars(0).value().i64(), 2);

  ASSERT_EQ(built->tasks_size(), 3);
  EXPECT_EQ(built->tasks(0).kernel(), "fill");
  EXPECT_EQ(built->tasks(0).chip(), "chips/0");
  EXPECT_EQ(built->tasks(0).scalars(0).f64(), 1.5);
  EXPECT_FALSE(built->tasks(0).has_launch());
  EXPECT_EQ(built->tasks(1).name(), "second");
  EXPECT_THAT(built->tasks(1).args(), ElementsAre("a", "b"));
  EXPECT_EQ(built->tasks(1).scalars(0).ref(), "factor");
  EXPECT_EQ(built->tasks(1).scalars(1).i64(), 7);
  EXPECT_THAT(built->tasks(1).after(), ElementsAre("0"));
  EXPECT_EQ(built->tasks(2).launch().block_num(), 4u);
  EXPECT_EQ(built->tasks(2).launch().core(), v1::AIV);
  EXPECT_TRUE(built->tasks(2).launch().require_sync_start());
  EXPECT_THAT(built->tasks(2).after(), ElementsAre("0", "second"));
}

TEST(GraphBuilderTest, FindsMistakes) {
  const auto field = [](const absl::Status& status) { return GetErrorDetail(status)->field; };
  {
    GraphBuilder graph;
    EXPECT_THAT(graph.Build(), HasReason(reason::kGraphEmpty));
    EXPECT_THAT(graph.BuildPacked(), HasReason(reason::kGraphEmpty));
  }
  {
    GraphBuilder graph;
    graph.Tensor("a", "", v1::F32, {1});
    graph.Tensor("a", "", v1::F32, {1});
    EXPECT_THAT(graph.status(), HasReason(reason::kFieldInvalid));
    EXPECT_EQ(field(graph.status()), "graph.tensors[1].name");
  }
  {
    GraphBuilder graph;
    graph.Tensor("a", "", v1::F32, {1, 2, 3, 4, 5, 6});
    EXPECT_THAT(graph.status(), HasReason(reason::kTensorInvalid));
  }
  {
    GraphBuilder graph;
    graph.Tensor("a", "", v1::F32, {2, 2}, {1});
    EXPECT_THAT(graph.status(), HasReason(reason::kTensorInvalid));
  }
  {
    GraphBuilder graph;
    graph.Tensor("a", "", v1::DTYPE_UNSPECIFIED, {2});
    EXPECT_THAT(graph.status(), HasReason(reason::kTensorInvalid));
  }
  {
    GraphBuilder other;
    const TensorRef foreign = other.Tensor("a", "", v1::F32, {1});
    GraphBuilder graph;
    graph.Task("add", 0, {foreign});
    EXPECT_THAT(graph.status(), HasReason(reason::kTensorUnknown));
    EXPECT_EQ(field(graph.status()), "graph.tasks[0].args[0]");
  }
  {
    GraphBuilder graph;
    TaskRef task = graph.Task("add", 0, {});
    task.After(task);
    EXPECT_THAT(graph.status(), HasReason(reason::kDependencyCycle));
  }
  {
    GraphBuilder graph;
    graph.Task("add", 0, {}).Name("x");
    graph.Task("add", 0, {}).Name("x");
    EXPECT_THAT(graph.status(), HasReason(reason::kTaskNameDuplicate));
  }
  {
    GraphBuilder graph;
    graph.Task("add", 0, {}).Blocks(0);
    EXPECT_THAT(graph.status(), HasReason(reason::kLaunchInvalid));
  }
  {
    GraphBuilder graph;
    TaskRef first = graph.Task("add", 0, {});
    graph.Task("add", 0, {});
    first.Scalar(1.0);
    EXPECT_THAT(graph.Build(), HasReason(reason::kFieldInvalid));
  }
}

TEST(GraphBuilderTest, KeepsTheFirstMistake) {
  GraphBuilder graph;
  graph.Task("", 0, {}).Blocks(0);
  EXPECT_THAT(graph.Build(), HasReason(reason::kFieldInvalid));
}

TEST(GraphBuilderTest, TasksNameDomains) {
  GraphBuilder graph;
  graph.Task("allreduce", 0, {}).Scalar(7).Domain("d");
  graph.Task("allreduce", 1, {}).Scalar(7).Domain("e");
  graph.Task("allreduce", 1, {}).Scalar(7).Domain("d");
  const v1::GraphSpec spec = graph.Build().value();
  EXPECT_EQ(spec.tasks(1).scalars(1).domain(), "e");
  EXPECT_EQ(spec.tasks(2).scalars(1).domain(), "d");
  const std::vector<v1::PackedGraphPart> parts = graph.BuildPacked(100).value();
  ASSERT_EQ(parts[0].header().domains_size(), 2);
  EXPECT_EQ(parts[0].header().domains(1), "e");
  const v1::TaskBlock& tasks = parts[1].tasks();
  ASSERT_EQ(tasks.scalar_size(), 6);
  EXPECT_EQ(tasks.scalar(1), 0u);
  EXPECT_EQ(tasks.scalar(3), 1u);
  EXPECT_EQ(tasks.scalar(5), 0u);
}

TEST(GraphBuilderTest, CannotPackNamedScalars) {
  GraphBuilder graph;
  graph.Task("scale", 0, {}).Scalar(graph.Scalar("factor", 2.0));
  EXPECT_THAT(graph.BuildPacked(), HasReason(reason::kScalarInvalid));
}

// One task in the packed format.
struct Decoded {
  std::string kernel;
  std::string chip;
  uint32_t blocks;
  std::vector<int64_t> arg_offsets;
  std::vector<std::string> arg_slots;
  std::vector<uint64_t> deps;
};

// Reads the columns as described in graph.proto. Each task has two arguments.
std::vector<Decoded> Decode(const std::vector<v1::PackedGraphPart>& parts) {
  const v1::PackedHeader& header = parts.front().header();
  struct View {
    std::string slot;
    int64_t offset;
  };
  std::vector<View> tensors;
  std::vector<Decoded> tasks;
  for (const v1::PackedGraphPart& part : parts) {
    int64_t offset = 0;
    const v1::TensorBlock& views = part.tensors();
    for (int i = 0; i < views.buffer_size(); ++i) {
      offset += views.offset_delta(i);
      tensors.push_back({header.buffers(views.buffer(i)), offset});
    }
    const v1::TaskBlock& block = part.tasks();
    if (part.has_tasks()) {
      EXPECT_EQ(block.first_task(), tasks.size());
    }
    int64_t arg = 0;
    int next_arg = 0;
    int next_dep = 0;
    for (int i = 0; i < block.kernel_size(); ++i) {
      Decoded task;
      task.kernel = header.kernels(block.kernel(i));
      task.chip = header.chips(block.chip().empty() ? 0 : block.chip(i));
      task.blocks = header.launches(block.launch().empty() ? 0 : block.launch(i)).block_num();
      for (int j = 0; j < 2; ++j) {
        arg += block.arg_delta(next_arg++);
        task.arg_offsets.push_back(tensors[arg].offset);
        task.arg_slots.push_back(tensors[arg].slot);
      }
      const uint32_t deps = block.dep_count().empty() ? 0 : block.dep_count(i);
      for (uint32_t j = 0; j < deps; ++j) {
        task.deps.push_back(tasks.size() - block.dep_back(next_dep++));
      }
      tasks.push_back(task);
    }
    EXPECT_EQ(next_arg, block.arg_delta_size());
    EXPECT_EQ(next_dep, block.dep_back_size());
  }
  return tasks;
}

TEST(GraphBuilderTest, PacksWhatItBuilds) {
  constexpr int kTasks = 25;
  GraphBuilder graph;
  std::vector<TensorRef> tensors;
  for (int i = 0; i < kTasks; ++i) {
    tensors.push_back(graph.Tensor(absl::StrCat("t", i), absl::StrCat("slot", i % 3), v1::F32, {4},
                                   {}, (i * 37) % 11));
  }
  std::vector<TaskRef> tasks;
  for (int i = 0; i < kTasks; ++i) {
    TaskRef task =
        graph.Task(i % 2 == 0 ? "even" : "odd", i % 4, {tensors[i], tensors[(i * 7) % kTasks]});
    task.Scalar(0.5 * i).Scalar(-i).Blocks(1 + i % 2);
    if (i >= 2) task.After({tasks[i - 2], tasks[i / 2]});
    tasks.push_back(task);
  }

  const absl::StatusOr<std::vector<v1::PackedGraphPart>> parts = graph.BuildPacked(10);
  ASSERT_THAT(parts, IsOk());
  // A header, three chunks of tensors, three of tasks, a commit.
  ASSERT_EQ(parts->size(), 8u);
  EXPECT_TRUE(parts->front().has_header());
  EXPECT_EQ(parts->front().header().layouts_size(), 1);
  EXPECT_EQ(parts->back().commit().task_count(), static_cast<uint64_t>(kTasks));

  const std::vector<Decoded> decoded = Decode(*parts);
  ASSERT_EQ(decoded.size(), static_cast<size_t>(kTasks));
  for (int i = 0; i < kTasks; ++i) {
    const int other = (i * 7) % kTasks;
    EXPECT_EQ(decoded[i].kernel, i % 2 == 0 ? "even" : "odd");
    EXPECT_EQ(decoded[i].chip, absl::StrCat("chips/", i % 4));
    EXPECT_EQ(decoded[i].blocks, 1u + i % 2);
    EXPECT_THAT(decoded[i].arg_offsets, ElementsAre((i * 37) % 11, (other * 37) % 11));
    EXPECT_THAT(decoded[i].arg_slots,
                ElementsAre(absl::StrCat("slot", i % 3), absl::StrCat("slot", other % 3)));
    if (i >= 2) {
      EXPECT_THAT(decoded[i].deps, ElementsAre(i - 2, i / 2));
    }
  }
  const v1::TaskBlock& second = (*parts)[5].tasks();
  EXPECT_EQ(second.first_task(), 10u);
  ASSERT_EQ(second.scalar_size(), 20);
  EXPECT_EQ(std::bit_cast<double>(second.scalar(2)), 5.5);
  EXPECT_EQ(std::bit_cast<int64_t>(second.scalar(3)), -11);
}

TEST(GraphBuilderTest, LeavesOutColumnsThatSayNothing) {
  GraphBuilder graph;
  const TensorRef tensor = graph.Tensor("t", "", v1::F32, {4});
  for (int i = 0; i < 3; ++i) graph.Task("neg", 0, {tensor});
  const absl::StatusOr<std::vector<v1::PackedGraphPart>> parts = graph.BuildPacked();
  ASSERT_THAT(parts, IsOk());
  ASSERT_EQ(parts->size(), 4u);
  const v1::TaskBlock& block = (*parts)[2].tasks();
  EXPECT_EQ(block.kernel_size(), 3);
  EXPECT_TRUE(block.chip().empty());
  EXPECT_TRUE(block.launch().empty());
  EXPECT_TRUE(block.dep_count().empty());
}

}  // namespace
}  // namespace pto
