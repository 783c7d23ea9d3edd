#include "client/job/packed_job.h"

#include <string>

#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "runtime/base/status_matchers.h"

namespace pto::job {
namespace {

template <typename T>
T Parse(const std::string& text) {
  T message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message));
  return message;
}

std::vector<pto::v1::Kernel> Kernels() {
  return {Parse<pto::v1::Kernel>(R"(
            name: "kernels/scale" scalars { name: "factor" type: FLOAT })"),
          Parse<pto::v1::Kernel>(R"(
            name: "kernels/spin" scalars { name: "microseconds" type: INTEGER })")};
}

TEST(PackedJobTest, KeepsTheGraph) {
  const auto graph = Parse<pto::v1::GraphSpec>(R"(
    tensors { name: "a" buffer: "a" dtype: F32 shape: [4] }
    tensors { name: "b" buffer: "c" dtype: F32 shape: [2, 2] strides: [3, 1] offset: 5 }
    scalars { name: "two" value { i64: 2 } }
    tasks { name: "x" kernel: "scale" chip: "chips/3" args: ["a", "a"] scalars { i64: 3 } }
    tasks { kernel: "scale" chip: "chips/3" args: ["b", "b"] scalars { ref: "two" }
            launch { core: AIV block_num: 4 } after: "x" }
    tasks { kernel: "spin" chip: "chips/0" scalars { f64: 7 } after: "1" })");
  GraphBuilder builder;
  ASSERT_THAT(FillBuilder(graph, Kernels(), &builder), testing::IsOk());
  absl::StatusOr<pto::v1::GraphSpec> built = builder.Build();
  ASSERT_THAT(built, testing::IsOk());
  ASSERT_EQ(built->tasks_size(), 3);
  EXPECT_EQ(built->tasks(0).chip(), "chips/3");
  EXPECT_EQ(built->tasks(0).scalars(0).f64(), 3);
  EXPECT_EQ(built->tasks(1).scalars(0).f64(), 2);
  EXPECT_EQ(built->tasks(1).launch().block_num(), 4u);
  EXPECT_EQ(built->tasks(1).launch().core(), pto::v1::AIV);
  EXPECT_EQ(built->tasks(1).after(0), "x");
  EXPECT_EQ(built->tasks(2).scalars(0).i64(), 7);
  EXPECT_EQ(built->tasks(2).after(0), "1");
  EXPECT_EQ(built->tensors(1).buffer(), "c");
  EXPECT_EQ(built->tensors(1).offset(), 5);
  EXPECT_THAT(builder.BuildPacked(), testing::IsOk());
}

TEST(PackedJobTest, KeepsDetails) {
  const auto graph = Parse<pto::v1::GraphSpec>(R"(
    tensors { name: "a" buffer: "a" dtype: F32 } tensors { name: "b" buffer: "b" dtype: F32 }
    tensors { name: "w" buffer: "w" dtype: I32 }
    explicit_dependencies_only: true
    tasks { kernel: "scale" scalars { f64: 1 } no_dependency_args: 1
            members { chip: "chips/1" args: ["a", "a"] }
            members { chip: "chips/0" args: ["b", "b"] }
            predicate { tensor: "w" compare: LT value: 9 } }
    tasks { kernel: "spin" chip: "chips/0" scalars { compare: GE }
            launch { core: MIX require_sync_start: true vector_kernels: "spin"
                     timeout { seconds: 1 nanos: 5 } } }
    tasks { kernel: "spin" chip: "chips/0" scalars { op: ADD } })");
  GraphBuilder builder;
  ASSERT_THAT(FillBuilder(graph, Kernels(), &builder), testing::IsOk());
  absl::StatusOr<pto::v1::GraphSpec> built = builder.Build();
  ASSERT_THAT(built, testing::IsOk());
  EXPECT_TRUE(built->explicit_dependencies_only());
  EXPECT_EQ(built->tasks(0).chip(), "");
  ASSERT_EQ(built->tasks(0).members_size(), 2);
  EXPECT_EQ(built->tasks(0).members(0).chip(), "chips/1");
  EXPECT_EQ(built->tasks(0).members(1).args(1), "b");
  EXPECT_EQ(built->tasks(0).no_dependency_args(0), 1u);
  EXPECT_EQ(built->tasks(0).predicate().tensor(), "w");
  EXPECT_EQ(built->tasks(0).predicate().value(), 9);
  EXPECT_EQ(built->tasks(1).scalars(0).i64(), pto::v1::GE);
  EXPECT_TRUE(built->tasks(1).launch().require_sync_start());
  EXPECT_EQ(built->tasks(1).launch().vector_kernels(0), "spin");
  EXPECT_EQ(built->tasks(1).launch().timeout().nanos(), 5);
  EXPECT_EQ(built->tasks(2).scalars(0).i64(), pto::v1::ADD);
  EXPECT_THAT(builder.BuildPacked(), testing::IsOk());
}

TEST(PackedJobTest, SaysWhichTaskIsWrong) {
  const std::pair<std::string, std::string> cases[] = {
      {R"(tasks { kernel: "none" chip: "chips/0" })", "graph.tasks[0].kernel"},
      {R"(tasks { kernel: "spin" chip: "chips/0" })", "graph.tasks[0].scalars"},
      {R"(tasks { kernel: "spin" chip: "chips/0" scalars { f64: 0.5 } })",
       "graph.tasks[0].scalars[0]"},
      {R"(tasks { kernel: "spin" scalars { i64: 1 } members { chip: "one" } })",
       "graph.tasks[0].members[0].chip"},
  };
  for (const auto& [text, field] : cases) {
    GraphBuilder builder;
    const absl::Status status = FillBuilder(Parse<pto::v1::GraphSpec>(text), Kernels(), &builder);
    ASSERT_FALSE(status.ok()) << text;
    EXPECT_EQ(GetErrorDetail(status)->field, field);
  }
}

}  // namespace
}  // namespace pto::job
