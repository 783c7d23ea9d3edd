#include "runtime/graph/image.h"

#include <cstddef>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/graph/builder.h"
#include "runtime/graph/graph_testing.h"

namespace pto::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::IsEmpty;

// axpy, step and nop: a chain with a side branch, on two chips.
std::shared_ptr<const GraphImage> MakeImage() {
  GraphBuilder builder(engine::testing::GraphTestTarget());
  const uint32_t axpy = builder.AddKernel("axpy").value();
  const uint32_t step = builder.AddKernel("step").value();
  const uint32_t nop = builder.AddKernel("nop").value();
  const uint32_t layout = builder.AddLayout(PTO_F32, {4, 8}, {}).value();
  const uint32_t slot = builder.AddSlot("data");
  std::vector<uint32_t> args;
  for (const int64_t offset : {0, 32, 64}) {
    args.push_back(builder.AddTensor(slot, layout, offset).value());
  }
  ScalarInput count;
  count.kind = ScalarInput::Kind::kInteger;
  count.i64 = -7;
  ScalarInput named;
  named.kind = ScalarInput::Kind::kNamed;
  named.named = builder.AddScalar("count", count);
  ScalarInput half;
  half.f64 = 0.5;

  TaskInput first;
  first.kernel = axpy;
  first.args = args;
  first.scalars = absl::MakeConstSpan(&half, 1);
  first.name = "first";
  builder.AddTask(first).value();

  const ScalarInput step_scalars[] = {half, named};
  const uint32_t zero[] = {0};
  TaskInput second;
  second.kernel = step;
  second.args = absl::MakeConstSpan(&args[1], 1);
  second.scalars = step_scalars;
  second.dependencies = zero;
  second.block_num = 3;
  builder.AddTask(second).value();

  const uint32_t both[] = {1, 0};
  TaskInput third;
  third.kernel = nop;
  third.chip = 1;
  third.dependencies = both;
  third.name = "third";
  builder.AddTask(third).value();
  return builder.Build().value();
}

void ExpectMeaning(const GraphImage& image) {
  ASSERT_EQ(image.task_count(), 3u);
  EXPECT_EQ(image.edge_count(), 3u);
  EXPECT_TRUE(image.has_multi_block_tasks());
  EXPECT_THAT(image.roots(), ElementsAre(0));
  EXPECT_THAT(image.chips(), ElementsAre(0, 1));
  EXPECT_THAT(image.successors(0), ElementsAre(1, 2));
  EXPECT_THAT(image.successors(1), ElementsAre(2));
  EXPECT_THAT(image.successors(2), IsEmpty());
  EXPECT_EQ(image.tasks()[0].dependencies, 0u);
  EXPECT_EQ(image.tasks()[1].dependencies, 1u);
  EXPECT_EQ(image.tasks()[2].dependencies, 2u);
  EXPECT_EQ(image.tasks()[1].core, PTO_MIX);
  EXPECT_EQ(image.tasks()[1].block_num, 3u);
  EXPECT_EQ(image.task_name(0), "first");
  EXPECT_EQ(image.task_name(1), "");
  EXPECT_EQ(image.task_name(2), "third");
  EXPECT_STREQ(image.kernel(1).name, "step");
  ASSERT_EQ(image.kernels().size(), 3u);
  EXPECT_EQ(image.text(image.kernels()[0].name), "axpy");
  EXPECT_EQ(image.kernels()[0].arg_count, 3u);
  EXPECT_THAT(image.args(0), ElementsAre(0, 1, 2));
  EXPECT_THAT(image.args(1), ElementsAre(1));
  EXPECT_THAT(image.args(2), IsEmpty());
  ASSERT_EQ(image.slots().size(), 1u);
  EXPECT_EQ(image.text(image.slots()[0].name), "data");
  EXPECT_EQ(image.slots()[0].min_bytes, 96u * 4);
  EXPECT_EQ(image.slots()[0].largest_tensor, 2u);
  EXPECT_EQ(image.layouts()[image.tensors()[2].layout].extent, 32);
  EXPECT_EQ(image.tensors()[2].offset, 64);

  ASSERT_EQ(image.scalar_names().size(), 1u);
  EXPECT_EQ(image.text(image.scalar_names()[0].name), "count");
  EXPECT_EQ(image.scalar_names()[0].type, static_cast<uint32_t>(PTO_INTEGER));
  EXPECT_EQ(static_cast<int64_t>(image.scalar_values()[0]), -7);
  EXPECT_EQ(image.scalar_refs(1)[1], 0u);
  double rate = 0;
  std::memcpy(&rate, &image.scalar_values()[image.scalar_refs(1)[0]], sizeof rate);
  EXPECT_EQ(rate, 0.5);
}

TEST(ImageTest, SaysWhatWasBuilt) { ExpectMeaning(*MakeImage()); }

TEST(ImageTest, SaysWhetherAllTasksAreAlike) {
  const auto alike = [](const std::vector<TaskInput>& tasks) {
    GraphBuilder builder(engine::testing::GraphTestTarget());
    const uint32_t nop = builder.AddKernel("nop").value();
    for (TaskInput task : tasks) {
      task.kernel = nop;
      builder.AddTask(task).value();
    }
    return (*builder.Build())->alike();
  };
  TaskInput plain, cube, blocks, other_chip;
  cube.core = PTO_AIC;
  blocks.block_num = 2;
  other_chip.chip = 1;
  EXPECT_TRUE(alike({plain}));
  EXPECT_TRUE(alike({plain, plain}));
  EXPECT_TRUE(alike({cube, cube}));
  EXPECT_TRUE(alike({other_chip, other_chip}));
  EXPECT_FALSE(alike({plain, cube}));
  EXPECT_FALSE(alike({plain, blocks}));
  EXPECT_FALSE(alike({plain, other_chip}));
}

TEST(ImageTest, MeansTheSameElsewhere) {
  std::unique_ptr<GraphImage> copy;
  {
    const std::shared_ptr<const GraphImage> image = MakeImage();
    std::vector<std::shared_ptr<const Kernel>> kernels;
    for (const ImageKernel& kernel : image->kernels()) {
      kernels.push_back(engine::testing::GraphTestKernels().Find(image->text(kernel.name)));
    }
    BigVector<std::byte> bytes;
    bytes.append(image->data());
    copy = std::make_unique<GraphImage>(std::move(bytes), std::move(kernels));
    ASSERT_NE(copy->data().data(), image->data().data());
  }
  // The first image is gone, so nothing can point into it.
  ExpectMeaning(*copy);
}

TEST(ImageTest, TheSameGraphIsTheSameBytes) {
  const std::shared_ptr<const GraphImage> one = MakeImage();
  const std::shared_ptr<const GraphImage> two = MakeImage();
  EXPECT_THAT(one->data(), ElementsAreArray(two->data()));
  EXPECT_EQ(one->bytes(), one->data().size());
}

TEST(ImageTest, TextOfTasksWithoutNamesIsNotKept) {
  GraphBuilder builder(engine::testing::GraphTestTarget());
  TaskInput task;
  task.kernel = builder.AddKernel("nop").value();
  builder.AddTask(task).value();
  const std::shared_ptr<const GraphImage> image = builder.Build().value();
  EXPECT_EQ(image->task_name(0), "");
  EXPECT_FALSE(image->has_multi_block_tasks());
}

}  // namespace
}  // namespace pto::engine
