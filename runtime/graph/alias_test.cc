#include "runtime/graph/alias.h"

#include <memory>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/graph/builder.h"
#include "runtime/graph/graph_testing.h"

namespace pto::engine {
namespace {

using ::pto::engine::testing::GraphTestTarget;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// out = alpha x + y, 16 floats each, all from the first byte of slots of those names.
std::shared_ptr<const GraphImage> Axpy(bool find_dependencies = true) {
  GraphBuilder::Options options;
  options.find_dependencies = find_dependencies;
  GraphBuilder builder(GraphTestTarget(), options);
  const uint32_t layout = builder.AddLayout(PTO_F32, {16}, {}).value();
  std::vector<uint32_t> args;
  for (const char* name : {"out", "x", "y"}) {
    args.push_back(builder.AddTensor(builder.AddSlot(name), layout, 0).value());
  }
  const ScalarInput alpha;
  TaskInput task;
  task.kernel = builder.AddKernel("axpy").value();
  task.args = args;
  task.scalars = absl::MakeConstSpan(&alpha, 1);
  builder.AddTask(task).value();
  return builder.Build().value();
}

class AliasTest : public ::testing::Test {
 protected:
  const std::shared_ptr<const GraphImage> image_ = Axpy();
  const char memory_[2] = {};
  const void* const a_ = &memory_[0];
  const void* const b_ = &memory_[1];
};

TEST_F(AliasTest, AnImageKnowsWhatIsReadAndWritten) {
  ASSERT_EQ(image_->slot_uses().size(), 3u);
  EXPECT_EQ(image_->slot_uses()[0].written, (ByteRange{0, 64}));
  EXPECT_TRUE(image_->slot_uses()[0].read.empty());
  EXPECT_EQ(image_->slot_uses()[2].read, (ByteRange{0, 64}));
  EXPECT_TRUE(image_->slot_uses()[2].written.empty());
  EXPECT_TRUE(image_->finds_dependencies());
  EXPECT_FALSE(Axpy(false)->finds_dependencies());
}

TEST_F(AliasTest, SlotsSideBySideAreNone) {
  EXPECT_THAT(FindAliases(*image_, {{a_, 0}, {a_, 64}, {b_, 0}}), IsEmpty());
  EXPECT_THAT(FindAliases(*image_, {{a_, 128}, {a_, 64}, {a_, 192}}), IsEmpty());
}

TEST_F(AliasTest, ReadingTheSameIsNone) {
  EXPECT_THAT(FindAliases(*image_, {{b_, 0}, {a_, 0}, {a_, 32}}), IsEmpty());
}

TEST_F(AliasTest, OneByteIsEnough) {
  EXPECT_THAT(FindAliases(*image_, {{a_, 63}, {a_, 0}, {b_, 0}}),
              ElementsAre(SlotPlace{0, 63}, SlotPlace{0, 0}, SlotPlace{2, 0}));
  EXPECT_THAT(FindAliases(*image_, {{a_, 0}, {b_, 0}, {a_, 63}}),
              ElementsAre(SlotPlace{0, 0}, SlotPlace{1, 0}, SlotPlace{0, 63}));
}

TEST_F(AliasTest, ThePlacesDoNotDependOnWhereItIs) {
  const SlotPlaces places = FindAliases(*image_, {{a_, 100}, {a_, 132}, {b_, 0}});
  EXPECT_THAT(places, ElementsAre(SlotPlace{0, 0}, SlotPlace{0, 32}, SlotPlace{2, 0}));
  EXPECT_EQ(FindAliases(*image_, {{b_, 7}, {b_, 39}, {a_, 500}}), places);
}

TEST_F(AliasTest, ASlotThatIsNotUsedIsNone) {
  EXPECT_THAT(FindAliases(*image_, {{nullptr, 0}, {nullptr, 0}, {a_, 0}}), IsEmpty());
}

}  // namespace
}  // namespace pto::engine
