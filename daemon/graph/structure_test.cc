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

namespace pto {
namespace {

using ::pto::testing::GraphTestTarget;
using ::pto::testing::HasReason;
using ::pto::testing::IsOk;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::shared_ptr<const GraphImage> Compile(const std::string& text) {
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
  const std::shared_ptr<const GraphImage> image = Compile(R"(
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
  const std::shared_ptr<const GraphImage> image =
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

// Page by page, all edges come once, however small the pages.
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
  const std::shared_ptr<const GraphImage> image = Compile(text);
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
      // One task alone may be larger than that.
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
  const std::shared_ptr<const GraphImage> image =
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

}  // namespace
}  // namespace pto
