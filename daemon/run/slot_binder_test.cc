#include "daemon/run/slot_binder.h"

#include <memory>
#include <string>

#include "gtest/gtest.h"
#include "runtime/base/error.h"
#include "runtime/base/status_matchers.h"
#include "runtime/chip/sim/sim_memory.h"
#include "runtime/graph/builder.h"
#include "runtime/graph/graph_testing.h"

namespace pto::daemon {
namespace {

using ::pto::engine::testing::GraphTestTarget;
using ::pto::testing::HasReason;
using ::pto::testing::IsOk;

// A graph that notifies a signal in slot `word`, uses slot `half` on chip 0, and has a slot that
// no task uses.
std::shared_ptr<const engine::GraphImage> Image() {
  engine::GraphBuilder builder(GraphTestTarget());
  const uint32_t word = builder.AddLayout(PTO_I32, {}, {}).value();
  const uint32_t half = builder.AddLayout(PTO_F16, {4}, {}).value();
  const uint32_t signal = builder.AddTensor(builder.AddSlot("word"), word, 0).value();
  const uint32_t data = builder.AddTensor(builder.AddSlot("half"), half, 0).value();
  builder.AddTensor(builder.AddSlot("unused"), half, 0).value();
  engine::ScalarInput one;
  one.kind = engine::ScalarInput::Kind::kInteger;
  one.i64 = 1;
  const std::vector<engine::ScalarInput> scalars = {one, one};
  engine::TaskInput task;
  task.kernel = builder.AddKernel("notify").value();
  task.args = absl::MakeConstSpan(&signal, 1);
  task.scalars = scalars;
  builder.AddTask(task).value();
  engine::TaskInput cube;
  cube.kernel = builder.AddKernel("cube").value();
  cube.args = absl::MakeConstSpan(&data, 1);
  builder.AddTask(cube).value();
  return builder.Build().value();
}

BufferMap Buffers(uint32_t word_chip, uint32_t half_chip, uint64_t word_bytes = 4) {
  BufferMap buffers;
  const auto add = [&](const std::string& id, uint32_t chip, uint64_t bytes) {
    auto buffer = std::make_shared<SessionBuffer>();
    buffer->id = id;
    buffer->memory = engine::SimMemory::Create(chip, 1 << 20)->Allocate(bytes).value();
    buffers[id] = std::move(buffer);
  };
  add("word", word_chip, word_bytes);
  add("half", half_chip, 8);
  return buffers;
}

TEST(SlotBinderTest, ASignalMayBeOnAnyChip) {
  const std::shared_ptr<const engine::GraphImage> image = Image();
  for (const uint32_t chip : {0u, 1u}) {
    const auto bound = BindSlots(*image, {}, Buffers(chip, 0), "sessions/s");
    ASSERT_THAT(bound, IsOk());
    EXPECT_EQ((*bound)->slots[0].memory->chip(), chip);
    EXPECT_EQ((*bound)->slots[2].memory, nullptr);
    EXPECT_EQ((*bound)->buffers.size(), 2u);
  }
}

TEST(SlotBinderTest, WhatCoresUseMayNot) {
  const auto bound = BindSlots(*Image(), {}, Buffers(0, 1), "sessions/s");
  EXPECT_THAT(bound, HasReason(reason::kBufferOnOtherChip));
}

TEST(SlotBinderTest, ASignalNeedsItsBytesToo) {
  const auto bound = BindSlots(*Image(), {}, Buffers(1, 0, 3), "sessions/s");
  EXPECT_THAT(bound, HasReason(reason::kTensorOutOfBounds));
}

}  // namespace
}  // namespace pto::daemon
