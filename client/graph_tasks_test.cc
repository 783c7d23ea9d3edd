// Tasks with special properties, in both forms of a graph.

#include <string>
#include <vector>

#include "client/graph_builder.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/error.h"
#include "runtime/base/status_matchers.h"

namespace pto {
namespace {

using ::pto::testing::HasReason;
using ::pto::testing::IsOk;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// A graph with all features.
class GraphTasksTest : public ::testing::Test {
 protected:
  GraphTasksTest() {
    const TaskRef gang = graph_.Task("add", 2, {a_}).Blocks(24).SyncStart();
    graph_.Task("add", 2, {a_})
        .Core(v1::MIX)
        .VectorKernels({"relu", "kernels/neg"})
        .Timeout(absl::Milliseconds(1500));
    graph_.Task("add", 2, {a_}).If(word_, v1::GE, -3).NoDependency(0);
    graph_.Group("add", {{2, {a_}}, {0, {b_}}}).Name("both").Scalar(1.5).After(gang);
    graph_.Notify(word_, 2, v1::ADD);
    graph_.WaitFor(word_, v1::EQ, 7, absl::Microseconds(3));
    graph_.WaitFor(word_, token_, v1::NE, 0);
    graph_.Copy(b_, a_);
    graph_.Join({gang});
  }

  GraphBuilder graph_;
  TensorRef a_ = graph_.Tensor("a", "", v1::F32, {4});
  TensorRef b_ = graph_.Tensor("b", "", v1::F32, {4});
  TensorRef word_ = graph_.Tensor("word", "", v1::I32, {});
  TensorRef token_ = graph_.Tensor("token", "", v1::U8, {});
};

TEST_F(GraphTasksTest, WithNames) {
  const absl::StatusOr<v1::GraphSpec> built = graph_.Build();
  ASSERT_THAT(built, IsOk());
  ASSERT_EQ(built->tasks_size(), 9);
  EXPECT_FALSE(built->explicit_dependencies_only());
  EXPECT_TRUE(built->tasks(0).launch().require_sync_start());
  EXPECT_EQ(built->tasks(0).launch().block_num(), 24u);
  EXPECT_FALSE(built->tasks(0).launch().has_timeout());
  EXPECT_FALSE(built->tasks(0).has_predicate());

  EXPECT_THAT(built->tasks(1).launch().vector_kernels(), ElementsAre("relu", "kernels/neg"));
  EXPECT_EQ(built->tasks(1).launch().timeout().seconds(), 1);
  EXPECT_EQ(built->tasks(1).launch().timeout().nanos(), 500'000'000);

  EXPECT_EQ(built->tasks(2).predicate().tensor(), "word");
  EXPECT_EQ(built->tasks(2).predicate().compare(), v1::GE);
  EXPECT_EQ(built->tasks(2).predicate().value(), -3);
  EXPECT_THAT(built->tasks(2).no_dependency_args(), ElementsAre(0));
  EXPECT_EQ(built->tasks(2).chip(), "chips/2");

  const v1::TaskSpec& group = built->tasks(3);
  EXPECT_EQ(group.name(), "both");
  EXPECT_EQ(group.chip(), "");
  EXPECT_THAT(group.args(), IsEmpty());
  ASSERT_EQ(group.members_size(), 2);
  EXPECT_EQ(group.members(0).chip(), "chips/2");
  EXPECT_THAT(group.members(0).args(), ElementsAre("a"));
  EXPECT_EQ(group.members(1).chip(), "chips/0");
  EXPECT_THAT(group.members(1).args(), ElementsAre("b"));
  EXPECT_EQ(group.scalars(0).f64(), 1.5);

  EXPECT_EQ(built->tasks(4).kernel(), "notify");
  EXPECT_THAT(built->tasks(4).args(), ElementsAre("word"));
  EXPECT_EQ(built->tasks(4).scalars(0).i64(), v1::ADD);
  EXPECT_EQ(built->tasks(4).scalars(1).i64(), 2);
  EXPECT_EQ(built->tasks(5).kernel(), "wait");
  EXPECT_EQ(built->tasks(5).scalars(0).i64(), v1::EQ);
  EXPECT_EQ(built->tasks(5).scalars(1).i64(), 7);
  EXPECT_EQ(built->tasks(5).scalars(2).i64(), 3000);
  EXPECT_EQ(built->tasks(6).kernel(), "wait_token");
  EXPECT_THAT(built->tasks(6).args(), ElementsAre("word", "token"));
  EXPECT_EQ(built->tasks(6).scalars(2).i64(), 0);
  EXPECT_EQ(built->tasks(7).kernel(), "copy_async");
  EXPECT_THAT(built->tasks(7).args(), ElementsAre("b", "a"));
  EXPECT_EQ(built->tasks(8).kernel(), "join");
  EXPECT_THAT(built->tasks(8).after(), ElementsAre("0"));
}

TEST_F(GraphTasksTest, Packed) {
  graph_.ExplicitDependenciesOnly();
  const absl::StatusOr<std::vector<v1::PackedGraphPart>> parts = graph_.BuildPacked(3);
  ASSERT_THAT(parts, IsOk());
  const v1::PackedHeader& header = parts->front().header();
  EXPECT_TRUE(header.explicit_dependencies_only());
  EXPECT_THAT(header.chips(), ElementsAre("chips/2", "chips/0"));
  ASSERT_EQ(header.launches_size(), 6);  // one more for each different launch property
  EXPECT_THAT(header.launches().rbegin()->vector_kernels(), ElementsAre("relu", "kernels/neg"));

  std::vector<v1::TaskBlock> chunks;
  for (const v1::PackedGraphPart& part : *parts) {
    if (part.has_tasks()) chunks.push_back(part.tasks());
  }
  ASSERT_EQ(chunks.size(), 3u);
  ASSERT_EQ(chunks[0].extras_size(), 1);
  EXPECT_EQ(chunks[0].extras(0).row(), 2u);
  EXPECT_EQ(chunks[0].extras(0).no_dependency_mask(), 1u);
  EXPECT_EQ(chunks[0].extras(0).predicate().tensor(), 2u);
  EXPECT_EQ(chunks[0].extras(0).predicate().compare(), v1::GE);
  EXPECT_EQ(chunks[0].extras(0).predicate().value(), -3);
  EXPECT_TRUE(chunks[0].extras(0).members().empty());

  ASSERT_EQ(chunks[1].extras_size(), 1);
  const v1::TaskExtra& group = chunks[1].extras(0);
  EXPECT_EQ(group.row(), 0u);
  EXPECT_FALSE(group.has_predicate());
  ASSERT_EQ(group.members_size(), 2);
  EXPECT_EQ(group.members(0).chip(), 0u);
  EXPECT_THAT(group.members(0).args(), ElementsAre(0));
  EXPECT_EQ(group.members(1).chip(), 1u);
  EXPECT_THAT(group.members(1).args(), ElementsAre(1));
  // Its row has no arguments and chip 0; the two that follow are on chips/0.
  EXPECT_THAT(chunks[1].chip(), ElementsAre(0, 1, 1));
  EXPECT_THAT(chunks[1].arg_delta(), ElementsAre(2, 0));
  EXPECT_EQ(chunks[2].extras_size(), 0);
}

TEST(GraphTaskMistakesTest, AreFound) {
  const auto field = [](const absl::Status& status) { return GetErrorDetail(status)->field; };
  {
    GraphBuilder graph;
    graph.Group("add", std::vector<GroupMember>());
    EXPECT_THAT(graph.status(), HasReason(reason::kLaunchInvalid));
    EXPECT_EQ(field(graph.status()), "graph.tasks[0].members");
  }
  {
    GraphBuilder other, graph;
    const TensorRef foreign = other.Tensor("a", "", v1::I32, {});
    graph.Group("add", {{0, {}}, {1, {foreign}}});
    EXPECT_THAT(graph.status(), HasReason(reason::kTensorUnknown));
    EXPECT_EQ(field(graph.status()), "graph.tasks[0].members[1].args[0]");
  }
  {
    GraphBuilder other, graph;
    graph.Task("add", 0, {}).If(other.Tensor("a", "", v1::I32, {}), v1::EQ, 0);
    EXPECT_EQ(field(graph.status()), "graph.tasks[0].predicate.tensor");
  }
  {
    GraphBuilder graph;
    graph.Task("add", 0, {}).VectorKernels({"a", "b", "c"});
    EXPECT_EQ(field(graph.status()), "graph.tasks[0].launch.vector_kernels");
  }
  {
    GraphBuilder graph;
    graph.Task("add", 0, {}).Timeout(-absl::Nanoseconds(1));
    EXPECT_EQ(field(graph.status()), "graph.tasks[0].launch.timeout");
  }
  {
    GraphBuilder graph;
    graph.Task("add", 0, {}).NoDependency(32);
    EXPECT_EQ(field(graph.status()), "graph.tasks[0].no_dependency_args");
  }
  {
    GraphBuilder graph;
    TaskRef first = graph.Join();
    graph.Join();
    first.Timeout(absl::Seconds(1));
    EXPECT_THAT(graph.status(), HasReason(reason::kFieldInvalid));
  }
}

}  // namespace
}  // namespace pto
