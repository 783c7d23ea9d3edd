#include "daemon/graph/structure.h"

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/graph/spec_decoder.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "runtime/base/error.h"
#include "runtime/base/status_matchers.h"
#include "runtime/graph/graph_testing.h"

namespace pto::daemon {
namespace {

using ::pto::engine::testing::GraphTestTarget;
using ::pto::testing::HasReason;
using ::pto::testing::IsOk;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::shared_ptr<const engine::GraphImage> Compile(const std::string& text) {
  v1::GraphSpec spec;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &spec)) << text;
  return DecodeGraphSpec(spec, "s1", GraphTestTarget()).value().image;
}

v1::GetGraphRequest Page(uint64_t first, uint32_t max) {
  v1::GetGraphRequest request;
  request.set_first_task(first);
  request.set_max_tasks(max);
  return request;
}

TEST(StructureTest, SaysWhatIsThere) {
  const std::shared_ptr<const engine::GraphImage> image = Compile(R"(
    tensors { name: "x" dtype: F16 } tensors { name: "y" dtype: F16 }
    tensors { name: "word" dtype: I32 }
    tasks { kernel: "cube" chip: "chips/1" args: "x" name: "first" }
    tasks { kernel: "cube" members { chip: "chips/1" args: "x" }
            members { chip: "chips/0" args: "y" } }
    tasks { kernel: "nop" chip: "chips/0" launch { block_num: 3 }
            predicate { tensor: "word" compare: EQ } after: "first" })");
  v1::GraphStructure structure;
  ASSERT_THAT(DescribeStructure(*image, Page(0, 0), &structure), IsOk());
  EXPECT_EQ(structure.first_task(), 0u);
  EXPECT_THAT(structure.kernels(), ElementsAre("cube", "nop"));
  EXPECT_THAT(structure.kernel(), ElementsAre(0, 0, 1));
  EXPECT_THAT(structure.name(), ElementsAre("first", "", ""));
  EXPECT_THAT(structure.chip(), ElementsAre(1, 1, 0));
  EXPECT_THAT(structure.chip_count(), ElementsAre(1, 2, 1));
  EXPECT_THAT(structure.block_num(), ElementsAre(1, 1, 3));
  EXPECT_THAT(structure.predicated(), ElementsAre(false, false, true));
  EXPECT_THAT(structure.next_count(), ElementsAre(2, 0, 0));
  EXPECT_THAT(structure.next_ahead(), ElementsAre(1, 2));
}

TEST(StructureTest, LeavesOutWhatSaysNothing) {
  const std::shared_ptr<const engine::GraphImage> image =
      Compile("tasks { kernel: 'nop' chip: 'chips/0' } tasks { kernel: 'nop' chip: 'chips/0' }");
  v1::GraphStructure structure;
  ASSERT_THAT(DescribeStructure(*image, Page(0, 0), &structure), IsOk());
  EXPECT_THAT(structure.kernel(), ElementsAre(0, 0));
  EXPECT_THAT(structure.chip(), ElementsAre(0, 0));
  EXPECT_THAT(structure.next_count(), ElementsAre(0, 0));
  EXPECT_THAT(structure.name(), IsEmpty());
  EXPECT_THAT(structure.chip_count(), IsEmpty());
  EXPECT_THAT(structure.block_num(), IsEmpty());
  EXPECT_THAT(structure.predicated(), IsEmpty());
}

// Page by page, every edge appears once, for any page size.
TEST(StructureTest, Pages) {
  std::string text;
  std::set<std::pair<uint64_t, uint64_t>> wanted;
  for (uint64_t i = 0; i < 100; ++i) {
    absl::StrAppend(&text, "tasks { kernel: 'nop' chip: 'chips/0' ");
    for (uint64_t before = i % 7; before < i; before += 7) {
      absl::StrAppend(&text, "after: '", before, "' ");
      wanted.emplace(before, i);
    }
    absl::StrAppend(&text, "}");
  }
  const std::shared_ptr<const engine::GraphImage> image = Compile(text);
  for (const auto& [max_tasks, max_bytes] :
       {std::pair{0u, 1u << 20}, std::pair{9u, 1u << 20}, std::pair{0u, 1u}, std::pair{0u, 200u}}) {
    std::set<std::pair<uint64_t, uint64_t>> found;
    uint64_t next = 0;
    while (next < 100) {
      v1::GraphStructure structure;
      ASSERT_THAT(DescribeStructure(*image, Page(next, max_tasks), &structure, max_bytes), IsOk());
      ASSERT_EQ(structure.first_task(), next);
      ASSERT_GT(structure.kernel_size(), 0);
      EXPECT_LE(structure.kernel_size(), max_tasks == 0 ? 100 : 9);
      // A single task may be larger than the limit.
      EXPECT_TRUE(structure.kernel_size() == 1 || structure.ByteSizeLong() <= max_bytes + 100);
      int ahead = 0;
      for (const uint32_t count : structure.next_count()) {
        for (uint32_t i = 0; i < count; ++i) {
          EXPECT_TRUE(found.emplace(next, next + structure.next_ahead(ahead++)).second);
        }
        ++next;
      }
      EXPECT_EQ(ahead, structure.next_ahead_size());
    }
    EXPECT_EQ(found, wanted);
  }
  v1::GraphStructure structure;
  ASSERT_THAT(DescribeStructure(*image, Page(100, 0), &structure), IsOk());
  EXPECT_THAT(structure.kernel(), IsEmpty());
}

TEST(StructureTest, BadPages) {
  const std::shared_ptr<const engine::GraphImage> image =
      Compile("tasks { kernel: 'nop' chip: 'chips/0' }");
  v1::GraphStructure structure;
  absl::Status status = DescribeStructure(*image, Page(2, 0), &structure);
  ASSERT_THAT(status, HasReason(reason::kFieldInvalid));
  EXPECT_EQ(GetErrorDetail(status)->field, "first_task");
  EXPECT_THAT(DescribeStructure(*image, Page(uint64_t{1} << 63, 0), &structure),
              HasReason(reason::kFieldInvalid));
  status = DescribeStructure(*image, Page(0, 100'001), &structure);
  ASSERT_THAT(status, HasReason(reason::kFieldInvalid));
  EXPECT_EQ(GetErrorDetail(status)->field, "max_tasks");
}

v1::GetRunGraphRequest RunPage(uint64_t first, uint32_t max) {
  v1::GetRunGraphRequest request;
  request.set_first_task(first);
  request.set_max_tasks(max);
  return request;
}

// An open run with three segments, the first of which is forgotten: tasks 2 and 3, then 4 to 6.
GraphParts Blocks() {
  const auto first = std::make_shared<GraphPart>();
  first->image = Compile(R"(
    tasks { kernel: "nop" chip: "chips/0" name: "two" }
    tasks { kernel: "nop" chip: "chips/1" after: "two" })");
  first->first_task = 2;
  first->submitted_ns = 10;
  first->links = {{0, 1}};
  const auto second = std::make_shared<GraphPart>();
  second->image = Compile(R"(
    tensors { name: "x" dtype: F16 }
    tasks { kernel: "cube" chip: "chips/1" args: "x" }
    tasks { kernel: "nop" chip: "chips/0" name: "five" }
    tasks { kernel: "nop" chip: "chips/0" after: "five" })");
  second->first_task = 4;
  second->submitted_ns = 20;
  second->links = {{0, 2}, {1, 0}, {1, 3}, {2, 2}, {2, 2}};
  return {first, second};
}

TEST(RunGraphTest, PutsBlocksTogether) {
  v1::RunGraph graph;
  ASSERT_THAT(DescribeRunGraph(Blocks(), RunPage(0, 0), &graph), IsOk());
  EXPECT_EQ(graph.task_count(), 7u);
  const v1::GraphStructure& structure = graph.structure();
  EXPECT_EQ(structure.first_task(), 2u);
  EXPECT_THAT(structure.kernels(), ElementsAre("nop", "cube"));
  EXPECT_THAT(structure.kernel(), ElementsAre(0, 0, 1, 0, 0));
  EXPECT_THAT(structure.name(), ElementsAre("two", "", "", "five", ""));
  EXPECT_THAT(structure.chip(), ElementsAre(0, 1, 1, 0, 0));
  // Edges within and between segments, each once; none from forgotten tasks.
  EXPECT_THAT(structure.next_count(), ElementsAre(3, 1, 0, 1, 0));
  EXPECT_THAT(structure.next_ahead(), ElementsAre(1, 2, 4, 2, 1));
  ASSERT_EQ(graph.blocks_size(), 2);
  EXPECT_EQ(graph.blocks(0).first_task(), 2u);
  EXPECT_EQ(graph.blocks(1).first_task(), 4u);
  EXPECT_EQ(graph.blocks(1).submitted_ns(), 20);
}

TEST(RunGraphTest, PagesOfBlocks) {
  for (const uint32_t max_tasks : {1u, 2u, 3u}) {
    for (const uint64_t max_bytes : {1u, 100u, 1u << 20}) {
      std::vector<uint32_t> next;
      uint64_t task = 2;
      while (task < 7) {
        v1::RunGraph graph;
        ASSERT_THAT(DescribeRunGraph(Blocks(), RunPage(task, max_tasks), &graph, max_bytes),
                    IsOk());
        EXPECT_EQ(graph.structure().first_task(), task);
        ASSERT_GT(graph.structure().kernel_size(), 0);
        for (const v1::RunGraph::Block& block : graph.blocks()) {
          EXPECT_LT(block.first_task(),
                    task + static_cast<uint64_t>(graph.structure().kernel_size()));
        }
        next.insert(next.end(), graph.structure().next_ahead().begin(),
                    graph.structure().next_ahead().end());
        task += static_cast<uint64_t>(graph.structure().kernel_size());
      }
      EXPECT_THAT(next, ElementsAre(1, 2, 4, 2, 1));
    }
  }
}

TEST(RunGraphTest, PagesThatAreNotThere) {
  v1::RunGraph graph;
  ASSERT_THAT(DescribeRunGraph(Blocks(), RunPage(7, 0), &graph), IsOk());
  EXPECT_THAT(graph.structure().kernel(), IsEmpty());
  EXPECT_THAT(DescribeRunGraph(Blocks(), RunPage(8, 0), &graph), HasReason(reason::kFieldInvalid));
  EXPECT_THAT(DescribeRunGraph(Blocks(), RunPage(0, 100'001), &graph),
              HasReason(reason::kFieldInvalid));
  // An open run that has no tasks yet.
  graph.Clear();
  ASSERT_THAT(DescribeRunGraph({}, RunPage(0, 0), &graph), IsOk());
  EXPECT_EQ(graph.task_count(), 0u);
}

}  // namespace
}  // namespace pto::daemon
