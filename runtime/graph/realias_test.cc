#include "runtime/graph/realias.h"

#include <memory>
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
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr uint64_t kMany = 1000;

// Tasks on 16 bytes of each of the slots a, b and c; `step` reads and writes one tensor.
class RealiasTest : public ::testing::Test {
 protected:
  RealiasTest() {
    step_ = builder_.AddKernel("step").value();
    const uint32_t layout = builder_.AddLayout(PTO_I8, {16}, {}).value();
    for (const char* name : {"a", "b", "c"}) {
      tensors_.push_back(builder_.AddTensor(builder_.AddSlot(name), layout, 0).value());
    }
  }

  void Step(uint32_t slot, const char* name = "", std::vector<uint32_t> after = {}) {
    ScalarInput scalars[2];
    scalars[1].kind = ScalarInput::Kind::kInteger;
    TaskInput task;
    task.kernel = step_;
    task.args = absl::MakeConstSpan(&tensors_[slot], 1);
    task.scalars = scalars;
    task.dependencies = after;
    task.name = name;
    builder_.AddTask(task).value();
  }

  GraphBuilder builder_{GraphTestTarget()};
  uint32_t step_ = 0;
  std::vector<uint32_t> tensors_;
};

TEST_F(RealiasTest, SlotsThatOverlapOrderTheirTasks) {
  for (const uint32_t slot : {0, 1, 2, 0, 1, 2}) Step(slot);
  const std::shared_ptr<const GraphImage> image = builder_.Build().value();
  EXPECT_THAT(image->roots(), ElementsAre(0, 1, 2));
  const std::shared_ptr<const GraphImage> found =
      Realias(*image, {{0, 0}, {0, 8}, {2, 0}}, kMany).value();
  EXPECT_THAT(found->roots(), ElementsAre(0, 2));
  EXPECT_THAT(found->successors(0), ElementsAre(1, 3));
  EXPECT_THAT(found->successors(1), ElementsAre(3, 4));
  EXPECT_THAT(found->successors(2), ElementsAre(5));
  EXPECT_THAT(found->successors(3), ElementsAre(4));
  EXPECT_THAT(found->successors(4), IsEmpty());
  EXPECT_EQ(found->tasks()[1].dependencies, 1u);
  EXPECT_EQ(found->tasks()[4].dependencies, 2u);
  // Adjacent slots change nothing.
  const std::shared_ptr<const GraphImage> same =
      Realias(*image, {{0, 0}, {0, 16}, {2, 0}}, kMany).value();
  EXPECT_EQ(same->edge_count(), image->edge_count());
  EXPECT_THAT(same->roots(), ElementsAre(0, 1, 2));
}

TEST_F(RealiasTest, AllElseStaysAsItIs) {
  Step(0, "first");
  Step(1, "second");
  Step(2, "third", {0});
  const std::shared_ptr<const GraphImage> image = builder_.Build().value();
  const std::shared_ptr<const GraphImage> found =
      Realias(*image, {{0, 0}, {0, 0}, {2, 0}}, kMany).value();
  EXPECT_THAT(found->successors(0), ElementsAre(1, 2));  // including the named one
  EXPECT_EQ(found->task_name(1), "second");
  EXPECT_EQ(found->FindSlot("c"), 2u);
  EXPECT_EQ(found->kernel(2).name, image->kernel(2).name);
  EXPECT_EQ(found->scalar_refs(1), image->scalar_refs(1));
  EXPECT_EQ(found->args(1), image->args(1));
  EXPECT_TRUE(found->finds_dependencies());
  EXPECT_EQ(found->slot_uses()[1].written, (ByteRange{0, 16}));
}

TEST_F(RealiasTest, TooMany) {
  for (const uint32_t slot : {0, 1, 2, 0, 1, 2}) Step(slot);
  const std::shared_ptr<const GraphImage> image = builder_.Build().value();
  EXPECT_THAT(Realias(*image, {{0, 0}, {0, 0}, {0, 0}}, 4), HasReason(reason::kGraphTooLarge));
}

}  // namespace
}  // namespace pto::engine
