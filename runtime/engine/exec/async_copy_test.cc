#include "runtime/engine/exec/async_copy.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "kernels/builtin.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/testing/engine_testing.h"
#include "runtime/graph/builder.h"

namespace pto::engine {
namespace {

using ::pto::engine::testing::MakeTestChips;

// A megabyte from one chip to another, transposed: in pieces, so that others have their turn.
TEST(AsyncCopyTest, LargeCopiesBetweenChipsAreDoneInPieces) {
  constexpr int64_t kRows = 512;
  constexpr int64_t kColumns = 1024;
  KernelRegistry kernels;
  for (const pto_kernel_info& info : kernels::ControlKernels()) {
    ASSERT_TRUE(kernels.Add(info).ok());
  }
  GraphTarget target;
  target.kernels = &kernels;
  target.chip_clusters = {1, 1};
  GraphBuilder builder(target);
  const uint32_t kernel = builder.AddKernel("copy_async").value();
  const uint32_t to_slot = builder.AddSlot("to");
  const uint32_t from_slot = builder.AddSlot("from");
  const uint32_t rows = builder.AddLayout(PTO_U16, {kRows, kColumns}, {}).value();
  const uint32_t transposed = builder.AddLayout(PTO_U16, {kRows, kColumns}, {1, kRows}).value();
  const uint32_t args[] = {builder.AddTensor(to_slot, transposed, 0).value(),
                           builder.AddTensor(from_slot, rows, 0).value()};
  TaskInput task;
  task.kernel = kernel;
  task.args = args;
  ASSERT_TRUE(builder.AddTask(task).ok());

  Engine::Options options;
  options.chips = MakeTestChips(target.chip_clusters);
  const std::shared_ptr<HostAllocation> from =
      options.chips[0]->memory().AllocateHost(kRows * kColumns * 2).value();
  const std::shared_ptr<HostAllocation> to =
      options.chips[1]->memory().AllocateHost(kRows * kColumns * 2).value();
  auto* const in = reinterpret_cast<uint16_t*>(from->data());
  for (int64_t i = 0; i < kRows * kColumns; ++i) in[i] = static_cast<uint16_t>(i * 7);
  Engine engine(std::move(options));
  RunSpec spec;
  spec.image = builder.Build().value();
  spec.slots = std::make_shared<RunSlots>(RunSlots{{to, 0}, {from, 0}});
  std::shared_ptr<pto::engine::Run> run = engine.Prepare(std::move(spec));
  engine.Start(run);
  int steps = 0;
  while (engine.RunOne()) ++steps;
  EXPECT_EQ(run->state(), RunState::kSucceeded);
  EXPECT_GE(steps, 4);
  const auto* const out = reinterpret_cast<const uint16_t*>(to->data());
  int64_t wrong = 0;
  for (int64_t r = 0; r < kRows; ++r) {
    for (int64_t c = 0; c < kColumns; ++c) {
      if (out[c * kRows + r] != in[r * kColumns + c]) ++wrong;
    }
  }
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace pto::engine
